"""Runs in the background (--detach): attach, and commands that change a running run."""

import json
import os
import pty
import re
import signal
import subprocess

import pytest
from engines import wait_until
from resume_test import Lab
from run_test import sleeper


class Background:
    """A run in the background."""

    def __init__(self, combu):
        self.combu = combu
        self.state = combu.home / ".local/state/combu"
        self.run = ""

    def begin(self, *arguments):
        self.run = self.combu("run", "--detach", *arguments).stdout.strip()

    @property
    def process(self):
        """The process id of the run's owner; None if the run has no owner."""
        for lock in (self.state / "locks").iterdir():
            holder = lock.read_text(encoding="utf-8")
            if holder and json.loads(holder)["run"] == self.run:
                return json.loads(holder)["process"]
        return None

    def wait_for_end(self):
        wait_until(lambda: self.process is None, "the process in the background to end")

    def log(self):
        return (self.state / f"logs/{self.run}.log").read_text(encoding="utf-8")


@pytest.fixture
def lab(combu, tmp_path):
    return Lab(combu, tmp_path / "lab")


@pytest.fixture
def background(combu):
    it = Background(combu)
    yield it
    if it.run and it.process:
        os.kill(it.process, signal.SIGKILL)


@pytest.fixture
def following(combu):
    """A function that starts `combu attach` with --progress json and returns the process."""
    processes = []

    def follow(*arguments):
        process = combu.start("--progress", "json", "attach", *arguments)
        processes.append(process)
        return process

    yield follow
    for process in processes:
        process.kill()
        process.communicate()


def next_event(process, name, **fields):
    """Returns the next event of this name and with these fields that the process prints. Fails if there is none."""
    for line in process.stderr:
        event = json.loads(line)
        if event["event"] == name and fields.items() <= event.items():
            return event
    raise AssertionError(f"no {name} with {fields}")


def test_a_detached_run_gives_the_same_results_as_a_foreground_run(combu, engine, lab, background):
    combu.write(
        [
            lab.trial("one"),
            lab.trial("flaky", 3, retries={"max": 1, "backoff": {"initial": 0}}),
            lab.trial("two", depends=[{"trial": "one", "condition": "succeeded"}]),
            lab.trial("three", depends=[{"trial": "flaky", "condition": "succeeded"}]),
        ]
    )
    lab.hold("one")
    background.begin("--wait")
    wait_until(lambda: lab.states()["flaky"][0] == "failed", "the second attempt")
    lab.let_go("one")
    combu("attach", background.run, code=1)
    background.wait_for_end()
    assert {name: state[:2] for name, state in lab.states().items()} == {
        "one": ("succeeded", 1),
        "two": ("succeeded", 1),
        "flaky": ("failed", 2),
        "three": ("blocked", 1),
    }
    assert f"run {background.run} has ended: 2 succeeded, 1 failed, 1 blocked in " in background.log()
    assert f"run {background.run} has ended: 2 succeeded, 1 failed, 1 blocked\n" == combu("attach", code=1).stderr


def test_a_detached_run_prints_refusals_to_its_caller(combu, engine):
    combu.write([sleeper("taken")])
    engine.run_stranger("taken")
    attached = combu("run", code=1)
    detached = combu("run", "-d", code=1)
    assert detached.stdout == ""
    assert detached.stderr == attached.stderr
    assert "nothing was started" in detached.stderr

    combu.write([sleeper("one", image="no-such-image-here:1", pull="never")])
    attached = combu("run", code=1)
    detached = combu("run", "-d", code=1)
    assert (detached.stdout, detached.stderr) == ("", attached.stderr)

    away = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
    assert combu("run", "-d", code=3, **away).stderr == combu("run", code=3, **away).stderr


