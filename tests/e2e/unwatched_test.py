"""`run` exits while trials run. The next command that reads the run records how these trials ended."""

import contextlib
import json
import sqlite3
from datetime import datetime, timedelta

import pytest
from engines import wait_until
from resume_test import at_work, lab

__all__ = ["at_work", "lab"]

CODES = {"good": 0, "bad": 3}


def finished_at(engine):
    """Returns {name: timestamp of the container's end by the engine}, in microseconds."""
    return {name: container["State"]["FinishedAt"][:26] for name, container in engine.containers().items()}


def ended_at(combu):
    """Returns {name: (ended_at, exit code, cause, reason)} from the record's tables, so that no command reconciles them."""
    path = combu.home / ".local/state/combu/record.sqlite"
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as database:
        rows = database.execute("SELECT name, ended_at, exit_code, cause, attempts.reason FROM attempts JOIN trials USING (run, trial)")
        return {row[0]: row[1:] for row in rows}


def moment(microseconds):
    return datetime.utcfromtimestamp(0) + timedelta(microseconds=microseconds)


@pytest.fixture
def left(combu, engine):
    """A run without an owner. Two of its trials have ended, the third is running. Returns {trial: time of its end}."""
    (combu.home / "left").mkdir()
    combu.write(
        [
            {
                "name": name,
                "image": "combu-test",
                "volumes": [f"{combu.home / 'left'}:/left"],
                "cmd": ["sh", "-c", f"until [ -e /left/now ]; do sleep 0.05; done; exit {code}"],
            }
            for name, code in CODES.items()
        ]
        + [{"name": "on", "image": "combu-test", "cmd": "sleep 600"}]
    )
    combu("run")
    (combu.home / "left/now").touch()
    wait_until(lambda: engine.running() == {"on"}, "two ends")
    return {name: datetime.fromisoformat(at) for name, at in finished_at(engine).items() if name in CODES}


def check(combu, left):
    on_record = ended_at(combu)
    for name, code in CODES.items():
        assert on_record[name][1:3] == (code, "error" if code else "none")
        assert abs(moment(on_record[name][0]) - left[name]) <= timedelta(microseconds=2)
    return on_record


@pytest.mark.parametrize("arguments", [("ps",), ("why", "bad"), ("wait", "good"), ("kill",), ("retry", "--failed")], ids=" ".join)
def test_a_command_that_reads_the_run_records_the_ends(combu, engine, left, arguments):
    assert {name: row[0] for name, row in ended_at(combu).items() if name in CODES} == dict.fromkeys(CODES)
    combu(*arguments)
    if arguments[0] == "retry":
        wait_until(lambda: engine.running() == {"on"}, "the second end")
    else:
        on_record = check(combu, left)
        if arguments[0] == "kill":
            assert on_record["on"][1:] == (None, "stopped", "removed by `combu kill`")
        else:
            assert on_record["on"][0] is None
    rows = combu.ps()
    assert {name: rows[name]["exit_code"] for name in CODES} == CODES
    assert rows["good"]["state"] == "succeeded" and rows["bad"]["state"] == "failed"
    assert 0 < rows["good"]["seconds"] < 60
    assert rows["bad"]["attempt"] == (2 if arguments[0] == "retry" else 1)


def test_the_ends_of_a_run_are_recorded_before_another_run_replaces_it(combu, engine, left):
    first = combu.ps()["on"]["run"]
    combu("stop", "on")
    combu("run")
    rows = {row["trial"]: row for row in map(json.loads, combu("ps", "--json", "--run", first).stdout.splitlines())}
    assert {name: row["exit_code"] for name, row in rows.items()} == {**CODES, "on": 143}
    assert rows["on"]["state"] == "stopped" and rows["on"]["cause"] == "stopped"


def test_a_run_whose_trials_have_ended_is_over(combu, engine):
    combu.write([{"name": "one", "image": "combu-test", "cmd": "true"}])
    combu("run")
    wait_until(lambda: engine.running() == set(), "its end")
    combu("ps")
    assert "has ended: 1 succeeded" in combu("run", "--resume").stderr
    assert combu("rm", combu.ps()["one"]["run"]).stderr == "removed 1 run from the record\n"


def test_rm_records_the_ends_first(combu, engine, left):
    run = combu.ps()["on"]["run"]
    assert "it has not ended" in combu("rm", run, code=1).stderr
    engine.ask("POST", f"/containers/{engine.containers()['on']['Id']}/kill")
    wait_until(lambda: engine.running() == set(), "the last end")
    assert combu("rm", run).stderr == "removed 1 run from the record\n"
    assert set(engine.containers()) == {*CODES, "on"}


@pytest.mark.engine_version
def test_an_exit_code_of_a_signal_is_no_host_loss_if_the_engine_was_up(combu, engine):
    """`odd` exits with 137 by itself; `held` is stopped through the engine."""
    trial = {"name": "odd", "image": "combu-test", "cmd": ["sh", "-c", "sleep 0.5; exit 137"]}
    combu.write([trial, {**trial, "name": "held", "cmd": "sleep 600"}])
    combu("run")
    wait_until(lambda: engine.running() == {"held"}, "its end")
    engine.ask("POST", "/containers/held/stop?t=0")
    rows = combu.ps()
    assert (rows["odd"]["cause"], rows["odd"]["reason"]) == ("error", "exit code 137, SIGKILL")
    assert rows["held"]["exit_code"] in (137, 143) and rows["held"]["cause"] in ("error", "stopped")


