"""Faults of workers: each attempt ends exactly once, with its own result, whatever ends the worker or another attempt in it."""

import contextlib
import os
import random
import signal
import subprocess

import pytest
from engines import wait_until
from resume_test import Lab, at_work, die, lab
from workers_test import load_image, said, states, wait_for_states, warm, workers

__all__ = ["at_work", "lab"]

FAST = {"backoff": {"initial": 0}}


def processes(engine, worker):
    """Returns {process id on this machine: command} of the processes in a container, nothing if the container has ended."""
    status, answer = engine.ask("GET", f"/containers/{worker}/top?ps_args=-eo%20pid,args")
    return {int(pid): args for pid, args in answer["Processes"] or ()} if status == 200 else {}


def agent_of(engine, worker):
    """Returns the id of the container's first process."""
    return engine.containers()[worker]["State"]["Pid"]


def joins_of(engine, worker):
    return {pid for pid, args in processes(engine, worker).items() if "/agent join " in args}


def cut_streams(engine, worker):
    """Kills the processes that connect combu to the agent, and returns their ids."""
    joins = wait_until(lambda: joins_of(engine, worker), "a connection")
    for pid in joins:
        with contextlib.suppress(ProcessLookupError):  # `combu ps` connects for a moment, too
            os.kill(pid, signal.SIGKILL)
    return joins


def hold_trial(lab, name, code=0, **fields):
    """Returns a trial that creates no process: it waits for a line in the pipe NAME.go, writes a line to NAME.ends, and exits."""
    os.mkfifo(lab.folder / f"{name}.go")
    script = f"echo begin {name}; read x </lab/{name}.go; echo end {name}; echo $HOSTNAME >>/lab/{name}.ends; exit {code}"
    return warm(name, script, volumes=[f"{lab.folder}/:/lab"], **fields)


def let_go(lab, *names):
    """Ends trials of hold_trial()."""

    def opened(name):
        with contextlib.suppress(OSError):  # the trial has not opened the pipe yet
            return os.open(lab.folder / f"{name}.go", os.O_WRONLY | os.O_NONBLOCK)

    for name in names:
        pipe = wait_until(lambda name=name: opened(name), f"{name} to read")
        os.write(pipe, b"go\n")
        os.close(pipe)


def wait_for_attempts(combu, attempt, names):
    """Waits until this attempt of each of these trials is running."""

    def are_running():
        rows = combu.ps()
        return all(name in rows and (rows[name]["state"], rows[name]["attempt"]) == ("running", attempt) for name in names)

    wait_until(are_running, f"attempt {attempt} of {names}")


def logged_bytes(combu, name):
    command = [combu.program, *combu.engine_options, "-f", combu.file, "logs", name]
    return subprocess.run(command, env=combu.env, capture_output=True, timeout=60, check=True).stdout


def shared(lab, **fields):
    return {"volumes": [f"{lab.folder}/:/lab"], "worker": {"count": 1, "concurrency": 8}, **fields}


# ---- The worker or its connection ends


def test_attempts_lost_with_their_worker_use_no_retries(combu, engine, lab, at_work):
    names = [f"t-{i}" for i in range(4)]
    lab.hold(*names)
    fields = {"worker": {"count": 1, "concurrency": 5}, "retries": {"max": 1, **FAST}}
    combu.write([lab.trial("early", 3, worker=fields["worker"]), *(lab.trial(name, 0 if i else 4, **fields) for i, name in enumerate(names))])
    run = at_work(combu.start("run", "--wait", "--progress", "plain"))
    for attempt in (1, 2):
        wait_for_attempts(combu, attempt, names)
        (worker,) = workers(engine) & engine.running()
        os.kill(agent_of(engine, worker), signal.SIGKILL)
    wait_for_attempts(combu, 3, names)
    lab.let_go(*names)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "its worker" in err
    assert lab.states() == {"early": ("failed", 1, 3), "t-0": ("failed", 4, 4), **{name: ("succeeded", 3, 0) for name in names[1:]}}
    assert {name: len(lab.ends(name)) for name in names} == {"t-0": 2, **dict.fromkeys(names[1:], 1)}
    assert engine.names() == set()


