"""combu collects outputs into the results folder: contents, owners, and failures during the collection."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from engines import trial_with_outputs as trial
from engines import wait_until


def results(combu, experiment="experiment"):
    """Returns the results folder of the only run."""
    (run,) = (combu.home / "results" / experiment).iterdir()
    return run


def files(folder):
    return {str(path.relative_to(folder)): path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()}


def test_outputs_are_collected_with_a_manifest(combu, engine):
    combu.write([trial(f"t-{i}", f"mkdir -p /out/sub; echo {i} >/out/sub/n; touch /out/empty") for i in range(12)])
    done = combu("run")
    assert f"outputs are in {results(combu)}" in done.stderr
    home = results(combu)
    assert {path.name for path in home.iterdir()} == {f"t-{i}" for i in range(12)}
    for i in range(12):
        found = files(home / f"t-{i}")
        manifest = found.pop("manifest.sha256")
        assert found == {"out/sub/n": f"{i}\n", "out/empty": ""}
        assert len(manifest.splitlines()) == 2
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "manifest.sha256"], cwd=home / "t-3", check=True)
    assert {row["state"] for row in combu.ps().values()} == {"succeeded"}
    events = [json.loads(line) for line in combu("events", "t-3", "--json").stdout.splitlines()]
    assert [event["state"] for event in events][-3:] == ["ended", "collected", "succeeded"]
    assert (events[-2]["files"], events[-2]["bytes"]) == (2, 2)
    assert combu.ps()["t-3"]["outputs"] == {"files": 2, "bytes": 2, "left": []}
    assert "outputs: 2 files, 2 B" in combu("ps", "t-3").stdout
    combu("kill")
    assert files(home / "t-3")["out/sub/n"] == "3\n"


@pytest.mark.engine_version
def test_a_file_below_many_folders_is_collected(combu, engine):
    """The path is longer than PATH_MAX (4096 bytes)."""
    into = "mkdir /out; cd /out; for i in $(seq 60); do mkdir $name; cd $name; done; echo deep >leaf"
    combu.write([trial("one", f"name=$(printf %088d 7); {into}")])
    combu("run", "--wait")
    assert combu.ps()["one"]["state"] == "succeeded"
    found = subprocess.run(["find", ".", "-name", "0*7"], cwd=results(combu), capture_output=True, text=True, check=True)
    assert max(map(len, found.stdout.splitlines())) + len(str(results(combu))) > 4096
    combu("kill")
    assert engine.names() == set()
    shutil.rmtree(results(combu))


@contextlib.contextmanager
def open_to_all(path, mode):
    """A context in which all users may reach the path, and have the access `mode` to it."""
    before = {}
    for each in [path, *path.parents]:
        before[each] = each.stat().st_mode & 0o7777
        each.chmod(before[each] | (mode if each == path else 0o111))
    try:
        yield
    finally:
        for each, was in before.items():
            each.chmod(was)


def test_outputs_belong_to_the_user_of_combu(combu, program, engine):
    """The users of the container's processes and the modes of their files do not matter."""
    combu.write([trial("one", "mkdir -m 700 /out; echo x >/out/secret; chmod 000 /out/secret; chown -R 4000:4000 /out")])
    uid = 65534
    own = shutil.copy(program, combu.home)
    with open_to_all(combu.home, 0o777), open_to_all(engine.socket, 0o666):
        done = subprocess.run(
            ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", own, "-f", str(combu.file), "run"],
            env=combu.env, cwd=combu.home, capture_output=True, text=True, timeout=60, check=False,
        )
    assert done.returncode == 0, done.stderr
    for path in results(combu).rglob("*"):
        assert path.stat().st_uid == uid, path
        assert path.stat().st_mode & 0o600 == 0o600, path


@pytest.mark.engine_version
def test_a_trial_without_its_required_outputs_fails(combu):
    combu.write(
        [
            trial("nothing", "true"),
            trial("after", "true", depends=[{"trial": "nothing", "condition": "succeeded"}], outputs=[]),
            trial("may-be-missing", "true", outputs=[{"path": "/out", "required": False}]),
            trial("too-much", "mkdir /out; head -c 5000 /dev/zero >/out/a", outputs=[{"path": "/out", "max_size": "4k"}]),
        ]
    )
    done = combu("run", "--wait", code=1)
    lines = done.stderr.splitlines()
    assert "failed: nothing: /out: there is no such output" in lines
    assert "failed: too-much: /out: is larger than its max_size of 4 KiB" in lines
    assert "outputs are in" not in done.stderr, "there are none"
    rows = combu.ps()
    assert {name: (row["state"], row["exit_code"]) for name, row in rows.items()} == {
        "nothing": ("failed", 0),
        "after": ("blocked", None),
        "may-be-missing": ("succeeded", 0),
        "too-much": ("failed", 0),
    }
    assert rows["nothing"]["cause"] == "outputs"
    assert {path.name for path in results(combu).iterdir()} == {"may-be-missing"}


