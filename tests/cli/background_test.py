"""Tests of runs in the background, and of commands that follow or change a run in progress."""

import json
import os
import pathlib
import re
import signal
import subprocess

import pytest
from conftest import COMBU, SIMULATED, wait_until

# These trials run until the test changes the run, or ends.
SLOW = "simulated:?speed=1"
ONE_BY_ONE = """{ parallel: 1, trials: [{ name: "t-%d" % i, image: "x", cmd: "sleep 1000" } for i in std.range(1, 4)] }"""


def process_of(tmp_path, run):
    for lock in (tmp_path / ".local/state/combu/locks").iterdir():
        text = lock.read_text()
        if text and json.loads(text)["run"] == run:
            return json.loads(text)["process"]
    return None


@pytest.fixture
def detached(combu, tmp_path):
    """detached(file, arguments…) starts a run in the background and returns its id. The run's process is killed after the
    test."""
    runs = []

    def run(file, *arguments, engine=SLOW):
        done = combu("-f", file, "--engine", engine, "run", "-d", "--wait", *arguments)
        assert done.returncode == 0, done.stderr
        runs.append(done.stdout.strip())
        log = tmp_path / f".local/state/combu/logs/{runs[-1]}.log"
        # A follower that attaches earlier gets the progress of the preparation first.
        wait_until(lambda: log.read_text().startswith(f"run {runs[-1]}: "), "the beginning of the run")
        return runs[-1]

    yield run
    for one in runs:
        if process := process_of(tmp_path, one):
            os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize("code", [0, 3])
def test_a_detached_run_prints_its_id_and_is_followed_to_its_end(combu, detached, write, code):
    file = write('[{ name: "t-%%d" %% i, image: "x", cmd: ["sh", "-c", "sleep 1; exit %d"] } for i in [1, 2]]' % code)
    run = detached(file)
    result = combu("-f", file, "attach")
    assert result.returncode == (1 if code else 0)
    assert result.stderr.startswith(f"run {run}: 2 trials\n")
    assert f"run {run} has ended: 2 {'failed' if code else 'succeeded'} in " in result.stderr


def test_it_tells_how_to_follow_it_and_writes_a_log(combu, ladder, tmp_path):
    result = combu("-f", ladder, "--engine", SIMULATED, "run", "--detach", "--wait", "--run-id", "mine")
    assert (result.returncode, result.stdout) == (0, "mine\n")
    log = tmp_path / ".local/state/combu/logs/mine.log"
    assert result.stderr.splitlines()[-1] == (
        f"run mine continues in the background: `combu attach mine` follows the run; the log is {log}")
    wait_until(lambda: "run mine has ended: 4 succeeded" in log.read_text(), "the end in the log")
    assert log.read_text().startswith("run mine: 4 trials\n")
    wait_until(lambda: process_of(tmp_path, "mine") is None, "the process to end")
    assert combu("rm", "mine").returncode == 0
    assert not log.exists()


@pytest.mark.parametrize("text, code", [("[ no Jsonnet", 2), ('[{ name: "aa", image: "missing-1" }]', 1), ('[{ name: "aa" }]', 2)])
def test_what_is_refused_is_refused_in_sight(combu, write, text, code):
    file = write(text)
    attached = combu("-f", file, "--engine", SIMULATED, "run")
    result = combu("-f", file, "--engine", SIMULATED, "run", "-d")
    assert (result.returncode, result.stdout, result.stderr) == (code, "", attached.stderr)
    assert attached.returncode == code


def test_a_run_id_in_use_is_refused_in_sight(combu, ladder):
    assert combu("-f", ladder, "--engine", SIMULATED, "run", "--wait", "--run-id", "r1").returncode == 0
    result = combu("-f", ladder, "--engine", SIMULATED, "run", "-d", "--run-id", "r1")
    assert (result.returncode, result.stdout) == (1, "")
    assert "r1" in result.stderr


def test_it_is_in_a_session_of_its_own_with_no_terminal(detached, write, tmp_path):
    process = process_of(tmp_path, detached(write(ONE_BY_ONE)))
    assert os.getsid(process) == process
    assert os.readlink(f"/proc/{process}/fd/0") == "/dev/null"
    assert {os.readlink(f"/proc/{process}/fd/{file}") for file in (1, 2)} == {
        str(next((tmp_path / ".local/state/combu/logs").iterdir()))}
    os.kill(process, signal.SIGHUP)


def test_a_hangup_does_not_end_it_and_sigterm_does(combu, detached, write, tmp_path):
    file = write(ONE_BY_ONE)
    process = process_of(tmp_path, detached(file))
    os.kill(process, signal.SIGHUP)
    follower = subprocess.Popen([COMBU, "-f", file, "--engine", "simulated:", "--progress", "json", "attach"], env={**os.environ, "HOME": str(tmp_path)},
                                stderr=subprocess.PIPE, text=True)
    assert json.loads(follower.stderr.readline())["event"] == "begin"
    os.kill(process, signal.SIGTERM)
    _, told = follower.communicate(timeout=30)
    assert follower.returncode == 143
    assert "interrupted: 1 of 4 trials were started" in told


