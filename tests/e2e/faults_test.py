"""The engine, the disk or combu itself dies in the middle."""

import signal

import pytest
from engines import wait_until
from run_test import sleeper

# Without a network of theirs: 20.10 can lose count of its users when many starts or a crash meet (moby#42119).
MANY = [sleeper(f"t-{i:02}") for i in range(40)]


def run_through_a_crash(engine, combu, in_flight):
    """A run whose engine dies when some of its trials are there, and comes back: its exit code and what it said."""
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
def test_an_engine_killed_between_two_starts_and_back(new_engine, combu_on):
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
def test_starts_that_an_engine_died_in_are_made_anew(new_engine, combu_on):
    # Without live-restore, and it dies in the middle of eight starts.
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
def test_an_engine_that_dies_and_stays_away(new_engine, combu_on):
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
def test_combu_killed_in_the_middle_of_a_run(combu, engine):
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


def test_the_first_interrupt_ends_what_is_in_flight(combu, engine):
    combu.write(MANY)
    running = combu.start("run", "--starts-in-flight", "2")
    wait_until(lambda: len(engine.names()) >= 5, "five containers")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    left = engine.names()
    assert len(left) < len(MANY)
    assert engine.running() == left


def test_a_sigterm_ends_a_waiting_run_and_leaves_its_trials(combu, engine):
    combu.write([sleeper("one")])
    running = combu.start("run", "--wait")
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == 143
    assert engine.running() == {"one"}


@pytest.mark.engine_version
def test_a_trial_killed_by_hand_has_failed(combu, engine):
    combu.write([sleeper("one"), {"name": "after", "image": "combu-test", "cmd": "true", "depends": [{"trial": "one", "condition": "succeeded"}]}])
    running = combu.start("run", "--wait")
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    status, _ = engine.ask("DELETE", "/containers/one?force=1")
    assert status == 204
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "one" in err and "after" in err


@pytest.mark.engine_version
def test_a_full_disk(new_engine, combu_on):
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
