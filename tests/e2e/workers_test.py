"""Trials with `worker`: their attempts run in warm containers, and have the same results as in containers of their own."""

import hashlib
import io
import json
import os
import shutil
import signal
import tarfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from engines import UnixConnection, trial, wait_until
from outputs_test import files, results
from resume_test import at_work, die, lab
from run_test import sleeper

__all__ = ["at_work", "lab"]


def warm(name, script, **fields):
    """Returns a trial whose attempts run in workers."""
    return trial(name, script, **{"worker": True, **fields})


def workers(engine):
    return {name for name in engine.names() if name.startswith("combu-worker-")}


def states(combu):
    return {name: row["state"] for name, row in combu.ps().items()}


def wait_for_states(combu, **wanted):
    wait_until(lambda: wanted.items() <= states(combu).items(), f"the states {wanted}")


def moment_of(combu, name, state):
    """Returns when the trial's last attempt had this state."""
    events = map(json.loads, combu("events", name, "--json").stdout.splitlines())
    return max(datetime.fromisoformat(event["time"].replace("Z", "+00:00")) for event in events if event["state"] == state)


def said(combu, name):
    return combu("logs", name).stdout


def derive_image(engine, name, *changes):
    """Makes an image from the test image with instructions of a Dockerfile."""
    engine.run_stranger("base")
    query = "".join(f"&changes={change}" for change in changes).replace(" ", "%20").replace('"', "%22")
    status, answer = engine.ask("POST", f"/commit?container=base&repo={name}{query}")
    assert status == 201, answer
    assert engine.ask("DELETE", "/containers/base?force=1")[0] == 204


