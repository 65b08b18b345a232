"""Tests of `retry`: which trials are retried, including the trials that these depend on."""

import json
import subprocess

from conftest import COMBU, SIMULATED, run


def test_retry_without_a_failure(combu, ladder):
    run(combu, ladder, "run", "--wait", "--run-id", "mine")
    nothing = run(combu, ladder, "retry")
    assert (nothing.returncode, nothing.stderr) == (0, "run mine: nothing has failed: 4 succeeded\n")


def test_retry_tries_what_failed_again(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    again = run(combu, failing, "retry", "--wait")
    assert again.returncode == 1
    assert "run mine: 1 trial is retried" in again.stderr
    assert record("SELECT name, state, attempt FROM states ORDER BY trial") == [
        ("good", "succeeded", 1), ("bad", "failed", 2), ("after", "blocked", 1), ("last", "blocked", 1)]


def test_retry_of_a_trial_that_there_is_not(combu, failing):
    run(combu, failing, "run", "--wait")
    wrong = run(combu, failing, "retry", "goood")
    assert (wrong.returncode, wrong.stderr) == (2, "combu: retry goood: matches no trial: did you mean `good`?\n")
    wrong = run(combu, failing, "retry", "state=failed")
    assert (wrong.returncode, wrong.stderr) == (
        2, "combu: retry state=failed: matches no trial: no trial has a param `state`; conditions can use only params, `trial` and `image` here\n")


def test_a_retry_that_is_refused_leaves_the_record_as_it_is(combu, write, record, tmp_path):
    file = write('[{ name: "bad", image: "lab/x", cmd: "sh -c \'exit 3\'", volumes: ["./data/:/data"] }]')
    run(combu, file, "run", "--wait")
    (tmp_path / "data").rmdir()
    (tmp_path / "data").write_text("no folder")
    refused = run(combu, file, "retry", "--wait")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == "nothing was started"
    assert record("SELECT state, attempt, exit_code FROM states") == [("failed", 1, 3)]
    assert record("SELECT count(*) FROM runs WHERE ended_at IS NULL") == [(0,)]


def test_a_retry_brings_back_the_service_of_what_was_blocked(combu, write):
    file = write("""
[{ name: "serv", image: "lab/x", cmd: "sleep 1000000", service: true },
 { name: "bad", image: "lab/x", cmd: "sh -c 'exit 3'" },
 { name: "user", image: "lab/x", cmd: "true", depends: ["serv", { trial: "bad", condition: "finished" }] },
 { name: "never", image: "lab/x", cmd: "true", depends: ["serv", { trial: "bad", condition: "succeeded" }] }]
""")
    run(combu, file, "run", "--wait")
    again = combu("-f", file, "--engine", SIMULATED, "--progress", "json", "retry", "--wait")
    started = [event["trial"] for event in map(json.loads, again.stderr.splitlines())
               if event["event"] == "fact" and event["state"] == "starting"]
    assert sorted(started) == ["bad", "serv"]


def states(record):
    return dict(record("SELECT name, state || ' ' || attempt FROM states"))


def test_a_retry_of_what_was_blocked_brings_what_it_needs(combu, failing, record):
    """Trials on which a blocked trial depends only indirectly are retried too."""
    run(combu, failing, "run", "--wait")
    again = run(combu, failing, "retry", "last", "--wait")
    assert "3 trials are retried" in again.stderr
    assert states(record) == {"good": "succeeded 1", "bad": "failed 2", "after": "blocked 1", "last": "blocked 1"}


def test_a_retry_by_name_leaves_the_rest_that_was_not_started(combu, write, record):
    trials = ", ".join(f'{{ name: "{name}", image: "lab/x", cmd: "sh -c \'exit {code}\'" }}'
                       for name, code in (("bad", 3), ("one", 0), ("two", 0)))
    file = write(f"{{ max_failures: 1, parallel: 1, trials: [{trials}] }}")
    run(combu, file, "run", "--wait")
    assert states(record) == {"bad": "failed 1", "one": "blocked 1", "two": "blocked 1"}
    run(combu, file, "retry", "one", "--wait")
    assert states(record) == {"bad": "failed 1", "one": "succeeded 1", "two": "blocked 1"}


def test_an_env_file_that_is_gone_is_in_the_way_of_starts_only(combu, write, record, tmp_path):
    file = write("""
[{ name: "one", image: "lab/x", cmd: "sleep 1000", env_file: "e.env" },
 { name: "two", image: "lab/x", cmd: "true", env_file: "e.env", depends: [{ trial: "one", condition: "finished" }] }]
""")
    (tmp_path / "e.env").write_text("A=1\n")
    engine = "simulated:?speed=1&start=0.01"
    process = subprocess.Popen([COMBU, "-f", file, "--engine", engine, "--progress", "json", "run", "--wait", "--run-id", "mine"],
                               env={"HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert any('"snapshot"' in line and json.loads(line)["counts"]["running"] == 1 for line in process.stderr)
    finally:
        process.kill()
        process.communicate()
    (tmp_path / "e.env").unlink()
    resumed = combu("-f", file, "--engine", engine, "run", "--resume")
    assert resumed.returncode == 2 and "[1].env_file: cannot read" in resumed.stderr
    assert states(record) == {"one": "stopped 1", "two": "waiting 1"}  # the simulated engine ended
    for command in (("ps",), ("why", "two")):
        looked = combu("-f", file, "--engine", engine, *command)
        assert (looked.returncode, looked.stderr) == (0, "")
    retried = combu("-f", file, "--engine", engine, "retry")
    assert retried.returncode == 2 and ".env_file: cannot read" in retried.stderr
    assert states(record) == {"one": "stopped 1", "two": "waiting 1"}
    (tmp_path / "e.env").write_text("A=2\n")
    assert combu("-f", file, "--engine", engine, "run", "--resume").returncode == 1
    assert states(record) == {"one": "stopped 1", "two": "succeeded 1"}


def test_a_retry_has_the_deadline_and_the_failures_to_itself(combu, write, record):
    trials = ", ".join(f'{{ name: "bad-{i}", image: "lab/x", cmd: "sh -c \'exit 3\'" }}' for i in range(3))
    file = write(f"{{ max_failures: 1, trials: [{trials}] }}")
    combu("-f", file, "--engine", SIMULATED, "run", "--wait", "-p", "false")
    run(combu, file, "retry", "bad-0", "--wait")
    assert record("SELECT name, state, attempt, exit_code FROM states ORDER BY trial")[0] == ("bad-0", "failed", 2, 3)


def test_another_engine_is_not_gone_on_with(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    other = combu("-f", failing, "--engine", SIMULATED + "&seed=2", "retry")
    assert other.returncode == 1
    assert other.stderr == (f"combu: run mine: must continue on its engine {SIMULATED}, not on {SIMULATED}&seed=2; "
                            "leave out --engine\n")
