"""The file is edited while its run goes on."""

import signal

from engines import wait_until
from resume_test import at_work, die, lab

__all__ = ["at_work", "lab"]


def worker(name, seconds=600, **fields):
    return {"name": name, "image": "combu-test", "cmd": ["sleep", str(seconds)], **fields}


def attempts(engine):
    return {name: (c["State"]["Status"], c["Config"]["Labels"]["combu.attempt"], c["Id"]) for name, c in engine.containers().items()}


def test_new_trials_join_removed_ones_stop_and_the_rest_goes_on(combu, engine):
    combu.write({"parallel": 4, "trials": [worker("stays"), worker("goes"), worker("changes"), worker("ends", 1)]})
    running = combu.start("run", "--wait", "--run-id", "r1")
    try:
        wait_until(lambda: combu.ps().get("ends", {}).get("state") == "succeeded", "the end of one")
        before = attempts(engine)
        combu.write({"parallel": 4, "trials": [worker("stays"), worker("changes", 601), worker("ends", 1), worker("joins", 1)]})
        told = combu("apply").stderr
        assert "1 trial joins, 1 is removed" in told
        assert "changed, but left as it is, since it has been started: changes" in told
        wait_until(lambda: combu.ps()["joins"]["state"] == "succeeded", "the end of the one that joins")
        after = attempts(engine)
        assert {name: after[name] for name in ("stays", "changes", "ends")} == {name: before[name] for name in ("stays", "changes", "ends")}
        assert after["goes"][0] == "exited"
        assert running.poll() is None

        assert "1 is as the file says now" in combu("apply", "--replace").stderr
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


def test_a_run_that_nobody_is_at_work_on_is_gone_on_with(combu, engine):
    combu.write([worker("stays")])
    combu("run")
    first = attempts(engine)["stays"]
    combu.write([worker("stays"), worker("joins", 1)])
    assert "1 trial joins" in combu("apply").stderr
    assert attempts(engine)["stays"] == first
    wait_until(lambda: combu.ps()["joins"]["state"] == "succeeded", "the end of the one that joins")


def test_what_ended_while_nobody_was_at_work_has_its_own_end(combu, engine, at_work, lab):
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


def test_one_that_is_interrupted_is_completed_by_the_next(combu, engine, at_work, lab):
    stubborn = worker("stubborn", cmd=["sh", "-c", "trap '' TERM; while true; do sleep 0.1; done"], stop_grace="20s")
    combu.write([worker("stays"), worker("goes"), stubborn])
    running = at_work(combu.start("run", "--wait", "--run-id", "r1"))
    wait_until(lambda: engine.running() == {"stays", "goes", "stubborn"}, "their start")
    lab.wait_for_state("running", "stays", "goes", "stubborn")
    combu.write([worker("stays")])
    apply = at_work(combu.start("apply"))
    wait_until(lambda: "goes" not in engine.running(), "one stop")
    apply.send_signal(signal.SIGINT)
    _, told = apply.communicate(timeout=30)
    assert apply.returncode == 130
    assert "run r1: trials have been stopped, and the run is as it was: the same command completes it" in told
    lab.wait_for_state("failed", "goes")
    assert "are removed" in combu("apply").stderr
    assert {name: it[0] for name, it in lab.states().items()} == {"stays": "running", "goes": "stopped", "stubborn": "stopped"}
    assert running.poll() is None and engine.running() == {"stays"}