def test_outputs_of_an_attempt_replace_those_of_the_previous_one(combu, tmp_path):
    (tmp_path / "tries").mkdir()
    script = "echo x >>/tries/log; mkdir /out; n=$(wc -l </tries/log); echo $n >/out/$n; test $n = 3"
    combu.write([trial("flaky", script, volumes=["./tries/:/tries"], retries={"max": 5, "backoff": {"initial": 0}})])
    combu("run", "--wait")
    assert set(files(results(combu) / "flaky")) == {"out/3", "manifest.sha256"}


def test_outputs_of_failed_trials_are_collected_unless_on_is_success(combu):
    trials = [trial("bad", "mkdir /out; echo trace >/out/log; exit 3"), trial("good", "mkdir /out")]
    combu.write({"experiment": "both", "trials": trials})
    combu("run", "--wait", code=1)
    assert files(results(combu, "both") / "bad")["out/log"] == "trace\n"
    assert (results(combu, "both") / "good/out").is_dir()
    combu("kill")
    combu.write({"experiment": "good", "collect": {"to": "elsewhere", "on": "success"}, "trials": trials})
    combu("run", "--wait", code=1)
    (run,) = (combu.home / "elsewhere/good").iterdir()
    assert {path.name for path in run.iterdir()} == {"good"}


@pytest.mark.engine_version
def test_unusual_files_are_collected(combu):
    script = (
        "mkdir /out; cd /out; echo a >'with blank'; echo b >\"$(printf 'line\\nend')\"; echo c >ümlaut; "
        "echo d >\"$(printf 'no\\377utf8\\n')\"; "
        "ln -s 'with blank' link; ln ümlaut hard; mkfifo pipe; mknod null c 1 3; "
        "dd if=/dev/zero of=holes bs=1 count=1 seek=50000000 2>/dev/null"
    )
    combu.write([trial("odd", script)])
    done = combu("run", "--wait")
    assert "are not collected: outputs must be files, folders or links" in done.stderr
    assert sorted(combu.ps()["odd"]["outputs"]["left"]) == ["out/null", "out/pipe"]
    assert "not collected: out/pipe" in combu("ps", "odd").stdout
    out = results(combu) / "odd/out"
    assert (out / "with blank").read_text() == "a\n"
    assert (out / "line\nend").read_text() == "b\n"
    assert (out / "ümlaut").read_text() == "c\n"
    assert Path(os.fsdecode(bytes(out) + b"/no\xffutf8")).read_text() == "d\n"
    assert os.readlink(out / "link") == "with blank"
    assert (out / "hard").stat().st_nlink == 2
    assert not (out / "pipe").exists() and not (out / "null").exists()
    assert (out / "holes").stat().st_size == 50000001
    assert (out / "holes").stat().st_blocks * 512 < 1 << 20
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "manifest.sha256"], cwd=out.parent, check=True)


@pytest.mark.engine_version
def test_outputs_in_a_volume_are_collected(combu):
    combu.write([trial("one", "echo x >/scratch/a", volumes=["outputs-test:/scratch"], outputs=["/scratch"])])
    combu("run", "--wait")
    assert files(results(combu) / "one")["scratch/a"] == "x\n"


@pytest.fixture
def small_results(combu):
    """The results folder, on a file system of 4 MiB."""
    folder = combu.home / "results"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_loses_no_outputs(combu, small_results):
    """The run waits until the disk has space."""
    (small_results / "filler").write_bytes(b"x" * (3 << 20))
    combu.write([trial("large", "mkdir /out; head -c 2000000 /dev/urandom >/out/a"), trial("small", "mkdir /out; echo x >/out/a")])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("large", {}).get("state") == "collecting" and combu.ps()["small"]["state"] == "succeeded", "the large one waits")
    wait_until(lambda: "No space left" in combu("why", "large").stdout, "why it waits")
    home = results_of_only_run(small_results)
    assert {path.name for path in home.iterdir()} == {"small"}, "nothing half-written"
    (small_results / "filler").unlink()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert (home / "large/out/a").stat().st_size == 2000000


def results_of_only_run(folder):
    (run,) = (folder / "experiment").iterdir()
    return run