@pytest.mark.parametrize("way", ["stop", "remove"])
def test_a_worker_ended_through_the_engine_loses_no_result(combu, engine, lab, at_work, way):
    lab.hold("later")
    fields = {"worker": {"count": 1, "concurrency": 4}, "retries": {"max": 1, **FAST}}
    combu.write([lab.trial("early", 3, worker=fields["worker"]), lab.trial("later", **fields)])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, early="failed", later="running")
    (worker,) = workers(engine)
    if way == "stop":
        assert engine.ask("POST", f"/containers/{worker}/stop?t=5")[0] == 204
    else:
        assert engine.ask("DELETE", f"/containers/{worker}?force=1")[0] == 204
    wait_for_attempts(combu, 2, ["later"])
    lab.let_go("later")
    run.communicate(timeout=60)
    assert lab.states() == {"early": ("failed", 1, 3), "later": ("succeeded", 2, 0)}
    assert (len(lab.ends("early")), len(lab.ends("later"))) == (1, 1)


def test_results_of_a_stopped_worker_are_received_by_the_next_process(combu, engine, lab, at_work):
    """The agent writes the results to a file when it ends by SIGTERM while no combu is connected."""
    names = [f"t-{i}" for i in range(6)]
    lab.hold(*names)
    fields = {"worker": {"count": 1, "concurrency": 6}}
    combu.write([lab.trial(name, i, **fields) for i, name in enumerate(names)])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, **dict.fromkeys(names, "running"))
    die(run)
    lab.let_go(*names)
    wait_until(lambda: all(lab.ends(name) for name in names), "the ends without combu")
    (worker,) = workers(engine)
    wait_until(lambda: len(processes(engine, worker)) <= 2, "the ends of the processes")
    assert engine.ask("POST", f"/containers/{worker}/stop?t=10")[0] == 204
    combu("run", "--resume", code=1)
    assert {name: it[1:] for name, it in lab.states().items()} == {name: (1, i) for i, name in enumerate(names)}
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)


def test_a_cut_stream_is_opened_again(combu, engine, lab, at_work):
    names = [f"t-{i}" for i in range(4)]
    lab.hold(*names)
    combu.write([lab.trial(name, i, worker={"count": 1, "concurrency": 4}) for i, name in enumerate(names)])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, **dict.fromkeys(names, "running"))
    (worker,) = workers(engine)
    for name in names:
        before = cut_streams(engine, worker)
        lab.let_go(name)
        wait_until(lambda: joins_of(engine, worker) - before or run.poll() is not None, "another connection")
    run.communicate(timeout=60)
    assert {name: it[1:] for name, it in lab.states().items()} == {name: (1, i) for i, name in enumerate(names)}
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)


# ---- An attempt disturbs its worker

CONNECT = "printf garbage | /combu/agent/agent join /combu/attempts/w/agent; echo joined $?"
REPLACE = (
    "for f in /combu/agent/agent /combu/attempts/w/agent/socket; do (: >$f); rm -f $f; (echo x >$f); done 2>/dev/null; "
    "mv /combu/attempts/w/agent /combu/attempts/w/away; ln -s /etc /combu/attempts/w/agent; exit 3"
)