def archive_of(contents):
    """Returns a tar archive of {path: (bytes, mode)}."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, (content, mode) in contents.items():
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def load_image(engine, name, architecture="amd64"):
    """Makes an image that has only the file /busybox."""
    layer = archive_of({"busybox": (Path(shutil.which("busybox")).read_bytes(), 0o755)})
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = {"architecture": architecture, "os": "linux", "config": {}, "rootfs": rootfs}
    manifest = [{"Config": "config.json", "RepoTags": [f"{name}:latest"], "Layers": ["layer.tar"]}]
    image = archive_of({
        "config.json": (json.dumps(config).encode(), 0o644),
        "manifest.json": (json.dumps(manifest).encode(), 0o644),
        "layer.tar": (layer, 0o644),
    })
    connection = UnixConnection(engine.socket)
    try:
        connection.request("POST", "/images/load?quiet=1", image, {"Content-Type": "application/x-tar"})
        answer = connection.getresponse().read().decode()
    finally:
        connection.close()
    assert '"error"' not in answer and name in answer, answer


# ---- The main path


def test_many_trials_run_in_few_containers(combu, engine):
    combu.write([warm(f"t-{i:03}", f"echo out {i}; echo err {i} >&2; exit {i % 3}") for i in range(100)])
    seen = set()
    run = combu.start("run", "--wait", "--progress", "plain")
    while run.poll() is None:
        seen |= engine.names()
    assert run.returncode == 1
    assert seen == {name for name in seen if name.startswith(("combu-worker-", "combu-agent-"))}
    assert 1 <= sum(name.startswith("combu-worker-") for name in seen) <= engine.get("/info")["NCPU"]
    assert engine.names() == set(), "the workers end with the run"
    rows = combu.ps()
    assert {name: row["exit_code"] for name, row in rows.items()} == {f"t-{i:03}": i % 3 for i in range(100)}
    assert {row["attempt"] for row in rows.values()} == {1}
    for i in (0, 1, 50, 99):
        log = combu("logs", f"t-{i:03}")
        assert (log.stdout, log.stderr) == (f"out {i}\n", f"err {i}\n")


def test_the_commands_of_the_record_show_trials_in_workers(combu, engine):
    combu.write([warm("good", "echo fine", params={"seed": 7}), warm("bad", "echo worse; exit 3", params={"seed": 8})])
    done = combu("run", "--wait", code=1)
    assert "failed: bad: exit code 3" in done.stderr and "  bad | worse" in done.stderr
    rows = combu.ps()
    assert {name: (row["state"], row["exit_code"]) for name, row in rows.items()} == {"good": ("succeeded", 0), "bad": ("failed", 3)}
    assert 0 <= rows["good"]["seconds"] < 30
    assert "combu-worker-" not in combu("ps").stdout
    assert "exit code 3" in combu("why", "bad").stdout
    assert combu("times").stdout.splitlines()[0].startswith(f"run {rows['good']['run']}: 2 attempts in ")
    events = [json.loads(line)["state"] for line in combu("events", "good", "--json").stdout.splitlines()]
    assert events[-1] == "succeeded" and "running" in events


def test_run_without_wait_stays_until_the_attempts_in_workers_have_ended(combu, engine, lab, at_work):
    """The engine has no logs of attempts in workers, so combu must read the logs before the workers end."""
    names = [f"t-{i}" for i in range(4)]
    lab.hold(*names)
    combu.write([*(lab.trial(name, i, worker={"concurrency": 4}) for i, name in enumerate(names)), sleeper("box")])
    run = at_work(combu.start("run"))
    wait_for_states(combu, **dict.fromkeys([*names, "box"], "running"))
    lab.let_go(*names)
    run.communicate(timeout=60)
    assert run.returncode == 1
    assert {name: it[2] for name, it in lab.states().items()} == {**{name: i for i, name in enumerate(names)}, "box": None}
    assert engine.names() == {"box"}


def test_entrypoint_and_command_of_the_image(combu, engine):
    derive_image(engine, "with-entry", 'ENTRYPOINT ["echo","entry"]', 'CMD ["image"]', "ENV FROM_IMAGE=yes", "WORKDIR /etc")
    combu.write([
        {"name": "own", "image": "with-entry", "worker": True},
        {"name": "cmd", "image": "with-entry", "cmd": ["given"], "worker": True},
        {"name": "entry", "image": "with-entry", "entrypoint": ["sh", "-c"], "cmd": ["echo $FROM_IMAGE $PWD"], "worker": True},
        {"name": "bare", "image": "with-entry", "entrypoint": ["pwd"], "worker": True},
    ])
    combu("run", "--wait")
    assert {name: said(combu, name) for name in combu.ps()} == {"own": "entry image\n", "cmd": "entry given\n", "entry": "yes /etc\n", "bare": "/etc\n"}


def test_a_program_that_does_not_exist_fails_with_its_name(combu, engine):
    combu.write([{"name": "one", "image": "combu-test", "cmd": ["no-such-program"], "worker": True}, warm("two", "true")])
    done = combu("run", "--wait", code=1)
    assert 'the program "no-such-program" cannot be executed' in done.stderr
    assert states(combu) == {"one": "failed", "two": "succeeded"}


def test_environment_parameters_and_folders(combu, engine):
    show = "echo $A $COMBU_PARAM_LR; cat $COMBU_SCRATCH/params.json; test $TMPDIR = $COMBU_SCRATCH && touch $TMPDIR/x"
    combu.write([
        warm("values", show, env={"A": "b c"}, params={"lr": 0.5}, params_file=True),
        warm("folder", "pwd; id -u", workdir="/tmp", user="65534"),
        warm("scratch", "touch $COMBU_SCRATCH/a && ls $COMBU_SCRATCH; id -u", user="65534"),
        warm("root", "id -u"),
    ])
    combu("run", "--wait")
    first, *rest = said(combu, "values").splitlines()
    assert first == "b c 0.5"
    assert json.loads("".join(rest)) == {"lr": 0.5}
    assert {name: said(combu, name) for name in ("folder", "scratch", "root")} == {"folder": "/tmp\n65534\n", "scratch": "a\n65534\n", "root": "0\n"}


def test_an_image_without_a_shell_or_folders(combu, engine):
    load_image(engine, "tiny")
    combu.write([
        {"name": "tmp", "image": "tiny", "entrypoint": ["/busybox", "sh", "-c"], "cmd": ["echo $TMPDIR >$TMPDIR/a && /busybox cat $TMPDIR/a"], "worker": True, "outputs": ["a"]},
        {"name": "user", "image": "tiny", "entrypoint": ["/busybox"], "cmd": ["id", "-u"], "user": "65534", "worker": True},
    ])
    combu("run", "--wait")
    assert said(combu, "tmp").startswith("/combu/")
    assert said(combu, "user") == "65534\n"


def test_a_hardened_container(combu, engine):
    docker = {"ReadonlyRootfs": True, "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"]}
    show = "touch /x 2>/dev/null || echo read-only; echo $(id -u) >$COMBU_SCRATCH/who; grep -E 'CapEff|NoNewPrivs' /proc/self/status | cut -f 2"
    fields = {"docker": {"HostConfig": docker}, "outputs": ["who"]}
    combu.write([warm("root", show, **fields), warm("other", show, user="65534:65534", **fields), warm("three", "exit 3", **{**fields, "outputs": []})])
    combu("run", "--wait", code=1)
    home = results(combu)
    for name, uid in (("root", "0"), ("other", "65534")):
        assert said(combu, name).split() == ["read-only", "0000000000000000", "1"]
        assert (home / name / "who").read_text() == f"{uid}\n"
    assert combu.ps()["three"]["exit_code"] == 3


# ---- Limits of workers, and slots


def test_the_agent_makes_a_control_group_for_each_attempt_where_it_may(combu, engine):
    """Then the peak memory is that of all processes of the attempt together, and not of the largest one."""
    megabytes = 1_000_000
    holds = f"(head -c {20 * megabytes} /dev/zero; sleep 1) | tail -c {20 * megabytes} | wc -c"
    script = f"({holds}) & ({holds}) & ({holds}) & wait"

    def peaks(**fields):
        combu.write([warm("large", script, **fields), warm("small", "true", **fields)])
        combu("run", "--wait")
        rows = combu.ps()
        combu("kill")
        return rows["large"]["memory_peak"], rows["small"]["memory_peak"]

    if Path("/sys/fs/cgroup/cgroup.controllers").exists():  # version 2
        large, small = peaks(docker={"HostConfig": {"Privileged": True}})
    else:
        large, small = peaks(volumes=["/sys/fs/cgroup:/sys/fs/cgroup"])
    assert large > 55 * megabytes
    assert small < 20 * megabytes
    assert peaks()[0] < 40 * megabytes


def test_concurrency_and_count_limit_attempts_at_once(combu, engine, lab):
    fields = {"worker": {"count": 2, "concurrency": 3}}
    names = [f"t-{i}" for i in range(9)]
    lab.hold(*names)
    combu.write([lab.trial(name, **fields) for name in names])
    run = combu.start("run", "--wait")
    wait_until(lambda: sorted(states(combu).values()).count("running") == 6, "six attempts")
    assert len(workers(engine)) == 2
    lab.let_go(*names)
    run.communicate(timeout=60)
    assert run.returncode == 0
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)
    by_container = [lab.ends(name)[0] for name in names]
    assert len(set(by_container)) == 2


def test_a_worker_is_replaced_after_trials_max(combu, engine, lab):
    names = [f"t-{i}" for i in range(7)]
    combu.write([lab.trial(name, worker={"count": 1, "trials_max": 3}) for name in names])
    combu("run", "--wait")
    hosts = [lab.ends(name)[0] for name in names]
    assert sorted(hosts.count(one) for one in set(hosts)) == [1, 3, 3]
    assert engine.names() == set()


def test_a_worker_is_replaced_at_its_age_max(combu, engine, lab):
    names = [f"t-{i}" for i in range(4)]
    combu.write([lab.trial(name, seconds=0.6, worker={"count": 1, "age_max": "1s"}) for name in names])
    combu("run", "--wait")
    assert len({lab.ends(name)[0] for name in names}) >= 2


def test_a_worker_reserves_the_slots_of_all_its_attempts(combu, engine, tmp_path):
    cpus = engine.get("/info")["NCPU"]
    hold = {"volumes": [f"{tmp_path}/hold/:/hold"]}
    wait = "until test -e /hold/go; do sleep 0.05; done"
    shared = {"cpus": cpus / 4, "memory": "32m", "worker": {"concurrency": 4}, **hold}
    combu.write([*(warm(f"t-{i}", wait, **shared) for i in range(4)), trial("own", "true", cpus=0.5)])
    run = combu.start("run", "--wait")
    wait_for_states(combu, **{f"t-{i}": "running" for i in range(4)})
    (name,) = workers(engine)
    config = engine.containers()[name]["HostConfig"]
    assert (config["NanoCpus"], config["Memory"]) == (cpus * 10**9, 128 << 20)
    assert states(combu)["own"] not in ("running", "succeeded")
    (tmp_path / "hold/go").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert set(states(combu).values()) == {"succeeded"}
    ended = max(moment_of(combu, f"t-{i}", "ended") for i in range(4))
    assert moment_of(combu, "own", "running") - ended < timedelta(seconds=6), "not after combu's next look at all claims"


def test_an_idle_worker_gives_its_slots_to_another_run(combu_on, engine, tmp_path):
    cpus = engine.get("/info")["NCPU"]
    hold = {"volumes": [f"{tmp_path}/hold/:/hold"]}
    first, second = combu_on(engine), combu_on(engine)
    # The run goes on after the end of `warm`, because `long` holds no slots and runs on.
    first.write([warm("warm", "true", cpus=cpus), trial("long", "until test -e /hold/go; do sleep 0.05; done", **hold)])
    run = first.start("run", "--wait")
    wait_for_states(first, warm="succeeded", long="running")
    second.file = tmp_path / "second.jsonnet"
    second.write({"experiment": "other", "trials": [trial("large", "true", cpus=cpus)]})
    second("run", "--wait", timeout=30)
    assert run.poll() is None
    (tmp_path / "hold/go").touch()
    run.communicate(timeout=60)
    assert run.returncode == 0


# ---- Dependencies, files, metrics, the cache


def test_dependencies_between_workers_and_containers(combu, engine, lab):
    combu.write([
        lab.trial("warm-1", worker=True),
        lab.trial("box", depends=[{"trial": "warm-1", "condition": "succeeded"}]),
        lab.trial("warm-2", 3, worker=True, depends=[{"trial": "box", "condition": "succeeded"}]),
        lab.trial("never", worker=True, depends=[{"trial": "warm-2", "condition": "succeeded"}]),
        lab.trial("last", worker=True, depends=[{"trial": "warm-2", "condition": "finished"}]),
    ])
    combu("run", "--wait", code=1)
    assert states(combu) == {"warm-1": "succeeded", "box": "succeeded", "warm-2": "failed", "never": "blocked", "last": "succeeded"}


def test_outputs_in_the_scratch_folder_and_elsewhere(combu, engine):
    combu.write([
        *(
            warm(f"t-{i}", f"cd $COMBU_SCRATCH; mkdir -p out/sub; echo {i} >out/sub/n; ln -s n out/sub/link; echo file {i} >one; test {i} != 1", outputs=["out", "one"])
            for i in range(6)
        ),
        warm("absolute", "mkdir -p /out; echo here >/out/a", outputs=["/out"]),
        warm("nothing", "true", outputs=["absent"]),
        warm("optional", "true", outputs=[{"path": "absent", "required": False}]),
        warm("large", "head -c 3000000 /dev/zero >$COMBU_SCRATCH/big", outputs=["big"]),
    ])
    done = combu("run", "--wait", code=1)
    assert "absent: there is no such output" in done.stderr
    home = results(combu)
    for i in range(6):
        found = files(home / f"t-{i}")
        del found["manifest.sha256"]
        assert found == {"out/sub/n": f"{i}\n", "out/sub/link": f"{i}\n", "one": f"file {i}\n"}
        assert os.readlink(home / f"t-{i}/out/sub/link") == "n"
    assert files(home / "absolute")["out/a"] == "here\n"
    assert (home / "large/big").stat().st_size == 3_000_000
    wanted = {**{f"t-{i}": "succeeded" for i in range(6)}, "t-1": "failed", "absolute": "succeeded", "nothing": "failed", "optional": "succeeded", "large": "succeeded"}
    assert states(combu) == wanted
    assert combu.ps()["nothing"]["cause"] == "outputs"


def test_each_attempt_has_a_scratch_folder_of_its_own(combu, engine, lab):
    show = "ls -A $COMBU_SCRATCH; echo x >>/lab/tries; n=$(wc -l </lab/tries); touch $COMBU_SCRATCH/$n; test $n = 3"
    fields = {"worker": {"count": 1}, "volumes": [f"{lab.folder}/:/lab"]}
    combu.write([warm("flaky", show, outputs=[{"path": "3", "required": False}], retries={"max": 5, "backoff": {"initial": 0}}, **fields)])
    combu("run", "--wait")
    assert [said_by(combu, "flaky", attempt) for attempt in (1, 2, 3)] == ["", "", ""]
    assert set(files(results(combu) / "flaky")) == {"3", "manifest.sha256"}


def said_by(combu, name, attempt):
    return combu("logs", name, "--attempt", attempt).stdout


def test_inputs_from_files_and_from_other_trials(combu, engine):
    (combu.home / "data").mkdir()
    (combu.home / "data/a").write_text("own\n")
    combu.write([
        warm("make", "mkdir $COMBU_SCRATCH/out; echo made >$COMBU_SCRATCH/out/m", outputs=["out"]),
        trial("box", "mkdir /box; echo boxed >/box/b", outputs=["/box"]),
        warm("use", "cd $COMBU_SCRATCH; cat in/a from/m box/b /abs/a; id -u; echo more >in/a",
             inputs=["./data:in", "trial:make/out:from", "trial:box/box:box", "./data:/abs"], user="65534"),
        warm("again", "cat $COMBU_SCRATCH/in/a", inputs=["./data:in"], user="65534", depends=[{"trial": "use", "condition": "succeeded"}]),
        trial("last", "cat /in/m", inputs=["trial:make/out:/in"]),
    ])
    combu("run", "--wait")
    assert said(combu, "use") == "own\nmade\nboxed\nown\n65534\n"
    assert (said(combu, "again"), said(combu, "last")) == ("own\n", "made\n")


def test_metrics_from_the_output_and_from_a_file(combu, engine):
    tell = 'for i in 1 2 3; do echo "{\\"step\\": $i, \\"x\\": $i}"; done'
    combu.write([
        warm("out", tell, metrics={"stdout": "json"}),
        warm("file", f"({tell}) >$COMBU_SCRATCH/m.jsonl", metrics={"file": "m.jsonl"}),
    ])
    combu("run", "--wait")
    rows = {row["trial"]: row for row in map(json.loads, combu("results", "--json").stdout.splitlines())}
    assert {name: (row["metrics"]["x"]["points"], row["metrics"]["x"]["last"]) for name, row in rows.items()} == {"out": (3, 3), "file": (3, 3)}


def test_an_equal_trial_is_skipped(combu, engine):
    combu.write([warm(f"t-{i}", f"echo {i} >$COMBU_SCRATCH/n", outputs=["n"], cache=True) for i in range(3)])
    combu("run", "--wait", "--run-id", "first")
    combu("run", "--wait", "--run-id", "second")
    assert set(states(combu).values()) == {"skipped"}
    assert (combu.home / "results/experiment/second/t-1/n").read_text() == "1\n"
    assert engine.names() == set()


# ---- Timeouts, retries, stops


def test_timeouts_and_retries_have_their_causes(combu, engine, tmp_path):
    (tmp_path / "hold").mkdir()
    fields = {"worker": {"concurrency": 4}, "volumes": [f"{tmp_path}/hold/:/hold"]}
    fast = {"backoff": {"initial": 0}}
    combu.write([
        warm("late", "sleep 600", timeout="500ms", stop_grace="1s", **fields),
        warm("stubborn", "trap '' TERM; while :; do sleep 1; done", timeout="500ms", stop_grace="500ms", **fields),
        warm("polite", "trap 'echo bye; exit 0' TERM; sleep 600 & wait", timeout="500ms", stop_grace="5s", **fields),
        warm("by-timeout", "test -e /hold/second || { touch /hold/second; sleep 600; }", timeout="500ms", retries={"max": 1, "on": ["timeout"], **fast}, **fields),
        warm("not-error", "exit 4", retries={"max": 3, "on": ["timeout"], **fast}, **fields),
        warm("flaky", "echo x >>/hold/log; test $(wc -l </hold/log) = 3", retries={"max": 5, **fast}, **fields),
    ])
    done = combu("run", "--wait", code=1)
    assert "failed: late: took longer than its timeout of 500 ms" in done.stderr
    rows = combu.ps()
    shown = {name: (row["state"], row["attempt"], row.get("cause")) for name, row in rows.items()}
    assert shown == {
        "late": ("failed", 1, "timeout"),
        "stubborn": ("failed", 1, "timeout"),
        "polite": ("failed", 1, "timeout"),
        "by-timeout": ("succeeded", 2, None),
        "not-error": ("failed", 1, "error"),
        "flaky": ("succeeded", 3, None),
    }
    assert said(combu, "polite") == "bye\n"


def test_stop_ends_one_attempt_and_not_its_neighbours(combu, engine, lab):
    fields = {"worker": {"count": 1, "concurrency": 3}, "stop_grace": "5s"}
    lab.hold("other")
    combu.write([warm("ended", "trap 'echo bye; exit 7' TERM; echo on; sleep 600 & wait", retries=3, volumes=[f"{lab.folder}/:/lab"], **fields), lab.trial("other", **fields)])
    run = combu.start("run", "--wait", "--progress", "plain")
    wait_for_states(combu, ended="running", other="running")
    wait_until(lambda: said(combu, "ended") == "on\n", "its trap")
    combu("stop", "ended")
    wait_for_states(combu, ended="stopped")
    lab.let_go("other")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "with `combu stop`" in err
    assert states(combu) == {"ended": "stopped", "other": "succeeded"}
    assert said(combu, "ended") == "on\nbye\n"


def test_following_logs_of_another_process(combu, engine, tmp_path):
    steps = "for i in 1 2 3; do until test -e /hold/$i; do sleep 0.05; done; echo step $i; done; echo end >&2"
    combu.write([warm(f"t-{i}", steps, volumes=[f"{tmp_path}/hold/:/hold"], worker={"concurrency": 2}) for i in range(2)])
    run = combu.start("run", "--wait")
    wait_for_states(combu, **{"t-0": "running", "t-1": "running"})
    follow = combu.start("logs", "-f")
    for step in (1, 2, 3):
        (tmp_path / f"hold/{step}").touch()
        assert {follow.stdout.readline() for _ in range(2)} == {f"t-{i} | step {step}\n" for i in range(2)}
    out, err = follow.communicate(timeout=60)
    assert (out, follow.returncode) == ("", 0)
    assert sorted(err.splitlines()) == ["t-0 | end", "t-1 | end"]
    run.communicate(timeout=60)
    assert run.returncode == 0
    assert sorted(combu("logs", "--tail", "2").stdout.splitlines()) == ["t-0 | step 3", "t-1 | step 3"]


def test_kill_from_another_process_during_the_run(combu, engine):
    combu.write([warm("one", "echo so far; sleep 600", worker={"concurrency": 2}), warm("two", "sleep 600", worker={"concurrency": 2}), sleeper("box")])
    run = combu.start("run", "--wait")
    wait_for_states(combu, one="running", two="running", box="running")
    wait_until(lambda: said(combu, "one") == "so far\n", "its log")
    combu("kill")
    run.communicate(timeout=60)
    assert run.returncode == 130
    assert engine.names() == set()
    assert {(row["state"], row["reason"]) for row in combu.ps().values()} == {("stopped", "removed by `combu kill`")}
    assert said(combu, "one") == "so far\n"


# ---- The end of combu, and other processes


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_attempts_go_on_without_combu_and_run_once(combu, engine, lab, at_work, sent):
    names = [f"t-{i}" for i in range(10)]
    lab.hold(*names)
    combu.write([lab.trial(name, i % 3, worker={"concurrency": 3}) for i, name in enumerate(names)])
    run = at_work(combu.start("run", "--wait"))
    wait_until(lambda: sorted(states(combu).values()).count("running") == 6, "six attempts")
    run.send_signal(sent)
    run.communicate(timeout=60)
    lab.let_go(*names)
    wait_until(lambda: sum(len(lab.ends(name)) for name in names) == 6, "the ends without combu")
    combu("run", "--resume", code=1)
    assert {name: row["exit_code"] for name, row in combu.ps().items()} == {name: i % 3 for i, name in enumerate(names)}
    assert {name: len(lab.ends(name)) for name in names} == dict.fromkeys(names, 1)
    assert {row["attempt"] for row in combu.ps().values()} == {1}
    assert all(row["memory_peak"] > 0 for row in combu.ps().values())
    assert engine.names() == set()


def test_outputs_and_logs_are_collected_after_a_kill_of_combu(combu, engine, lab, at_work):
    names = [f"t-{i}" for i in range(4)]
    lab.hold(*names)

    def held(name):
        return f"while test -e /lab/{name}.held; do sleep 0.05; done; echo {name} | tee $COMBU_SCRATCH/out; echo x >>/lab/{name}.ends"

    combu.write([warm(name, held(name), outputs=["out"], worker={"concurrency": 2}, volumes=[f"{lab.folder}/:/lab"]) for name in names])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, **dict.fromkeys(names, "running"))
    die(run)
    lab.let_go(*names)
    wait_until(lambda: all(lab.ends(name) for name in names), "the ends without combu")
    combu("run", "--resume")
    home = results(combu)
    for name in names:
        assert ((home / name / "out").read_text(), said(combu, name)) == (f"{name}\n", f"{name}\n")
        assert len(lab.ends(name)) == 1


def test_apply_changes_a_run_with_workers(combu, engine, lab, at_work):
    fields = {"worker": {"concurrency": 2}}
    lab.hold("stays", "goes", "changes")
    combu.write([lab.trial("stays", **fields), lab.trial("goes", stop_grace="1s", **fields), lab.trial("changes", 3, stop_grace="1s", **fields)])
    run = at_work(combu.start("run", "--wait"))
    wait_for_states(combu, stays="running", goes="running", changes="running")
    combu.write([lab.trial("stays", **fields), lab.trial("changes", 0, stop_grace="1s", **fields), lab.trial("joins", **fields)])
    assert "1 trial changed, 1 trial is new, 1 trial was removed" in combu("apply", "--replace").stderr
    wait_until(lambda: (row := combu.ps()["changes"])["state"] == "running" and row["attempt"] == 2, "the new attempt")
    lab.let_go("stays", "changes")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert states(combu) == {"stays": "succeeded", "goes": "stopped", "changes": "succeeded", "joins": "succeeded"}
    assert {name: len(lab.ends(name)) for name in ("stays", "changes", "joins", "goes")} == {"stays": 1, "changes": 1, "joins": 1, "goes": 0}


def test_retry_runs_failed_trials_again(combu, engine, lab):
    combu.write([lab.trial("good", worker=True), lab.trial("bad", 3, worker=True)])
    combu("run", "--wait", code=1)
    lab.set_code("bad", 0)
    combu("retry", "--failed")
    assert lab.states() == {"good": ("succeeded", 1, 0), "bad": ("succeeded", 2, 0)}
    assert (len(lab.ends("good")), len(lab.ends("bad"))) == (1, 2)


# ---- What validate refuses


@pytest.mark.parametrize(
    ("trials", "message"),
    [
        ([warm("aa", "true", service=True)], "[0].worker: cannot be combined with `service`"),
        ([warm("aa", "true", ports=["80"])], "[0].worker: cannot be combined with `ports`"),
        ([warm("aa", "true", healthcheck={"test": ["CMD", "true"]})], "[0].worker: cannot be combined with `healthcheck`"),
        ([warm("aa", "true", worker={"concurrency": 0})], "[0].worker.concurrency"),
        ([warm("aa", "true", worker={"idle": "10ms"})], "[0].worker.idle: must be at least 1s"),
        ([warm("aa", "true", worker={"cuont": 1})], "did you mean `count`?"),
        ([warm("aa", "true", worker=3)], "[0].worker: must be true or {count, concurrency, trials_max, age_max, idle}"),
        ([trial("aa", "true", outputs=["relative"])], '[0].outputs[0]: the path in the container, "relative", must begin with `/`'),
        ([warm("aa", "true", outputs=["/out"]), warm("bb", "true", outputs=["/out/b"])], "`aa` writes /out/b too, in the same containers"),
        ([warm("aa", "true"), trial("bb", "true", depends=[{"trial": "aa", "condition": "started"}])], "`aa` has `worker`, so no trial can reach it by its name"),
        ([warm("aa", "true"), warm("bb", "true", docker={"HostConfig": {"PidsLimit": 9}})], "[1].docker: must be the same for all trials with `worker`"),
    ],
)
def test_validate_refuses(combu, trials, message):
    combu.write(trials)
    assert message in combu("validate", code=2).stderr