def test_kill_collects_missing_outputs(combu, engine, small_results):
    filler = small_results / "filler"
    filler.write_bytes(b"x" * (4 << 20))
    combu.write([trial("one", "mkdir /out; echo precious >/out/a; head -c 9000 /dev/urandom >/out/b")])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "collecting", "the disk is full")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    done = combu("kill", code=1)
    assert "not removed: one: the outputs cannot be collected: " in done.stderr and "--discard" in done.stderr
    assert engine.names() == {"one"}
    filler.unlink()
    combu("kill")
    assert engine.names() == set()
    assert files(results_of_only_run(small_results) / "one")["out/a"] == "precious\n"
    assert combu.ps()["one"]["state"] == "succeeded"


def test_kill_discard_removes_containers_with_uncollected_outputs(combu, engine, small_results):
    (small_results / "filler").write_bytes(b"x" * (4 << 20))
    combu.write([trial("one", "mkdir /out; head -c 9000 /dev/urandom >/out/b")])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "collecting", "the disk is full")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    combu("kill", "--discard")
    assert engine.names() == set()
    row = combu.ps()["one"]
    assert (row["state"], row["reason"]) == ("stopped", "removed by `combu kill` before its outputs were collected")


def test_a_run_collects_the_outputs_of_the_previous_run(combu):
    """The new run removes the containers of the previous run, because its trials have the same names."""
    (combu.home / "signal").mkdir()
    script = "mkdir /out; hostname >/out/a; until [ -e /signal/go ]; do sleep 0.05; done"
    combu.write([trial("one", script, volumes=["./signal/:/signal"])])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "running", "it runs")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    (combu.home / "signal/go").touch()
    combu("wait")
    assert combu.ps()["one"]["state"] == "collecting"
    combu("run", "--wait")
    homes = sorted((combu.home / "results/experiment").iterdir())
    assert len(homes) == 2
    assert len({files(home / "one")["out/a"] for home in homes}) == 2


def write_while_it_runs(combu, script, **collect):
    """Writes an experiment with one trial, which repeats the script until the file `go` exists."""
    (combu.home / "signal").mkdir()
    loop = f"mkdir /out; while ! [ -e /signal/go ]; do {script}; done; echo end >/out/end"
    combu.write({"experiment": "live", "collect": {"every": "1s", **collect}, "trials": [trial("one", loop, volumes=["./signal/:/signal"])]})


def is_whole(folder):
    return subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "manifest.sha256"], cwd=folder, check=False).returncode == 0


def test_partial_outputs_are_collected_while_a_trial_runs(combu):
    write_while_it_runs(combu, "echo x >>/out/log; sleep 0.1")
    run = combu.start("run", "--wait")
    wait_until(lambda: list((combu.home / "results").glob("live/*")), "the run has a folder of results")
    home = results(combu, "live")
    log = home / "one@so-far/out/log"
    first = wait_until(lambda: log.stat().st_size if log.exists() else None, "the first collection is complete")
    wait_until(lambda: log.exists() and log.stat().st_size > first, "the second collection is complete")
    assert not (home / "one").exists(), "the final place has no partial outputs"
    assert combu.ps()["one"]["state"] == "running"
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert is_whole(home / "one@so-far")
    run = combu.start("run", "--resume")
    kept = log.stat().st_size
    wait_until(lambda: log.exists() and log.stat().st_size > kept, "the resumed run collects, too")
    (combu.home / "signal/go").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert {path.name for path in home.iterdir()} == {"one"}
    assert files(home / "one")["out/end"] == "end\n"
    assert is_whole(home / "one")


@pytest.mark.engine_version
def test_partial_collection_survives_files_that_change_during_the_copy(combu):
    """If a file grows, the copy has the size at its beginning. If a file shrinks, the engine's archive breaks off."""
    write_while_it_runs(
        combu, "head -c 2000000 /dev/urandom >>/out/grows; [ $(stat -c %s /out/grows) -lt 200000000 ] || : >/out/grows; "
        "head -c 9000000 /dev/zero >/out/shrinks; : >/out/shrinks; echo x >/out/gone; rm /out/gone"
    )
    run = combu.start("run", "--wait")
    so_far = combu.home / "results/live"
    seen = set()

    def is_seen_again():
        for path in so_far.glob("*/one@so-far/manifest.sha256"):
            with contextlib.suppress(FileNotFoundError):
                seen.add(path.stat().st_ino)
        return len(seen) >= 3

    wait_until(is_seen_again, "it comes home again and again", seconds=120)
    assert combu.ps()["one"]["state"] == "running"
    (combu.home / "signal/go").touch()
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    home = results(combu, "live")
    assert {path.name for path in home.iterdir()} == {"one"}
    assert is_whole(home / "one")