# {name: (script, exit code, log)}; None: anything
BAD = {
    "closes-all": ("exec 0<&- 1>&- 2>&- 3>&- 4>&- 5>&- 6>&- 7>&-; i=0; while test $i -lt 50000; do i=$((i + 1)); done; exit 3", 3, ""),
    "fills-all": ("cd $COMBU_SCRATCH; ulimit -n 4096; awk 'BEGIN { for (i = 0; i < 9999; i++) print >(\"f\" i) }' 2>/dev/null && exit 3; echo full; exit 4", 4, "full\n"),
    "binary": ("head -c 300000 /dev/urandom >/lab/bytes; cat /lab/bytes; exit 3", 3, None),
    "kills-parent": ("for s in KILL STOP TERM INT SEGV ABRT; do kill -$s $PPID; kill -$s 1; done; exit 3", 3, ""),
    "lingers": ("trap '' HUP; setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' >/dev/null 2>&1 & (sleep 6000 &) & echo on; exit 3", 3, "on\n"),
    "keeps-the-output": ("setsid sleep 6000 & echo on; exit 3", 3, "on\n"),
    "replaces-files": (REPLACE, 3, None),
    "connects": (CONNECT + "; exit 3", 3, None),
    "connects-as-orphan": (f"(setsid sh -c '{CONNECT} >$COMBU_SCRATCH/out; : >$COMBU_SCRATCH/done' &); until test -e $COMBU_SCRATCH/done; do sleep 0.05; done; cat $COMBU_SCRATCH/out; exit 3", 3, None),
    "removes-folders": ("rm -rf /combu/attempts/w/agent; exit 3", 3, None),
    "own-sigkill": ("kill -9 $$", 137, ""),
}


@pytest.mark.parametrize("name", BAD)
def test_an_attempt_that_disturbs_its_worker_alters_no_other(combu, engine, lab, at_work, name):
    """Other attempts run in the same worker before, during and after the bad one."""
    script, code, log = BAD[name]
    fields = shared(lab)
    del fields["volumes"]
    lab.hold("bad")
    combu.write([
        warm("before", "echo first; exit 5", **shared(lab)),
        hold_trial(lab, "during", 6, **fields),
        warm("bad", f"while test -e /lab/bad.held; do sleep 0.05; done; {script}", **shared(lab)),
        warm("after", "echo last >$COMBU_SCRATCH/a; cat $COMBU_SCRATCH/a; echo $HOSTNAME >/lab/after.host; exit 7", outputs=["a"],
             depends=[{"trial": "bad", "condition": "finished"}], **shared(lab)),
    ])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, before="failed", during="running", bad="running")
    lab.let_go("bad")
    wait_for_states(combu, bad="failed", after="failed")
    (worker,) = workers(engine)
    cut_streams(engine, worker)  # combu can connect again
    let_go(lab, "during")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1, err
    assert {name: it[1:] for name, it in lab.states().items()} == {"before": (1, 5), "during": (1, 6), "bad": (1, code), "after": (1, 7)}
    assert (said(combu, "before"), said(combu, "during"), said(combu, "after")) == ("first\n", "begin during\nend during\n", "last\n")
    if log is not None:
        assert said(combu, "bad") == log
    if name == "binary":
        assert logged_bytes(combu, "bad") == (lab.folder / "bytes").read_bytes()
    if name.startswith("connects"):
        assert "joined 1\n" in said(combu, "bad")
    assert lab.ends("during") == (lab.folder / "after.host").read_text().split(), "the worker remains"


def test_an_attempt_that_poses_as_the_agent_is_not_believed(combu, engine, lab, at_work):
    """The attempt runs an agent of its own, and puts the socket of that agent in the place of the true one again and again."""
    pose = (
        "/combu/agent/agent worker /combu/attempts/w/false 60 & until test -e /combu/attempts/w/false/socket; do sleep 0.01; done; "
        "i=0; while test $i -lt 500; do ln -f /combu/attempts/w/false/socket /combu/attempts/w/agent/socket; : >/lab/posing; i=$((i + 1)); done; exit 3"
    )
    fields = shared(lab)
    combu.write([hold_trial(lab, "during", 6, worker=fields["worker"]), warm("bad", pose, **fields)])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, during="running")
    wait_until(lambda: (lab.folder / "posing").exists(), "the false socket")
    (worker,) = workers(engine)
    cut_streams(engine, worker)  # combu connects again, and meets the false socket
    wait_for_states(combu, bad="failed")
    let_go(lab, "during")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1, err
    assert {name: it[1:] for name, it in lab.states().items()} == {"during": (1, 6), "bad": (1, 3)}
    assert said(combu, "during") == "begin during\nend during\n"


