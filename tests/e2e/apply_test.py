"""`combu apply`: the experiment file is edited during its run."""

import json

import pytest
from engines import wait_until
from resume_test import at_work, die, lab

__all__ = ["at_work", "lab"]


def worker(name, seconds=600, **fields):
    return {"name": name, "image": "combu-test", "cmd": ["sleep", str(seconds)], **fields}


def attempts(engine):
    return {name: (c["State"]["Status"], c["Config"]["Labels"]["combu.attempt"], c["Id"]) for name, c in engine.containers().items()}


@pytest.mark.slow
def test_apply_starts_new_trials_stops_removed_ones_and_leaves_the_others(combu, engine):
    combu.write({"parallel": 4, "trials": [worker("stays"), worker("goes"), worker("changes"), worker("ends", 1)]})
    running = combu.start("run", "--wait", "--run-id", "r1")
    try:
        wait_until(lambda: combu.ps().get("ends", {}).get("state") == "succeeded", "the end of one")
        before = attempts(engine)
        combu.write({"parallel": 4, "trials": [worker("stays"), worker("changes", 601), worker("ends", 1), worker("joins", 1)]})
        told = combu("apply").stderr
        assert "1 trial changed, 1 trial is new, 1 trial was removed" in told
        assert "these trials changed, but still run with the earlier definition; `apply --replace` restarts these trials: changes" in told
        wait_until(lambda: combu.ps()["joins"]["state"] == "succeeded", "the end of the one that joins")
        after = attempts(engine)
        assert {name: after[name] for name in ("stays", "changes", "ends")} == {name: before[name] for name in ("stays", "changes", "ends")}
        assert after["goes"][0] == "exited"
        assert running.poll() is None

        assert "1 trial changed" in combu("apply", "--replace").stderr
        wait_until(
            lambda: (row := combu.ps()["changes"])["state"] == "running" and row["attempt"] == 2, "the new attempt"
        )
        assert engine.containers()["changes"]["Config"]["Cmd"] == ["sleep", "601"]
        rows = combu.ps()
        assert (rows["goes"]["state"], rows["goes"]["reason"]) == ("stopped", "removed from the file")
        assert rows["stays"]["state"] == "running" and attempts(engine)["stays"] == before["stays"]

        combu.write([worker("ends", 1), worker("joins", 1)])
        combu("apply")
        _, err = running.communicate(timeout=60)
        assert running.returncode == 0, err
    finally:
        running.kill()
        running.communicate()
    assert engine.running() == set()


def test_apply_continues_a_run_without_an_owner(combu, engine):
    combu.write([worker("stays")])
    combu("run")
    first = attempts(engine)["stays"]
    combu.write([worker("stays"), worker("joins", 1)])
    assert "1 trial is new" in combu("apply").stderr
    assert attempts(engine)["stays"] == first
    wait_until(lambda: combu.ps()["joins"]["state"] == "succeeded", "the end of the one that joins")


def test_apply_records_how_trials_ended_without_an_owner(combu, engine, at_work, lab):
    lab.hold("bad", "on")
    combu.write([lab.trial("bad", 3), lab.trial("on")])
    running = at_work(combu.start("run", "--wait"))
    wait_until(lambda: engine.running() == {"bad", "on"}, "their start")
    lab.wait_for_state("running", "bad", "on")
    die(running)
    lab.let_go("bad")
    wait_until(lambda: engine.running() == {"on"}, "its end")
    lab.let_go("on")
    combu.write([lab.trial("on"), lab.trial("joins")])
    combu("apply", code=1)
    assert lab.states() == {"bad": ("failed", 1, 3), "on": ("succeeded", 1, 0), "joins": ("succeeded", 1, 0)}


STUBBORN = ["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"]


def reasons(lab):
    return dict(lab.query("SELECT name, attempts.reason FROM attempts JOIN trials USING (run, trial) WHERE attempt = 1"))


@pytest.mark.slow
def test_the_run_continues_while_removed_trials_stop_slowly(combu, engine, at_work, lab):
    trials = [worker("stays"), worker("slow", 600, timeout="4s"), worker("goes", cmd=STUBBORN, stop_grace="8s")]
    changes = worker("changes", cmd=STUBBORN, stop_grace="8s")
    combu.write([*trials, changes])
    running = at_work(combu.start("run", "--wait", "--run-id", "r1"))
    wait_until(lambda: len(engine.running()) == 4, "their start")
    lab.wait_for_state("running", "stays", "slow", "goes", "changes")
    changes["stop_grace"] = "1s"
    changes["cmd"] = ["sleep", "601"]
    combu.write([*trials[:2], changes, worker("joins", 1)])
    assert "1 trial changed, 1 trial is new, 1 trial was removed" in combu("apply", "--replace").stderr
    lab.wait_for_state("succeeded", "joins")
    lab.wait_for_state("failed", "slow")
    assert {"goes", "changes"} < engine.running() and attempts(engine)["changes"][1] == "1"
    wait_until(lambda: lab.states()["changes"][:2] == ("running", 2), "the new attempt")
    lab.wait_for_state("stopped", "goes")
    assert lab.states()["goes"] == ("stopped", 1, 137)
    assert reasons(lab)["goes"] == "removed from the file"
    assert reasons(lab)["changes"] == "replaced by its new definition in the file"
    assert running.poll() is None and engine.running() == {"stays", "changes"}