def test_a_trial_that_waits_for_its_retry_has_the_time_of_its_end(combu, engine, at_work, lab):
    lab.hold("one")
    combu.write([lab.trial("one", 3, retries={"max": 2, "on": ["error"], "backoff": {"initial": 0}})])
    running = at_work(combu.start("run", "--wait"))
    wait_until(lambda: engine.running() == {"one"}, "its start")
    running.kill()
    running.communicate()
    lab.let_go("one")
    wait_until(lambda: engine.running() == set(), "its end")
    end = datetime.fromisoformat(finished_at(engine)["one"])
    assert combu.ps()["one"]["state"] == "retrying"
    assert abs(moment(ended_at(combu)["one"][0]) - end) <= timedelta(microseconds=2)
    assert "is retried" in combu("why", "one").stdout
    assert combu("run", "--resume", code=1).returncode == 1
    assert combu.ps()["one"]["attempt"] == 3


def test_a_stopped_trial_is_not_retried(combu, engine, at_work):
    """This also holds if the run has no owner and the trial has retries."""
    combu.write([{"name": "one", "image": "combu-test", "cmd": "sleep 600", "retries": 3}])
    running = at_work(combu.start("run", "--wait"))
    wait_until(lambda: engine.running() == {"one"}, "its start")
    wait_until(lambda: ended_at(combu), "its start on record")
    running.kill()
    running.communicate()
    combu("stop", "one")
    row = combu.ps()["one"]
    assert (row["state"], row["cause"], row["exit_code"]) == ("stopped", "stopped", 143)
    assert "`combu stop`" in row["reason"]
    assert "has ended: 1 stopped" in combu("run", "--resume", code=1).stderr
    assert engine.running() == set()


def test_trials_that_a_failure_blocks_are_recorded_as_blocked(combu, engine, lab):
    lab.hold("bad")
    combu.write([lab.trial("bad", 3), lab.trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])])
    running = combu.start("run")
    wait_until(lambda: engine.running() == {"bad"}, "its start")
    running.kill()
    running.communicate()
    lab.let_go("bad")
    wait_until(lambda: engine.running() == set(), "its end")
    assert combu.ps()["after"]["state"] == "blocked"
    assert combu("why", "after").stdout.startswith("after is blocked: depends on `bad`, which did not succeed")


def test_a_starting_trial_gets_its_start_time_from_the_engine(combu, engine, lab):
    """The record is changed as if combu was killed before it recorded the starts. No trial has to end for this."""
    names = ("on", "over", "on-too")
    lab.hold(*names)
    combu.write([lab.trial(name) for name in names])
    combu("run")
    lab.change("UPDATE attempts SET ran_at = NULL, started_at = started_at - 1000000, ready_at = ready_at - 1000000")
    assert {row["state"] for row in combu.ps().values()} == {"running"}
    assert all(at for (at,) in lab.query("SELECT ran_at FROM attempts"))
    lab.change("UPDATE attempts SET ran_at = NULL")
    lab.let_go("over")
    wait_until(lambda: engine.running() == {"on", "on-too"}, "an end")
    states = {name: container["State"] for name, container in engine.containers().items()}
    assert {name: row["state"] for name, row in combu.ps().items()} == {"on": "running", "over": "succeeded", "on-too": "running"}
    on_record = dict(lab.query("SELECT name, ran_at FROM attempts JOIN trials USING (run, trial)"))
    for name, at in on_record.items():
        assert abs(moment(at) - datetime.fromisoformat(states[name]["StartedAt"][:26])) <= timedelta(microseconds=2)


def test_trials_whose_ends_cannot_be_recorded_are_not_marked_as_killed(combu, engine, left, lab):
    lab.change("UPDATE texts SET evaluated = '[17]'")
    refused = combu("kill", code=1).stderr
    assert "combu could not record how the trials of run " in refused
    assert {line.split(":")[1] for line in refused.splitlines() if line.startswith("not removed: ")} == {" good", " bad", " on"}
    assert "`kill --discard`" in refused
    assert engine.names() == {"good", "bad", "on"}, "nobody has their logs yet"
    assert engine.running() == set()
    combu("kill", "--discard")
    assert engine.names() == set()
    assert {row[3] for row in ended_at(combu).values()} == {None}


def test_a_run_that_cannot_replace_an_earlier_run_ends(combu, engine, lab, tmp_path):
    (tmp_path / "hold").mkdir()
    waits = "until [ -e /hold/go ]; do sleep 0.05; done"
    combu.write([{"name": "one", "image": "combu-test", "cmd": ["sh", "-c", waits], "volumes": [f"{tmp_path / 'hold'}:/hold"]}])
    combu("run", "--run-id", "first")
    (tmp_path / "hold/go").touch()
    wait_until(lambda: engine.running() == set(), "its end")
    lab.change("UPDATE texts SET evaluated = '[17]'")
    combu("run", "--run-id", "second", code=None)
    assert engine.containers()["one"]["Config"]["Labels"]["combu.run"] == "first"
    assert lab.query("SELECT id FROM runs WHERE ended_at IS NULL") == [("first",)]