def test_ctrl_c_leaves_and_the_run_goes_on(combu, detached, write, tmp_path):
    file = write(ONE_BY_ONE)
    run = detached(file)
    follower = subprocess.Popen([COMBU, "attach", run], env={**os.environ, "HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    assert follower.stderr.readline() == f"run {run}: 4 trials\n"
    follower.send_signal(signal.SIGINT)
    _, told = follower.communicate(timeout=30)
    assert follower.returncode == 130
    assert told == f"detached; the run continues: `combu attach {run}` follows the run again\n"
    assert process_of(tmp_path, run)


def test_a_follower_is_told_the_names_of_the_few_trials_that_run(detached, write, tmp_path):
    run = detached(write(ONE_BY_ONE))
    follower = subprocess.Popen([COMBU, "--progress", "json", "attach", run], env={**os.environ, "HOME": str(tmp_path)},
                                stderr=subprocess.PIPE, text=True)
    try:
        told = map(json.loads, follower.stderr)
        [one] = next(line["running"] for line in told if line["event"] == "snapshot" and line["running"])
        assert one["trial"] == "t-1" and one["seconds"] >= 0
    finally:
        follower.kill()
        follower.communicate()


def test_ctrl_c_before_it_is_in_the_background_ends_it(write, tmp_path):
    file = write("local f(x) = f(x + 1) tailstrict; f(0)")
    process = subprocess.Popen([COMBU, "-f", file, "--engine", SIMULATED, "run", "-d"], env={**os.environ, "HOME": str(tmp_path)},
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert "evaluating" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")


def test_a_run_in_the_foreground_is_followed_and_changed_too(combu, write, tmp_path):
    file = write(ONE_BY_ONE)
    run = subprocess.Popen([COMBU, "-f", file, "--engine", SLOW, "--progress", "json", "run", "--wait", "--run-id", "r1"],
                           env={**os.environ, "HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    try:
        while json.loads(run.stderr.readline())["event"] != "begin":
            pass
        result = combu("-f", file, "set", "parallel=3")
        assert (result.returncode, result.stderr) == (0, "run r1 has the settings parallel=3, starts_in_flight=8\n")
        for line in run.stderr:
            told = json.loads(line)
            if told["event"] == "snapshot" and told["counts"]["running"] == 3:
                break
        assert (told["parallel"], told["paused"]) == (3, False)
    finally:
        run.kill()
        run.communicate()
    result = combu("-f", file, "set", "parallel=4")
    assert result.returncode == 1
    assert result.stderr == "combu: run r1: no combu process owns the run; `combu run --resume r1` resumes it\n"
    result = combu("attach", "r1")
    assert result.returncode == 1
    assert re.fullmatch("no process owns run r1: .*3 running; `combu run --resume r1` resumes it\n", result.stderr)


def test_a_paused_run_starts_nothing_until_it_is_unpaused(combu, detached, write):
    file = write('{ parallel: 1, trials: [{ name: "t-%d" % i, image: "x", cmd: "sleep 3" } for i in [1, 2]] }')
    run = detached(file)
    wait_until(lambda: "t-1 runs" in combu("why", "--run", run, "t-1").stdout, "the first trial")
    result = combu("pause", run)
    assert (result.returncode, result.stderr) == (
        0, f"run {run} is paused: nothing starts until `combu unpause {run}`; running trials continue\n")
    wait_until(lambda: "has succeeded" in combu("why", "--run", run, "t-1").stdout, "the first trial's end")
    assert combu("why", "--run", run, "t-2").stdout == f"t-2 waits because the run is paused; `combu unpause {run}` continues the run\n"
    assert combu("-f", file, "unpause").stderr == f"run {run} starts trials\n"
    assert combu("-f", file, "attach").returncode == 0


def test_attach_without_a_process_tells_what_is_on_record(combu, write):
    file = write('[{ name: "bad", image: "x", cmd: "exit 3" }, { name: "good", image: "x", cmd: "true" }]')
    assert combu("-f", file, "--engine", SIMULATED, "run", "--wait", "--run-id", "r1").returncode == 1
    result = combu("-f", file, "attach")
    assert (result.returncode, result.stderr) == (1, "run r1 has ended: 1 succeeded, 1 failed\n")
    result = combu("unpause", "r1")
    assert (result.returncode, result.stderr) == (1, "combu: run r1: has ended\n")
    assert combu("attach", "r2").returncode == 1


def test_the_state_folder_may_have_a_long_name(combu, ladder, tmp_path):
    home = tmp_path / ("x" * 120)
    result = combu("-f", ladder, "--engine", "simulated:?speed=1&trial=0.3", "run", "-d", "--wait", "--run-id", "r1", env={"COMBU_HOME": str(home)})
    assert result.returncode == 0, result.stderr
    assert combu("-f", ladder, "--engine", "simulated:", "attach", env={"COMBU_HOME": str(home)}).returncode == 0
    assert pathlib.Path(home / "logs/r1.log").exists()
