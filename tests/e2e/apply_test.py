"""The file is edited while its run goes on."""

from engines import wait_until


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