def test_processes_left_behind_are_killed(combu, engine, lab, at_work):
    script, *_ = BAD["lingers"]
    combu.write([warm("bad", script, **shared(lab)), hold_trial(lab, "during", worker=shared(lab)["worker"])])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, bad="failed", during="running")
    (worker,) = workers(engine)
    assert not [args for args in processes(engine, worker).values() if "sleep" in args or "while :" in args]
    let_go(lab, "during")
    run.communicate(timeout=60)
    assert states(combu)["during"] == "succeeded"


def test_an_attempt_that_forks_without_end(combu, engine, lab, at_work):
    docker = {"HostConfig": {"PidsLimit": 100}}
    fields = {"docker": docker, "worker": {"count": 1, "concurrency": 8}}
    box = {"volumes": [f"{lab.folder}/:/lab"], **fields}
    # The inner shell ends when it cannot create another process. The outer shell then takes its place. The kernel may count the
    # inner shell for a moment after its end, and a shell that cannot create a process ends; then it begins the script again.
    (lab.folder / "last.sh").write_text("trap 'exec sh /lab/last.sh' EXIT\nsleep 600 &\ntrap - EXIT\n: >/lab/begun\nwait\n")
    bomb = "until test -e /lab/ready; do :; done; (while :; do sleep 600 & done) 2>/dev/null & wait $!; exec sh /lab/last.sh 2>/dev/null"
    # `trigger` creates no process. Its end leaves room for one process, but two trials start then.
    trigger = ": >/lab/ready; until test -e /lab/begun; do :; done; i=0; while test $i -lt 50000; do i=$((i + 1)); done"
    combu.write([
        warm("bomb", bomb, timeout="3s", stop_grace="500ms", **box),
        hold_trial(lab, "during", 6, **fields),
        warm("trigger", trigger, **box),
        *(warm(f"then-{i}", f"exit {i}", depends=[{"trial": "trigger", "condition": "finished"}], **box) for i in (1, 2)),
        warm("after", "true | exit 7", depends=[{"trial": "bomb", "condition": "finished"}], **box),
    ])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, bomb="failed", after="failed")
    let_go(lab, "during")
    run.communicate(timeout=60)
    codes = {name: it[1:] for name, it in lab.states().items() if name != "bomb"}
    assert codes == {"during": (1, 6), "trigger": (1, 0), "then-1": (1, 1), "then-2": (1, 2), "after": (1, 7)}


def test_an_attempt_that_ignores_its_stop_signal(combu, engine, lab, at_work):
    fields = shared(lab, stop_grace="500ms")
    script = "trap 'echo ignored' TERM; echo on; while :; do sleep 0.1; done"
    combu.write([warm("stopped", script, **fields), warm("late", script, timeout="1s", **fields), hold_trial(lab, "during", 6, worker=fields["worker"])])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, late="failed", during="running", stopped="running")
    wait_until(lambda: said(combu, "stopped") == "on\n", "its trap")
    combu("stop", "stopped")
    wait_for_states(combu, stopped="stopped")
    let_go(lab, "during")
    run.communicate(timeout=60)
    rows = combu.ps()
    assert (rows["late"]["cause"], rows["late"]["exit_code"], rows["stopped"]["exit_code"], rows["during"]["exit_code"]) == ("timeout", 137, 137, 6)
    assert "ignored\n" in said(combu, "late") and "ignored\n" in said(combu, "stopped")


