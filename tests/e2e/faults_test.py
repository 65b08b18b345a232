"""The engine or combu is killed during a run, or the engine's disk is full."""

import signal

import pytest
from engines import wait_until
from run_test import sleeper

# These trials have no network: if many starts and a crash coincide, 20.10 can miscount a network's users (moby#42119).
MANY = [sleeper(f"t-{i:02}") for i in range(40)]


def run_through_a_crash(engine, combu, in_flight):
    """Starts a run, kills the engine after some starts, and restarts the engine. Returns the run's exit code and messages."""
    running = combu.start("run", "--starts-in-flight", in_flight, "--progress", "plain")
    try:
        wait_until(lambda: len(engine.names()) >= in_flight + 4, "some containers")
        engine.kill9()
        engine.start()
        _, err = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    return running.returncode, err


@pytest.mark.slow
@pytest.mark.engine_version
def test_a_run_continues_after_the_engine_was_killed_between_two_starts(new_engine, combu_on):
    engine = new_engine("--own-containerd", "--live-restore")
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    combu.write(MANY)
    code, err = run_through_a_crash(engine, combu, in_flight=1)
    assert code == 0, err
    assert engine.running() == {trial["name"] for trial in MANY}
    combu("kill")
    assert engine.names() == set() and engine.networks() == {}


@pytest.mark.slow
@pytest.mark.engine_version
def test_starts_during_a_crash_of_the_engine_are_repeated(new_engine, combu_on):
    # The engine runs without live-restore and is killed during eight starts.
    engine = new_engine("--own-containerd")
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    trials = [sleeper(f"t-{i:02}") for i in range(40)]
    combu.write(trials)
    _, err = run_through_a_crash(engine, combu, in_flight=8)
    assert "could not be started" not in err, err
    assert engine.names() == {trial["name"] for trial in trials}
    assert {row["state"] for row in combu.ps().values()} <= {"running", "failed"}
    combu("kill")
    assert engine.names() == set()


@pytest.mark.engine_version
def test_kill_fails_while_the_engine_is_away_and_works_afterwards(new_engine, combu_on):
    engine = new_engine()
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    combu.write([sleeper("one")])
    combu("run")
    engine.stop()
    assert str(engine.socket) in combu("kill", code=3).stderr
    engine.start()
    combu("kill")
    assert engine.names() == set()


@pytest.mark.slow
def test_kill_removes_the_trials_of_a_killed_combu(combu, engine):
    combu.write(MANY)
    running = combu.start("run", "--starts-in-flight", "1")
    wait_until(lambda: len(engine.names()) >= 5, "five containers")
    running.send_signal(signal.SIGKILL)
    running.communicate()

    left = engine.names()
    assert 5 <= len(left) < len(MANY)
    assert {name for name, row in combu.ps().items() if row["state"] in ("starting", "running")} == left
    assert "kill" in combu("run", code=1).stderr
    combu("kill")
    assert engine.names() == set() and engine.networks() == {}
    combu("run")
    assert engine.running() == {trial["name"] for trial in MANY}


def test_after_an_interrupt_combu_completes_the_starts_in_flight(combu, engine):
    combu.write(MANY)
    running = combu.start("run", "--starts-in-flight", "2")
    wait_until(lambda: len(engine.names()) >= 5, "five containers")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    left = engine.names()
    assert len(left) < len(MANY)
    assert engine.running() == left


def test_a_sigterm_ends_combu_and_leaves_its_trials_running(combu, engine):
    combu.write([sleeper("one")])
    running = combu.start("run", "--wait")
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == 143
    assert engine.running() == {"one"}


@pytest.mark.engine_version
def test_a_trial_whose_container_is_removed_fails(combu, engine):
    combu.write([sleeper("one"), {"name": "after", "image": "combu-test", "cmd": "true", "depends": [{"trial": "one", "condition": "succeeded"}]}])
    running = combu.start("run", "--wait")
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    status, _ = engine.ask("DELETE", "/containers/one?force=1")
    assert status == 204
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "one" in err and "after" in err


@pytest.mark.engine_version
def test_starts_on_a_full_disk_fail_with_the_engines_message(new_engine, combu_on):
    engine = new_engine()
    engine.use_small_disk(96)
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    fill = "dd if=/dev/zero of=/f bs=1M; i=0; while echo > /g$i; do i=$((i + 1)); done; dd if=/dev/zero of=/h bs=1k; sleep 600"
    engine.run_stranger("fill", Cmd=["sh", "-c", fill])

    def filled():
        commands = [process[-1] for process in engine.get("/containers/fill/top")["Processes"]]
        return "sleep 600" in commands

    wait_until(filled, "a full disk", seconds=120)
    combu.write([sleeper("one"), sleeper("two", depends=["one"])])
    failed = combu("run", code=1)
    assert "one" in failed.stderr and "no space left on device" in failed.stderr and "two" in failed.stderr
    assert engine.names() == {"fill"}
    combu("kill")

    assert engine.ask("DELETE", "/containers/fill?force=1")[0] == 204
    combu("run")
    assert engine.running() == {"one", "two"}
