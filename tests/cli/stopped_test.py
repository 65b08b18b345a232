"""A trial that a person or a deadline ends is stopped, not failed."""

import json
import re

import pytest

FAST = "simulated:?speed=100"
SLOW = "simulated:?speed=1"

DEADLINE = """
{ deadline: %s, max_failures: 1, trials: [
  { name: "long", image: "lab/x", cmd: "sleep %s" },
  { name: "other", image: "lab/x", cmd: "sleep %s" },
  { name: "after", image: "lab/x", cmd: "true", depends: [{ trial: "long", condition: "succeeded" }] },
  { name: "serv", image: "lab/x", cmd: "sleep 600", service: true }] }
"""


@pytest.fixture
def states(combu):
    def states(file):
        rows = map(json.loads, combu("-f", file, "ps", "--json").stdout.splitlines())
        return {row["trial"]: (row["state"], row["cause"]) for row in rows}

    return states


def test_a_deadline_leaves_no_failure(combu, write, states):
    file = write(DEADLINE % (0.5, 600, 600))
    run = combu("-f", file, "--engine", SLOW, "--progress", "plain", "run", "--wait", "--run-id", "mine")
    assert run.returncode == 1
    # Trials whose ends arrive together have one line.
    stopped = [line for line in run.stderr.splitlines() if line.startswith("stopped: ")]
    assert {name for line in stopped for name in re.findall("long|other", line)} == {"long", "other"}, run.stderr
    assert all(line.endswith(": the run's deadline of 500 ms has passed") for line in stopped), run.stderr
    assert states(file) == {"long": ("stopped", "stopped"), "other": ("stopped", "stopped"),
                            "after": ("blocked", None), "serv": ("stopped", None)}
    assert "run mine has ended: 1 blocked, 3 stopped in " in run.stderr
    assert "failed" not in combu("-f", file, "--engine", FAST, "results").stdout


def test_retry_takes_what_was_stopped_and_what_that_blocked(combu, write, states):
    file = write(DEADLINE % (0.5, 600, 600))
    combu("-f", file, "--engine", SLOW, "run", "--wait", "--run-id", "mine")
    write(DEADLINE % (0.5, 0, 0))
    again = combu("-f", file, "apply", "--failed")
    assert (again.returncode, "2 trials are retried" in again.stderr) == (0, True), again.stderr
    assert {name: state for name, (state, cause) in states(file).items()} == {
        "long": "succeeded", "other": "succeeded", "after": "succeeded", "serv": "stopped"}


def test_a_service_that_ended_in_its_order_is_no_failure(combu, write, states):
    file = write("""[{ name: "serv", image: "lab/x", cmd: "sleep 600", service: true },
                     { name: "one", image: "lab/x", cmd: "sleep 1", depends: ["serv"] }]""")
    assert combu("-f", file, "--engine", FAST, "run", "--wait", "--run-id", "mine").returncode == 0
    assert states(file) == {"serv": ("stopped", None), "one": ("succeeded", None)}
    assert "nothing has failed" in combu("-f", file, "--engine", FAST, "retry").stderr
    assert combu("-f", file, "--engine", FAST, "run", "--resume").returncode == 0


def test_why_without_a_trial_says_every_failure(combu, write):
    file = write("""
    [{ name: "forest-s%d" % i, image: "lab/x", cmd: "echo 'ValueError: x'; exit 1" } for i in std.range(0, 4)] +
    [{ name: "typo", image: "lab/x", cmd: "echo 'sh: pyhton: not found'; exit 127" },
     { name: "good", image: "lab/x", cmd: "true" },
     { name: "report", image: "lab/x", cmd: "true", depends: [{ trial: "forest-s0", condition: "succeeded" }] }]
    """)
    run = combu("-f", file, "--engine", FAST, "--progress", "plain", "run", "--wait", "--run-id", "mine")
    equal = "failed: 5 trials (forest-s[0-4]): exit code 1: ValueError: x\n"
    assert equal in run.stderr
    assert run.stderr.count("  | ValueError: x") == 0 and run.stderr.count(" | ValueError: x\n") == 2
    # The last lines of a log follow directly after its failure.
    lines = run.stderr.splitlines()
    for at, line in enumerate(lines):
        if line.endswith(" | ValueError: x"):
            assert lines[at - 1] == f"failed: {line.split()[0]}: exit code 1"
    why = combu("-f", file, "--engine", FAST, "why")
    assert (why.returncode, why.stdout) == (0, (
        "run mine: 1 succeeded, 6 failed, 1 blocked\n" + equal +
        "failed: typo: exit code 127: command not found: pyhton\n"
        "blocked: report: depends on `forest-s0`, which did not succeed\n"))
    why = combu("-f", file, "--engine", FAST, "why", "forest-s1").stdout
    assert why == "forest-s1 failed: exit code 1: ValueError: x\n"
    why = combu("-f", file, "--engine", FAST, "why", "typo").stdout
    assert why == "typo failed: exit code 127: command not found: pyhton\n"


def test_a_simulated_run_is_marked_and_is_the_last_one_only_if_asked_for(combu, write):
    file = write('[{ name: "one", image: "lab/x", cmd: "true" }]')
    assert combu("-f", file, "--engine", FAST, "run", "--wait", "--run-id", "mine").returncode == 0
    for command in ("results", "why", "show", "events", "times", "retry", "plot loss"):
        asked = combu("-f", file, *command.split(), as_typed=True)
        assert asked.returncode == 1, command
        assert asked.stderr.endswith(
            "the record has only runs on the simulated engine; `--engine simulated:` selects the last one\n")
    for command in ("results", "ps"):
        [row] = map(json.loads, combu("-f", file, "--engine", FAST, command, "--json").stdout.splitlines())
        assert row["simulated"] is True
    for engine in (FAST, "simulated:"):
        assert combu("-f", file, "--engine", engine, "results").stdout.startswith(f"run mine (simulated) of {file}: ")
        assert combu("-f", file, "--engine", engine, "ps").stdout.startswith(f"run mine (simulated) of {file}, ended: ")
