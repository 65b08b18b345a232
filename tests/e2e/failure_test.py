"""Failed attempts: their causes, combu's messages, and retries."""

import getpass
import json
import signal
import time
from datetime import datetime, timedelta, timezone

import pytest
from engines import trial, wait_until

HELD = "until test -e /hold/go; do sleep 0.05; done"


def facts_of(stderr, name):
    """Returns [(state, attempt, cause)] of a trial from the output of --progress json."""
    facts = [json.loads(line) for line in stderr.splitlines() if '"event":"fact"' in line]
    return [(fact["state"], fact["attempt"], fact.get("cause")) for fact in facts if fact["trial"] == name]


def test_a_failed_trial_is_retried_until_it_succeeds(combu, engine, tmp_path):
    (tmp_path / "tries").mkdir()
    script = "echo x >>/tries/log; test $(wc -l </tries/log) = 3"
    combu.write([trial("flaky", script, volumes=["./tries/:/tries"], retries={"max": 5, "backoff": {"initial": "100ms"}})])
    done = combu("run", "--wait", "--progress", "json")
    states = facts_of(done.stderr, "flaky")
    assert [state for state in states if state[0] in ("retrying", "succeeded")] == [
        ("retrying", 1, "error"),
        ("retrying", 2, "error"),
        ("succeeded", 3, None),
    ]
    assert engine.containers()["flaky"]["Config"]["Labels"]["combu.attempt"] == "3"
    assert engine.names() == {"flaky"}


@pytest.mark.engine_version
def test_a_failure_is_reported_with_its_cause_and_last_log_lines(combu):
    combu.write(
        [
            trial("error", "echo working; echo no space left >&2; exit 3"),
            trial("oom", "exec dd if=/dev/zero of=/dev/null bs=256M count=1", memory="32m"),
            trial("killed", "kill -9 $$", memory="32m"),
            trial("unlimited", "kill -9 $$"),
            trial("late", "sleep 600", timeout="500ms", stop_grace="1s"),
        ]
    )
    done = combu("run", "--wait", code=1)
    lines = done.stderr.splitlines()
    assert "failed: error: exit code 3" in lines
    assert "  error | no space left" in lines and "  error | working" in lines
    assert "failed: oom: out of memory at 32 MiB (exit code 137, SIGKILL)" in lines
    assert "failed: killed: perhaps out of memory at 32 MiB (exit code 137, SIGKILL)" in lines
    assert "failed: unlimited: exit code 137, SIGKILL" in lines
    assert "failed: late: took longer than its timeout of 500 ms" in lines


@pytest.mark.engine_version
def test_memory_grows_after_out_of_memory(combu, engine):
    eat = "exec dd if=/dev/zero of=/dev/null bs=48M count=1"
    combu.write([trial("eater", eat, memory="32m", retries={"max": 3, "on": "oom", "backoff": {"initial": 0}, "grow": {"memory": 2}})])
    combu("run", "--wait")
    assert engine.containers()["eater"]["HostConfig"]["Memory"] == 64 << 20


@pytest.mark.slow
@pytest.mark.engine_version
def test_a_trial_stopped_from_outside_is_not_retried(combu, engine):
    combu.write([trial("one", "exec sleep 600", retries=5)])
    running = combu.start("run")
    try:
        wait_until(lambda: "one" in engine.running(), "the trial")
        engine.ask("POST", "/containers/one/stop?t=5")
        _, err = running.communicate(timeout=180)  # combu first waits: the engine may be restarting
    finally:
        running.kill()
    assert running.returncode == 1, "somebody watched it, and it did not end by itself"
    assert "stopped: one: from outside (exit code 143, SIGTERM)" in err


def test_the_record_names_the_user_who_stopped_a_trial(combu, engine, tmp_path):
    held = trial("other", HELD, volumes=[f"{tmp_path}/hold/:/hold"], retries=5)
    combu.write([trial("one", "exec sleep 600", retries=5), held])
    running = combu.start("run", "--progress", "plain")
    try:
        wait_until(lambda: engine.running() == {"one", "other"}, "both trials")
        combu("stop", "one")
        (tmp_path / "hold/go").touch()
        _, err = running.communicate(timeout=60)  # after `combu stop`, the run does not wait for a restart of the engine
    finally:
        running.kill()
    assert running.returncode == 1
    who = getpass.getuser()
    assert f"stopped: one: by {who} with `combu stop`" in err
    assert f"stopped by {who}" in combu("why", "one").stdout