@pytest.mark.slow
def test_results_arrive_while_an_attempt_prints_a_gibibyte(combu, engine, lab, at_work):
    fields = shared(lab)
    others = [f"t-{i:02}" for i in range(40)]
    combu.write([
        warm("loud", f"yes {'x' * 999} | head -c 1073741824; echo the end; exit 3", logs={"max_size": "4m"}, **fields),
        *(warm(name, f"echo {name}; exit {i % 3}", **fields) for i, name in enumerate(others)),
    ])
    run = at_work(combu.start("run", "--wait"))
    wait_until(lambda: all(states(combu).get(name) in ("succeeded", "failed") for name in others), "the others", seconds=30)
    run.communicate(timeout=300)
    assert lab.states() == {"loud": ("failed", 1, 3), **{name: ("failed" if i % 3 else "succeeded", 1, i % 3) for i, name in enumerate(others)}}
    assert [said(combu, name) for name in others] == [f"{name}\n" for name in others]
    log = said(combu, "loud")
    assert log.endswith("the end\n") and len(log) <= 4 << 20


def test_an_attempt_that_fills_the_scratch_folders(combu, engine, lab, at_work):
    docker = {"HostConfig": {"Tmpfs": {"/combu/attempts/w": "size=4m,mode=1777"}}}
    fields = shared(lab, docker=docker)
    del fields["volumes"]
    fill = "dd if=/dev/zero of=$COMBU_SCRATCH/fill bs=64k 2>/dev/null; touch /lab/full; until [ -e /lab/go ]; do sleep 0.05; done; exit 3"
    combu.write([
        hold_trial(lab, "during", 6, **fields),
        warm("fill", fill, volumes=[f"{lab.folder}/:/lab"], **fields),
        warm("after", "until echo x >$COMBU_SCRATCH/a; do sleep 0.05; done 2>/dev/null; cat $COMBU_SCRATCH/a; exit 7", depends=[{"trial": "fill", "condition": "finished"}],
             volumes=[f"{lab.folder}/:/lab"], **fields),
    ])
    run = at_work(combu.start("run", "--wait"))
    wait_until(lambda: (lab.folder / "full").exists(), "a full file system")
    let_go(lab, "during")
    (lab.folder / "go").touch()
    run.communicate(timeout=60)
    assert {name: it[1:] for name, it in lab.states().items()} == {"during": (1, 6), "fill": (1, 3), "after": (1, 7)}
    assert (said(combu, "during"), said(combu, "after")) == ("begin during\nend during\n", "x\n")


@pytest.mark.engine_version
def test_only_the_attempt_that_uses_too_much_memory_is_killed(combu, engine, lab, at_work):
    names = [f"t-{i}" for i in range(7)]
    fields = {"worker": {"count": 1, "concurrency": 8}, "memory": "16m"}
    combu.write([
        *(hold_trial(lab, name, i, **fields) for i, name in enumerate(names)),
        warm("eater", "exec dd if=/dev/zero of=/dev/null bs=400M count=1", volumes=[f"{lab.folder}/:/lab"], **fields),
        warm("after", "exit 7", depends=[{"trial": "eater", "condition": "finished"}], volumes=[f"{lab.folder}/:/lab"], **fields),
    ])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, **dict.fromkeys(names, "running"), eater="failed", after="failed")
    let_go(lab, *names)
    _, err = run.communicate(timeout=60)
    assert "failed: eater: out of memory" in err
    wanted = {name: (1, i) for i, name in enumerate(names)}
    assert {name: it[1:] for name, it in lab.states().items()} == {**wanted, "eater": (1, 137), "after": (1, 7)}
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)


# ---- Images and engines