def test_a_detached_run_without_wait_ends_when_all_trials_are_started(combu, engine, lab, background):
    combu.write([lab.trial("first"), sleeper("then", depends=[{"trial": "first", "condition": "succeeded"}])])
    lab.hold("first")
    background.begin()
    assert engine.running() == {"first"} or lab.states()["first"][0] in ("waiting", "starting", "running")
    lab.let_go("first")
    combu("attach")
    assert engine.running() == {"then"}
    background.wait_for_end()
    left = combu("attach", background.run)
    assert left.stderr == (
        f"no process owns run {background.run}: 1 running, 1 succeeded; "
        f"`combu run --resume {background.run}` resumes it\n"
    )


def test_a_detached_run_survives_the_end_of_its_terminal(combu, lab, background):
    """Closing a terminal sends SIGHUP to its processes."""
    combu.write([lab.trial("one")])
    lab.hold("one")
    leader, terminal = pty.openpty()
    command = [str(combu.program), "-f", str(combu.file), "run", "--wait", "-d", "--run-id", "mine"]
    script = f"trap '' HUP; {' '.join(command)}; cat"
    shell = subprocess.Popen(
        ["setsid", "--ctty", "sh", "-c", script], env=combu.env, cwd=combu.home, stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    seen = b""
    while b"continues in the background" not in seen or not re.search(rb"^mine\r", seen, re.M):
        seen += os.read(leader, 4096)
    background.run = "mine"
    os.close(leader)
    shell.wait(timeout=60)
    os.kill(background.process, signal.SIGHUP)
    lab.let_go("one")
    combu("attach", "mine")
    assert lab.states()["one"][0] == "succeeded"


def test_several_attach_to_one_run_and_ctrl_c_only_detaches(combu, lab, background, following):
    combu.write([lab.trial("one"), lab.trial("bad", 3)])
    lab.hold("one")
    background.begin("--wait")
    first, second = following(), following(background.run)
    for process in (first, second):
        begin = next_event(process, "begin")
        assert (begin["run"], begin["trials"]) == (background.run, 2)
        assert next_event(process, "fact", state="failed")["trial"] == "bad"
    first.send_signal(signal.SIGINT)
    assert "the run continues" in next_event(first, "note")["text"]
    assert first.wait(timeout=60) == 130
    lab.let_go("one")
    assert next_event(second, "fact", trial="one", state="succeeded")
    assert second.wait(timeout=60) == 1
    assert lab.states()["one"][0] == "succeeded"


def test_kill_ends_a_detached_run(combu, engine, lab, background, following):
    combu.write({"parallel": 1, "trials": [lab.trial(f"t-{i}") for i in range(3)]})
    lab.hold("t-0")
    background.begin("--wait")
    follower = following()
    next_event(follower, "begin")
    assert f"interrupted process {background.process}, which owned run {background.run}" in combu("kill").stderr
    assert follower.wait(timeout=60) == 130
    assert engine.names() == set()
    assert background.process is None


def test_a_follower_reports_a_killed_owner_and_the_run_can_be_resumed(combu, engine, lab, background, following):
    names = {f"t-{i}" for i in range(3)}
    combu.write({"parallel": 1, "trials": [lab.trial(name) for name in sorted(names)]})
    lab.hold(*names)
    background.begin("--wait")
    combu("pause")
    combu("set", "parallel=3")
    follower = following()
    next_event(follower, "begin")
    os.kill(background.process, signal.SIGKILL)
    told = next_event(follower, "note")["text"]
    assert told.startswith(f"no process owns run {background.run}: ")
    assert f"`combu run --resume {background.run}` resumes it" in told
    assert follower.wait(timeout=60) == 1
    assert "no combu process owns the run" in combu("unpause", code=1).stderr

    # The pause ends with the owner's process; the values that `combu set` changed remain.
    assert combu("run", "--resume", "--wait", "-d").stdout == background.run + "\n"
    wait_until(lambda: engine.running() == names, "all at the same time")
    lab.let_go(*names)
    combu("attach")
    assert {state[0] for state in lab.states().values()} == {"succeeded"}


def test_a_run_is_paused_and_resumed(combu, engine, lab, background, following):
    combu.write({"parallel": 1, "trials": [lab.trial(f"t-{i}", retries={"max": 1, "backoff": {"initial": 0}}) for i in range(3)]})
    lab.hold("t-0")
    lab.set_code("t-0", 3)
    background.begin("--wait")
    wait_until(lambda: engine.running() == {"t-0"}, "the first trial")
    follower = following()
    assert next_event(follower, "snapshot")["paused"] is False
    assert "is paused" in combu("pause", background.run).stderr
    assert next_event(follower, "snapshot", paused=True)["parallel"] == 1
    # The running attempt continues to its end. Neither its retry nor another trial starts.
    lab.let_go("t-0")
    assert next_event(follower, "fact", trial="t-0")["state"] == "retrying"
    while next_event(follower, "snapshot", paused=True)["counts"]["ready"] < 3:
        pass
    assert f"the run is paused; `combu unpause {background.run}`" in combu("why", "t-2").stdout
    assert engine.running() == set()
    assert engine.names() == {"t-0"}
    lab.set_code("t-0", 0)
    combu("unpause")
    assert follower.wait(timeout=60) == 0
    assert lab.states()["t-0"] == ("succeeded", 2, 0)


def test_set_changes_parallel_during_a_run(combu, engine, lab, background):
    names = [f"t-{i}" for i in range(6)]
    combu.write({"parallel": 1, "trials": [lab.trial(name) for name in names]})
    lab.hold(*names)
    background.begin("--wait", "--starts-in-flight", "1")
    wait_until(lambda: engine.running() == {"t-0"}, "the first trial")
    assert combu("set", "parallel=3", "starts_in_flight=4").stderr == f"run {background.run} has the settings parallel=3, starts_in_flight=4\n"
    wait_until(lambda: engine.running() == {"t-0", "t-1", "t-2"}, "three trials")
    assert "3 attempts are alive, which is the limit" in combu("why", "t-5").stdout
    combu("set", "parallel=0", background.run)
    wait_until(lambda: engine.running() == set(names), "all of them")
    lab.let_go(*names)
    combu("attach")
    assert {state[0] for state in lab.states().values()} == {"succeeded"}


def test_retry_runs_failed_trials_in_the_background(combu, lab, background):
    combu.write([lab.trial("bad", 3)])
    combu("run", "--wait", "--run-id", "r1", code=1)
    lab.set_code("bad", 0)
    lab.hold("bad")
    assert combu("retry", "-d", "--wait").stdout == "r1\n"
    background.run = "r1"
    assert background.process
    assert "owns the run; end that process first" in combu("retry", "-d", code=1).stderr
    lab.let_go("bad")
    combu("attach", "r1")
    background.wait_for_end()
    assert lab.states() == {"bad": ("succeeded", 2, 0)}
    assert combu("retry", "-d").stdout == ""


def test_a_follower_sees_which_command_changed_the_run(combu, engine, lab, background):
    """An `apply` is not reported as a pause. A follower that `kill` interrupts gets no hint to run `kill`."""
    combu.write([sleeper("one")])
    background.begin("--wait")
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    follower = combu.start("--progress", "plain", "attach", background.run)
    first = follower.stderr.readline()
    combu.write([sleeper("one"), sleeper("two")])
    combu("apply", background.run)
    wait_until(lambda: engine.running() == {"one", "two"}, "the new trial")
    combu("set", "parallel=7", background.run)
    combu("kill")
    _, told = follower.communicate(timeout=60)
    background.wait_for_end()
    told = first + told
    assert "`combu apply` is changing the run" in told and "the edited file has been applied" in told
    assert "paused" not in told and "unpaused" not in told
    assert "`combu set` changed the run: parallel 7, starts in flight " in told
    assert "interrupted by `combu kill`: no new starts" in told
    assert "interrupted by `combu kill`: 2 of 2 trials were started" in told
    assert "resumes the run" not in told and "removes the containers" not in told
    assert {row["state"] for row in combu.ps().values()} == {"stopped"}