@pytest.mark.slow
@pytest.mark.engine_version
@pytest.mark.parametrize("way", ["kill9", "stop"])
def test_a_restart_of_the_engine_uses_no_retries(combu_on, new_engine, tmp_path, way):
    engine = new_engine()
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    combu.write([trial("kept", HELD, volumes=[f"{tmp_path}/hold/:/hold"], retries=1), trial("alone", "exec sleep 600")])
    running = combu.start("run", "--wait", "--progress", "json")
    try:
        wait_until(lambda: engine.running() == {"kept", "alone"}, "both trials")
        getattr(engine, way)()
        engine.start()
        (tmp_path / "hold/go").touch()
        _, err = running.communicate(timeout=120)
    finally:
        running.kill()
    assert running.returncode == 1
    # If the engine shuts down, 20.10 reports that it stopped the container. 29 does not: combu detects the loss later.
    causes = {"host_lost"} if way == "kill9" else {"host_lost", "stopped"}
    assert [attempt for state, attempt, cause in facts_of(err, "kept") if state == "retrying" and cause in causes] == [1]
    assert facts_of(err, "kept")[-1] == ("succeeded", 2, None)
    state, attempt, cause = facts_of(err, "alone")[-1]
    assert cause in causes and (state, attempt) == ("stopped" if cause == "stopped" else "failed", 1)


def test_a_failed_canary_blocks_the_trials_of_its_shape(combu, engine):
    combu.write({"canary": True, "trials": [trial(f"t-{i}", "exit 1") for i in range(20)]})
    done = combu("run", "--wait", code=1)
    assert engine.names() == {"t-0"}
    assert "19 blocked" in done.stderr and "the canary `t-0` failed" in done.stderr


def test_nothing_starts_after_max_failures(combu, engine):
    combu.write({"max_failures": 2, "parallel": 1, "trials": [trial(f"t-{i}", "exit 1") for i in range(6)]})
    done = combu("run", "--wait", code=1)
    assert engine.names() == {"t-0", "t-1"}
    assert "not started: 2 trials have failed" in done.stderr


def test_the_deadline_of_a_run_stops_all_trials(combu, engine):
    combu.write({"deadline": "3s", "trials": [trial("long", "exec sleep 600"), trial("service", "exec sleep 600", service=True)]})
    began = time.monotonic()
    done = combu("run", code=1)
    assert time.monotonic() - began < 60
    assert engine.running() == set()
    assert "stopped: long: the run's deadline of 3.0 s has passed" in done.stderr


def test_an_end_before_the_timeout_counts_also_if_combu_sees_it_late(combu, engine, tmp_path):
    """If combu is suspended, as by Ctrl-Z or a sleeping laptop, it sees the end and the timeout at the same moment."""
    quick = trial("quick", HELD, volumes=[f"{tmp_path}/hold/:/hold"], timeout="5s")
    combu.write([quick, trial("slow", "sleep 600", timeout="5s", stop_grace="1s")])
    run = combu.start("run", "--wait")
    wait_until(lambda: {row["state"] for row in combu.ps().values()} == {"running"}, "both run")
    run.send_signal(signal.SIGSTOP)
    (tmp_path / "hold/go").touch()
    wait_until(lambda: engine.running() == {"slow"}, "the end of one")
    began = datetime.fromisoformat(engine.containers()["slow"]["State"]["StartedAt"][:26] + "+00:00")
    wait_until(lambda: datetime.now(timezone.utc) - began > timedelta(seconds=5.2), "the timeout of the other")
    run.send_signal(signal.SIGCONT)
    run.communicate(timeout=60)
    rows = combu.ps()
    assert (rows["quick"]["state"], rows["quick"]["exit_code"]) == ("succeeded", 0)
    assert rows["quick"]["seconds"] < 4, "by the engine's times"
    assert rows["slow"]["cause"] == "timeout"


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_timeout_is_recorded_also_if_the_trial_ends_without_an_owner(combu, tmp_path, sent):
    """The trial handles SIGTERM, takes a while to write a checkpoint, and then exits with 0."""
    script = "trap 'echo heard; until test -e /hold/go; do sleep 0.05; done; exit 0' TERM; sleep 600 & wait"
    combu.write([trial("one", script, volumes=[f"{tmp_path}/hold/:/hold"], timeout="1s", stop_grace="20s")])
    run = combu.start("run", "--wait")
    wait_until(lambda: "heard" in combu("logs", "one", code=None).stdout, "it is being stopped")
    run.send_signal(sent)
    run.communicate(timeout=60)
    (tmp_path / "hold/go").touch()
    combu("wait", code=None)
    combu("run", "--resume", code=1)
    row = combu.ps()["one"]
    assert (row["state"], row["cause"], row["exit_code"]) == ("failed", "timeout", 0)