@pytest.mark.engine_version
def test_an_image_of_another_architecture_is_refused(combu, engine):
    load_image(engine, "foreign", "arm64")
    assert engine.get("/images/foreign/json")["Architecture"] == "arm64"
    combu.write([{"name": "one", "image": "foreign", "entrypoint": ["/busybox", "true"], "worker": True}])
    done = combu("run", "--wait", code=1)
    # A build without the arm64 agent refuses the image; a released combu gets the engine's error.
    assert "the image is for linux/arm64, for which this combu has no agent" in done.stderr or "exec format error" in done.stderr
    assert engine.names() == set()


@pytest.mark.slow
@pytest.mark.engine_version
@pytest.mark.parametrize(("options", "attempts"), [((), 2), (("--live-restore",), 1)], ids=["lost", "live_restore"])
def test_a_restart_of_the_engine_with_live_workers(combu_on, new_engine, tmp_path, at_work, options, attempts):
    engine = new_engine("--own-containerd", *options)
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    lab = Lab(combu, tmp_path / "lab")
    names = [f"t-{i}" for i in range(6)]
    lab.hold(*names)
    combu.write([
        lab.trial("early", 3, worker={"concurrency": 4}),
        *(lab.trial(name, worker={"concurrency": 4}, retries={"max": 1, "on": ["host_lost"], **FAST}) for name in names),
    ])
    run = at_work(combu.start("run", "--wait", "--progress", "plain"))
    wait_for_states(combu, **dict.fromkeys(names, "running"), early="failed")
    engine.kill9()
    engine.start()
    wait_for_attempts(combu, attempts, names)
    lab.let_go(*names)
    _, err = run.communicate(timeout=120)
    assert lab.states() == {"early": ("failed", 1, 3), **{name: ("succeeded", attempts, 0) for name in names}}, err
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)
    wait_until(lambda: engine.names() == set(), "the ends of the workers")


# ---- The end of combu

ROUNDS = int(os.environ.get("COMBU_KILL_ROUNDS", "2"))


def test_combu_is_killed_with_a_hundred_attempts_in_flight(combu, engine, lab, at_work):
    names = [f"t-{i:03}" for i in range(100)]
    lab.hold(*names)
    combu.write([lab.trial(name, i % 3, worker={"count": 2, "concurrency": 50}) for i, name in enumerate(names)])
    run = at_work(combu.start("run", "--wait"))
    wait_until(lambda: list(states(combu).values()).count("running") == 100, "all attempts")
    die(run)
    for first in range(0, 100, 25):
        run = at_work(combu.start("run", "--resume"))
        lab.let_go(*names[first : first + 25])
        wait_until(lambda: sum(len(lab.ends(name)) for name in names) >= first + 13, "the ends of some")
        die(run)
    wait_until(lambda: all(lab.ends(name) for name in names), "all ends")
    combu("run", "--resume", code=1)
    assert lab.states() == {name: ("failed" if i % 3 else "succeeded", 1, i % 3) for i, name in enumerate(names)}
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)
    assert engine.names() == set()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_combu_is_killed_at_random_moments(combu, engine, lab, seed):
    moments = random.Random(seed)
    codes = {f"t-{i:03}": (0, 3)[i % 5 == 0] for i in range(150)}
    fields = {"worker": {"count": 2, "concurrency": 20}}
    combu.write([lab.trial(name, code, f"0.{moments.randrange(5)}", **fields) for name, code in codes.items()])
    deaths = 0
    while True:
        process = combu.start("run", *(["--resume"] if lab.has_run() else ["--wait"]), "--progress", "plain")
        try:
            _, err = process.communicate(timeout=moments.uniform(0.05, 2) if deaths < 12 else 120)
        except subprocess.TimeoutExpired:
            die(process)
            deaths += 1
            assert deaths <= 12, "it does not end by itself"
        else:
            break
    assert process.returncode == 1, err
    assert deaths > 0
    assert lab.states() == {name: ("failed" if code else "succeeded", 1, code) for name, code in codes.items()}
    assert {name: len(lab.ends(name)) for name in codes} == dict.fromkeys(codes, 1)
    assert engine.names() == set()
