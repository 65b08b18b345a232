"""Tests of `logs` of containers that have been removed."""

import json

import pytest
from conftest import SIMULATED, run

ECHO = """
[{ name: "one", image: "lab/x", cmd: "echo WORD" }]
"""


def test_kept_logs_are_found_without_the_file(combu, write):
    """The log is that of the newest run in which the trial was started."""
    for number, word in enumerate(["first", "second"]):
        run(combu, write(ECHO.replace("WORD", word)), "run", "--wait", "--run-id", f"r{number}")
    blocked = """[{ name: "gate", image: "lab/x", cmd: "false" },
                  { name: "one", image: "lab/x", cmd: "true", depends: [{ trial: "gate", condition: "succeeded" }] }]"""
    run(combu, write(blocked), "run", "--wait", "--run-id", "r2")
    log = combu("--engine", SIMULATED, "logs", "one")
    assert (log.returncode, log.stdout, log.stderr) == (0, "second\n", "")
    write(ECHO.replace("WORD", "other"), "other/experiment.jsonnet")
    run(combu, "other/experiment.jsonnet", "run", "--wait", "--run-id", "r3")
    several = combu("--engine", SIMULATED, "logs", "one")
    assert several.returncode == 2 and "one: matches trials of several experiments (" in several.stderr, several.stderr
    assert combu("--engine", SIMULATED, "logs", "nosuch").returncode == 1


def test_logs_says_that_no_log_was_to_be_stored(combu, write):
    file = write("""{ defaults: { image: "lab/x", logs: { max_size: 0 } }, trials: [
        { name: "one", cmd: "echo word" },
        { name: "two", cmd: "sh -c 'echo last words; false'" },
        { name: "three", cmd: "echo word", logs: { max_size: "1m" } }] }""")
    done = run(combu, file, "run", "--wait", "--run-id", "mine")
    assert done.returncode == 1 and "last words" in done.stderr, "the note of a failure has the last lines"
    for trial in ("one", "two"):
        log = run(combu, file, "logs", trial)
        assert (log.returncode, log.stdout, log.stderr) == (
            1, "", f"combu: {trial}: combu has stored no log, because `logs.max_size` is 0; only the trial's container had the log\n")
    assert run(combu, file, "logs").stdout == "three | word\n"


TALKING = """
[{ name: "talk-%d" % i, image: "lab/x", cmd: "sh -c 'echo out %d; echo err %d >&2'" % [i, i] } for i in [2, 1, 3]] +
[{ name: "other", image: "lab/x", cmd: "echo other" }]
"""


@pytest.fixture
def talking_logs(combu, write):
    """talking_logs(arguments…) returns (exit code, stdout, stderr) of `logs` after a run of TALKING."""
    file = write(TALKING)
    assert run(combu, file, "run", "--wait", "--run-id", "mine").returncode == 0

    def logs(*arguments):
        done = combu("-f", file, "--engine", SIMULATED, "logs", *arguments)
        return done.returncode, done.stdout, done.stderr

    return logs


def test_logs_of_several_trials_stand_behind_their_names(combu, talking_logs):
    """Logs are in the order of the experiment file, independent of the order of the arguments."""
    several = (0, "talk-2 | out 2\ntalk-1 | out 1\nother | other\n", "talk-2 | err 2\ntalk-1 | err 1\n")
    assert talking_logs("other", "talk-[12]") == talking_logs("-f", "other", "talk-2", "talk-1") == several
    named = combu("--engine", SIMULATED, "logs", "--run", "mine", "other", "talk-[12]")
    assert (named.returncode, named.stdout, named.stderr) == several
    lines = [json.loads(line) for line in talking_logs("--json", "talk-*", "--tail", "1")[1].splitlines()]
    assert {line["trial"] for line in lines} == {"talk-1", "talk-2", "talk-3"}
    assert talking_logs("--attempt", "1", "talk-*")[0] == 2


def test_the_log_of_one_trial_is_raw_also_by_a_pattern(talking_logs):
    assert talking_logs("talk-3") == talking_logs("talk-3*") == talking_logs("talk-[3-9]", "talk-3") == (0, "out 3\n", "err 3\n")
    assert talking_logs("talk-3", "nosuch", "neither-*") == (
        1, "out 3\n", "err 3\ncombu: nosuch, neither-*: are not trials of run mine\n")
    assert talking_logs("no-*") == (1, "", "combu: no-*: is not a trial of run mine\n")


def test_stop_names_each_pattern_that_matches_no_container(combu, write):
    file = write(TALKING)
    assert run(combu, file, "run", "--wait", "--run-id", "mine").returncode == 0
    # The simulated engine ended with its process.
    told = run(combu, file, "stop", "talk-*", "other*", "no-*")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.splitlines() == [
        "combu: talk-*: matches 3 trials that have no containers; `combu ps --run mine 'talk-*'` shows the states of the trials",
        "combu: other: has no container: the trial is succeeded in run mine, and the container has been removed",
        "combu: no-*: this engine has no container of the experiment"]


def test_logs_of_a_run_that_there_is_not(combu, write):
    run(combu, write(ECHO), "run", "--wait", "--run-id", "mine")
    for trial in ([], ["one"]):
        log = combu("--engine", SIMULATED, "logs", "--run", "nope", *trial)
        assert (log.returncode, log.stdout) == (1, "")
        assert log.stderr.startswith("combu: run nope: is neither on record nor on this engine"), log.stderr
        assert "mine" not in log.stderr