@pytest.mark.engine_version
def test_a_trial_can_be_stopped_during_a_partial_collection(combu):
    """The partial outputs stay, although `on: success` collects no outputs of a stopped trial."""
    write_while_it_runs(combu, "head -c 20000000 /dev/urandom >>/out/log; sleep 0.2", on="success")
    run = combu.start("run", "--wait")
    wait_until(lambda: list((combu.home / "results/live").glob("*/one@so-far")), "the first is home")
    combu("stop", "one")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1, err
    home = results(combu, "live")
    assert {path.name for path in home.iterdir()} == {"one@so-far"}
    assert is_whole(home / "one@so-far")


def test_a_failed_partial_collection_is_reported_once(combu, small_results):
    write_while_it_runs(combu, "head -c 9000000 /dev/urandom >/out/large; sleep 0.5")
    run = combu.start("run", "--wait", "--progress", "plain")
    words = "collecting partial outputs failed: "
    assert any(words in line for line in run.stderr)
    assert combu.ps()["one"]["state"] == "running"
    subprocess.run(["mount", "-o", "remount,size=64m", small_results], check=True)
    wait_until(lambda: list(small_results.glob("live/*/one@so-far/out/large")), "it is home when there is room")
    (combu.home / "signal/go").touch()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert words not in err


@pytest.mark.engine_version
def test_a_trial_fails_if_its_container_is_removed_before_the_collection(combu, engine, small_results):
    (small_results / "filler").write_bytes(b"x" * (4 << 20))
    combu.write([trial("one", "mkdir /out; head -c 9000 /dev/urandom >/out/b")])
    run = combu.start("run", "--wait")
    wait_until(lambda: "No space left" in combu("why", "one", code=None).stdout, "the disk is full")
    assert engine.ask("DELETE", "/containers/one?force=1")[0] == 204
    (small_results / "filler").unlink()
    _, err = run.communicate(timeout=60)
    assert run.returncode == 1, err
    assert "failed: one: its outputs are lost: no container of attempt 1 in run " in err
    assert not list(results_of_only_run(small_results).iterdir()), "nothing half-written"


@pytest.mark.slow
@pytest.mark.engine_version
def test_a_removal_during_the_collection_leaves_all_outputs_or_none(combu, engine):
    """Either all outputs are collected and the trial succeeds, or none and the trial fails."""
    combu.write([trial("one", "mkdir /out; head -c 150000000 /dev/urandom >/out/a")])
    run = combu.start("run", "--wait")
    wait_until(lambda: list((combu.home / "results").glob("experiment/*/.one.unfinished")), "it is copied")
    engine.ask("DELETE", "/containers/one?force=1")
    _, err = run.communicate(timeout=120)
    state = combu.ps()["one"]["state"]
    assert run.returncode == {"succeeded": 0, "failed": 1}[state], err
    home = results(combu)
    assert {path.name for path in home.iterdir()} == ({"one"} if state == "succeeded" else set())
    if state == "succeeded":
        assert is_whole(home / "one")


def test_a_results_folder_that_becomes_read_only_loses_no_outputs(combu, small_results):
    (combu.home / "signal").mkdir()
    script = "mkdir /out; echo x >/out/a; while ! [ -e /signal/go ]; do sleep 0.05; done"
    combu.write([trial("one", script, volumes=["./signal/:/signal"])])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "running", "it runs")
    subprocess.run(["mount", "-o", "remount,ro", small_results], check=True)
    (combu.home / "signal/go").touch()
    wait_until(lambda: "Read-only file system" in combu("why", "one").stdout, "why")
    assert combu.ps()["one"]["state"] == "collecting"
    subprocess.run(["mount", "-o", "remount,rw", small_results], check=True)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    assert files(results_of_only_run(small_results) / "one")["out/a"] == "x\n"