def test_a_resumed_run_completes_the_stops_of_an_apply(combu, engine, at_work, lab):
    trials = [worker("stays"), worker("goes", cmd=STUBBORN, stop_grace="20s")]
    changes = worker("changes", cmd=STUBBORN, stop_grace="20s")
    combu.write([*trials, changes])
    running = at_work(combu.start("run", "--wait", "--run-id", "r1"))
    wait_until(lambda: len(engine.running()) == 3, "their start")
    lab.wait_for_state("running", "stays", "goes", "changes")
    combu.write([trials[0], worker("changes")])
    combu("apply", "--replace")
    die(running)
    assert engine.running() == {"stays", "goes", "changes"}
    combu("stop", "goes", "--grace", "0s")
    assert lab.states()["goes"][0] == "stopped"
    at_work(combu.start("run", "--resume"))
    combu("stop", "changes", "--grace", "0s")
    wait_until(lambda: lab.states()["changes"][:2] == ("running", 2), "the new attempt")
    assert reasons(lab) | {"stays": None} == {
        "stays": None, "goes": "removed from the file", "changes": "replaced by its new definition in the file"
    }
    assert engine.running() == {"stays", "changes"}


STUDY = """
local edited = %s;
local broken = [3, 5, 7];
{ parallel: 4,
  defaults: { image: "combu-test", metrics: "json", timeout: if edited then "60s" else "2s" },
  trials: [
    { name: "t-%%d" %% i,
      params: { lr: if edited && std.member(broken + [9], i) then 0.2 else 0.1 },
      cmd: ["sh", "-c",
            (if edited then "true" else if i == 9 then "sleep 600" else if std.member(broken, i) then "exit 3" else "true")
            + " && echo '{\\"loss\\": %%d}'" %% i] }
    for i in std.range(0, 11)
  ] }
"""


def test_apply_failed_runs_failed_trials_with_the_edited_text(combu):
    """Of twelve trials three fail and one hangs. After an edit, these four run again, and no other trial."""
    combu.write(STUDY % "false")
    combu("run", "--wait", "--run-id", "r1", code=1)
    bad = {"t-3", "t-5", "t-7", "t-9"}
    assert {name for name, row in combu.ps().items() if row["state"] == "failed"} == bad
    # The edit changes the text of all trials. Trials that have succeeded keep their results.
    combu.write(STUDY % "true")
    told = combu("apply", "--failed").stderr
    assert "run r1: 12 trials changed, 4 trials are retried" in told
    assert "these trials changed, but succeeded with the earlier definition; `apply --replace` runs these trials again: t-0, t-1, t-2, t-4, t-6 and 3 more" in told
    rows = combu.ps()
    assert {(row["state"], row["attempt"], row["version"]) for name, row in rows.items() if name in bad} == {("succeeded", 2, 2)}
    assert {(row["state"], row["attempt"], row["version"]) for name, row in rows.items() if name not in bad} == {("succeeded", 1, 1)}
    results = [json.loads(line) for line in combu("results", "--json").stdout.splitlines()]
    assert {row["trial"]: row["params"]["lr"] for row in results} == {f"t-{i}": 0.2 if f"t-{i}" in bad else 0.1 for i in range(12)}
    assert {row["trial"]: row["metrics"]["loss"]["last"] for row in results} == {f"t-{i}": i for i in range(12)}
    plot = combu("plot", "loss", "--x", "lr", "--where", "lr=0.2", LC_ALL="C").stdout
    assert "0.2" in plot
    combu("kill")
    assert {row["state"] for row in combu.ps().values()} == {"succeeded"}
    # A trial that `combu kill` ends is stopped, not failed.
    combu.write([{"name": f"t-{i}", "image": "combu-test", "cmd": "sleep 600"} for i in range(3)])
    combu("run", "--run-id", "r2")
    combu("kill")
    assert {row["state"] for row in combu.ps().values()} == {"stopped"}