@pytest.mark.slow
def test_two_runs_of_an_experiment_keep_their_outputs_apart(combu, new_engine, combu_on):
    """The runs are on two engines at the same time, and collect into the same folder."""
    engine = new_engine()
    engine.start()
    engine.load_image("combu-test:latest")
    other = combu_on(engine)
    (combu.home / "signal").mkdir()
    script = "mkdir /out; hostname >/out/a; while ! [ -e /signal/go ]; do sleep 0.05; done"
    combu.write([trial(f"t-{i}", script, volumes=["./signal/:/signal"]) for i in range(4)])
    runs = [combu.start("run", "--wait", "--run-id", "first"), other.start("run", "--wait", "--run-id", "second")]
    for one, run in ((combu, "first"), (other, "second")):
        wait_until(lambda one=one, run=run: one("ps", "--json", "--run", run, code=None).stdout.count('"state":"running"') == 4, f"{run} runs")
    (combu.home / "signal/go").touch()
    for run in runs:
        _, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
    hosts = set()
    for run in ("first", "second"):
        home = combu.home / "results/experiment" / run
        assert {path.name for path in home.iterdir()} == {f"t-{i}" for i in range(4)}
        assert all(is_whole(path) for path in home.iterdir())
        hosts |= {(path / "out/a").read_text() for path in home.iterdir()}
    assert len(hosts) == 8


@pytest.mark.slow
def test_all_outputs_are_collected_after_kills_of_combu(combu):
    combu.write([trial(f"t-{i}", f"mkdir /out; head -c 200000 /dev/urandom >/out/a; sleep 0.{i}") for i in range(20)])
    run = combu.start("run", "--wait")
    wait_until(combu.ps, "the run on record")
    for _ in range(3):
        try:
            run.communicate(timeout=1.2)
            break
        except subprocess.TimeoutExpired:
            run.send_signal(signal.SIGKILL)
            run.communicate()
            run = combu.start("run", "--resume")
    _, err = run.communicate(timeout=60)
    assert run.returncode == 0, err
    home = results(combu)
    assert {path.name for path in home.iterdir()} == {f"t-{i}" for i in range(20)}
    for path in home.iterdir():
        assert (path / "out/a").stat().st_size == 200000
        subprocess.run(["sha256sum", "--quiet", "-c", "manifest.sha256"], cwd=path, check=True)


@pytest.mark.slow
@pytest.mark.engine_version
def test_all_outputs_are_collected_after_a_kill_of_the_engine(combu_on, new_engine):
    engine = new_engine()
    engine.start()
    engine.load_image("combu-test:latest")
    combu = combu_on(engine)
    combu.write([trial(f"t-{i}", "mkdir /out; head -c 3000000 /dev/urandom >/out/a; sleep 0.5", retries=2) for i in range(8)])
    run = combu.start("run", "--wait")
    wait_until(lambda: (combu.home / "results").exists(), "the first comes home")
    engine.kill9()
    engine.start()
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    for i in range(8):
        subprocess.run(["sha256sum", "--quiet", "-c", "manifest.sha256"], cwd=results(combu) / f"t-{i}", check=True)


def test_outputs_of_a_service_are_collected_when_it_is_stopped(combu):
    combu.write(
        [
            trial("db", "mkdir /dump; trap 'echo done >/dump/end; exit 0' TERM; sleep 600 & wait", service=True, outputs=["/dump"]),
            trial("load", "sleep 0.5", depends=["db"], outputs=[]),
        ]
    )
    combu("run", "--wait")
    assert files(results(combu) / "db")["dump/end"] == "done\n"
    assert combu.ps()["db"]["state"] == "stopped"


def test_wait_prints_the_same_state_and_reason_as_ps(combu):
    combu.write([trial("good", "mkdir /out; echo a >/out/a"), trial("none", "true"), trial("bad", "exit 3")])
    combu("run", "--wait", code=1)
    ends = {
        "good: succeeded",
        "none: failed: /out: there is no such output",
        "bad: failed: exit code 3",
    }
    assert set(combu("wait", code=1).stdout.splitlines()) == ends
    rows = {row["trial"]: row for row in map(json.loads, combu("wait", "--json", code=1).stdout.splitlines())}
    shown = combu.ps()
    for name, row in rows.items():
        assert {field: row[field] for field in ("state", "cause", "reason", "exit_code", "run", "attempt")} == {
            field: shown[name][field] for field in ("state", "cause", "reason", "exit_code", "run", "attempt")
        }
    assert (rows["none"]["state"], rows["none"]["cause"]) == ("failed", "outputs")


def test_wait_returns_after_the_outputs_are_collected(combu):
    (combu.home / "signal").mkdir()
    script = "mkdir /out; until [ -e /signal/go ]; do sleep 0.05; done; head -c 30000000 /dev/zero >/out/a"
    combu.write([trial("one", script, volumes=["./signal/:/signal"])])
    combu("run", "-d")
    wait_until(lambda: combu.ps()["one"]["state"] == "running", "it runs")
    (combu.home / "signal/go").touch()
    combu("wait")
    assert (results(combu) / "one/out/a").stat().st_size == 30000000
    assert combu.ps()["one"]["state"] == "succeeded"
