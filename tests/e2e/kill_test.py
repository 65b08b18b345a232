"""`combu kill` finds the containers and networks of the experiment by their labels, and removes no others."""

import signal
import subprocess

import pytest
from engines import docker_config, wait_until
from outputs_test import files, trial
from run_test import sleeper
from stalling import Stalling


def test_kill_works_after_the_file_has_changed(combu, engine):
    combu.write('local uuid = "UUID";\n[{ name: "n-%d" % i, image: "combu-test", cmd: "sleep 600", env: { U: uuid } } for i in [1, 2]]')
    combu("run")
    combu.write([sleeper("quite-another")])
    combu("kill")
    assert engine.names() == set()


def test_kill_works_with_a_broken_file(combu, engine):
    combu.write([sleeper("one")])
    combu("run")
    combu.write("[ this is no Jsonnet")
    assert set(combu.ps()) == {"one"}
    combu("kill")
    assert engine.names() == set()


def test_kill_records_no_failures(combu, engine):
    """Running trials become stopped, waiting trials blocked. `apply --failed` runs both again."""
    after = {**sleeper("after"), "depends": [{"trial": "one", "condition": "succeeded"}]}
    combu.write([sleeper("one"), sleeper("serv", service=True), {"name": "bad", "image": "combu-test", "cmd": ["sh", "-c", "exit 3"]}, after])
    running = combu.start("run", "--wait")
    wait_until(lambda: engine.running() == {"one", "serv"} and combu.ps()["bad"]["state"] == "failed", "the trials")
    combu("kill")
    running.communicate(timeout=60)
    rows = combu.ps()
    assert {name: row["state"] for name, row in rows.items()} == {
        "one": "stopped", "serv": "stopped", "bad": "failed", "after": "blocked"
    }
    assert (rows["one"]["cause"], rows["one"]["reason"]) == ("stopped", "removed by `combu kill`")
    combu.write([{"name": name, "image": "combu-test", "cmd": "true"} for name in ("one", "bad", "after")])
    combu("apply", "--failed")
    assert {name: row["state"] for name, row in combu.ps().items()} == {
        "one": "succeeded", "serv": "stopped", "bad": "succeeded", "after": "succeeded"
    }


def test_kill_removes_only_the_given_run(combu, engine):
    combu.write({"experiment": "shared", "trials": [{"name": "one", "image": "combu-test", "cmd": "true"}]})
    combu("run", "--wait", "--run-id", "first")
    combu.write({"experiment": "shared", "trials": [sleeper("two")]})
    combu("run", "--run-id", "second")
    assert engine.names() == {"one", "two"}
    combu("kill", "--run", "third")
    assert engine.names() == {"one", "two"}
    combu("kill", "--run", "first")
    assert engine.names() == {"two"}
    combu("kill")
    assert engine.names() == set()


def test_kill_leaves_other_containers_and_networks(combu, engine, tmp_path, combu_on):
    engine.run_stranger("stranger")
    status, _ = engine.ask("POST", "/networks/create", {"Name": "theirs", "CheckDuplicate": True})
    assert status == 201
    combu.write([sleeper("one", networks=["theirs", "ours"])])
    combu("run")

    other = combu_on(engine)
    other.file = tmp_path / "other.jsonnet"
    other.write([sleeper("another", networks=["others"])])
    other("run")

    combu("kill")
    assert engine.running() == {"stranger", "another"}
    assert set(engine.networks()) == {"theirs", "others"}


@pytest.mark.engine_version
def test_kill_leaves_a_network_that_another_container_uses(combu, engine):
    combu.write([sleeper("one", networks=["shared-net"])])
    combu("run")
    engine.run_stranger("guest", HostConfig={"NetworkMode": "shared-net"})
    assert "network shared-net was not removed: still used by guest" in combu("kill").stderr
    assert engine.running() == {"guest"}
    assert "shared-net" in engine.networks()


@pytest.mark.engine_version
def test_kill_removes_containers_that_ended_or_never_started(combu, engine):
    combu.write([{"name": "over", "image": "combu-test", "cmd": "true"}, {"name": "odd", "image": "combu-test", "user": "nobody-here"}])
    combu("run", code=1)
    combu("kill")
    assert engine.names() == set()


def test_kill_without_containers_succeeds(combu):
    combu.write([sleeper("one")])
    combu("kill")


def test_kill_interrupts_a_run_that_is_starting_trials(combu, engine):
    combu.write([{"name": f"t-{i:02}", "image": "combu-test", "cmd": "sleep 600"} for i in range(60)])
    running = combu.start("run", "--starts-in-flight", "4")
    wait_until(lambda: len(engine.names()) >= 8, "the first trials")
    killed = combu("kill")
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted process" in killed.stderr
    assert engine.names() == set()


@pytest.mark.engine_version
def test_a_container_of_an_image_made_from_a_trial_is_not_the_trial(combu, engine):
    combu.write([sleeper("one", service=True, cpus=0.1)])
    combu("run")
    status, made = engine.ask("POST", "/commit?container=one&repo=combu-copy&tag=1", {})
    assert status == 201, made
    engine.run_stranger("copy", Image="combu-copy:1")
    assert engine.containers()["copy"]["Config"]["Labels"]["combu.trial"] == "one"
    assert set(combu.ps()) == {"one"}
    combu("stop")
    assert "copy" in engine.running()
    combu("run")
    combu("kill")
    assert engine.running() == {"copy"}
    # A trial with such an image does not inherit the labels of the first trial.
    combu.write([sleeper("plain", image="combu-copy:1")])
    combu("run")
    labels = engine.containers()["plain"]["Config"]["Labels"]
    assert (labels["combu.service"], labels["combu.cpus"]) == ("false", "0")
    engine.remove_all()
    engine.ask("DELETE", "/images/combu-copy:1?force=1")


def test_kill_interrupts_a_run_without_containers(combu, engine, tmp_path):
    """Also if the file names the experiment: `kill` knows the name only from the record."""
    helper = tmp_path / "bin/docker-credential-slow"
    helper.parent.mkdir()
    helper.write_text("#!/bin/sh\necho >&2 waiting; touch %s/asked; exec sleep 600\n" % tmp_path, encoding="utf-8")
    helper.chmod(0o755)
    docker_config(tmp_path, {"credHelpers": {"127.0.0.1:5999": "slow"}})
    combu.env["PATH"] = f"{helper.parent}:{combu.env['PATH']}"
    combu.write({"experiment": "named", "trials": [sleeper("one", image="127.0.0.1:5999/x")]})
    running = combu.start("run")
    try:
        wait_until((tmp_path / "asked").exists, "the run to ask for a password")
        killed = combu("kill")
        running.communicate(timeout=60)
    finally:
        running.kill()
    assert f"interrupted process {running.pid}, which owned run " in killed.stderr
    assert running.returncode == 130


LOOP = "the path's symbolic links form a loop, or there are too many of them"


@pytest.fixture
def left(combu, engine, tmp_path):
    """A function: left(trials) starts these trials as the run r1, with a trial `on` and a service `serv` that keep running.

    It kills the run's owner with SIGKILL, then lets the given trials continue, and waits until they have ended.
    """
    until = "until [ -e /gate/open ]; do sleep 0.05; done; "
    (tmp_path / "gate").mkdir()

    def run(trials):
        gated = [{**one, "cmd": ["sh", "-c", until + one["cmd"][2]], "volumes": ["./gate/:/gate"]} for one in trials]
        combu.write([*gated, sleeper("on", networks=["lab"], outputs=["/out"]), sleeper("serv", service=True, networks=["lab"])])
        process = combu.start("run", "--wait", "--run-id", "r1")
        names = {one["name"] for one in gated}
        wait_until(lambda: {name for name, row in combu.ps().items() if row["state"] == "running"} == {*names, "on", "serv"}, "all run")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        (tmp_path / "gate/open").touch()
        wait_until(lambda: engine.running() == {"on", "serv"}, "the ends")

    return run


@pytest.fixture
def stuck(combu):
    """Makes the collection of outputs of the trial `stuck` of the run r1 fail, until the test calls stuck()."""
    place = combu.home / "results/experiment/r1/.stuck.unfinished"
    place.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", place], check=True)

    def free():
        if place.is_mount():
            subprocess.run(["umount", "-l", place], check=True)

    yield free
    free()


@pytest.mark.engine_version
def test_unreadable_outputs_do_not_stop_kill(combu, engine, left):
    left([trial("loop", "ln -s out /out", networks=["lab"]), trial("bad", "ln -s /out /out; exit 3"), trial("good", "mkdir /out; echo x >/out/a")])
    combu("kill")
    assert engine.names() == set()
    assert engine.networks() == {}
    rows = combu.ps()
    assert {name: row["state"] for name, row in rows.items()} == {
        "loop": "failed", "bad": "failed", "good": "succeeded", "on": "stopped", "serv": "stopped"
    }
    assert (rows["loop"]["cause"], rows["loop"]["reason"]) == ("outputs", f"/out: cannot be read: {LOOP}")
    assert rows["bad"]["reason"] == f"exit code 3; outputs: /out: cannot be read: {LOOP}"
    assert files(combu.home / "results/experiment/r1/good")["out/a"] == "x\n"


UNREADABLE = {
    "loop": ("ln -s out /out", f"cannot be read: {LOOP}"),
    "two-links": ("ln -s /b /out; ln -s /out /b", f"cannot be read: {LOOP}"),
    "below-a-file": ("echo >/file; ln -s /file/x /out", "cannot be read: a part of the path is not a folder"),
    "long-name": (f"ln -s /{'n' * 300} /out", "cannot be read: a name in the path, or in the target of a link, is too long"),
    "root": ("ln -s / /out", "cannot be read: the path is a link to the root of the file system"),
    "dangling": ("ln -s /nowhere /out", "there is no such output"),
}


@pytest.mark.engine_version
def test_only_trials_with_unreadable_outputs_fail(combu):
    combu.write([
        *(trial(name, script) for name, (script, _) in UNREADABLE.items()),
        trial("good", "mkdir /out; echo x >/out/a"),
        trial("linked", "echo y >/file; ln -s /file /out"),
    ])
    done = combu("run", "--wait", "--run-id", "r1", code=1)
    lines = done.stderr.splitlines()
    assert [name for name, (_, why) in UNREADABLE.items() if f"failed: {name}: /out: {why}" not in lines] == []
    rows = combu.ps()
    assert {name: row["state"] for name, row in rows.items()} == {
        **dict.fromkeys(UNREADABLE, "failed"), "good": "succeeded", "linked": "succeeded"
    }
    assert {rows[name]["cause"] for name in UNREADABLE} == {"outputs"}
    home = combu.home / "results/experiment/r1"
    assert {path.name for path in home.iterdir()} == {"good", "linked"}
    assert files(home / "good")["out/a"] == "x\n"
    assert files(home / "linked")["out"] == "y\n"


@pytest.fixture
def stalling(combu, engine, tmp_path):
    with Stalling(combu, engine, tmp_path / "engine.sock", b"path=%2Fendless") as server:
        yield server


def test_outputs_that_take_long_do_not_delay_other_removals(combu, engine, stalling, left):
    left([trial("good", "mkdir /out; echo x >/out/a"), trial("endless", "mkdir /endless; echo y >/endless/a", outputs=["/endless"], networks=["kept"])])
    killing = combu.start("kill")
    wait_until(stalling.asked.is_set, "the collection of the outputs that take long")
    assert engine.names() == {"endless"}
    assert set(engine.networks()) == {"kept"}
    killing.send_signal(signal.SIGINT)
    assert "interrupted; run the same command again to remove the rest" in killing.communicate(timeout=60)[1]
    assert killing.returncode == 130
    assert {name: row["state"] for name, row in combu.ps().items()} == {
        "good": "succeeded", "endless": "collecting", "on": "stopped", "serv": "stopped"
    }
    stalling.free.set()
    assert "removed 1 container, 1 network" in combu("kill").stderr
    assert engine.names() == set()
    assert engine.networks() == {}
    assert files(combu.home / "results/experiment/r1/good")["out/a"] == "x\n"
    assert files(combu.home / "results/experiment/r1/endless")["endless/a"] == "y\n"
    assert "has ended: 2 succeeded, 2 stopped" in combu("run", "--resume", "r1", code=1).stderr


def test_kill_keeps_only_the_container_whose_outputs_cannot_be_collected(combu, engine, left, stuck):
    """A later kill collects the outputs."""
    left([trial("stuck", "mkdir /out; echo precious >/out/a", networks=["kept"]), trial("good", "mkdir /out; echo x >/out/a")])
    for _ in range(2):
        done = combu("kill", code=1)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("not removed: ")]
        assert line.startswith("not removed: stuck: the outputs cannot be collected: "), line
        assert "`kill --discard`" in done.stderr
        assert "network kept was not removed: still used by stuck" in done.stderr
        assert engine.names() == {"stuck"}
        assert set(engine.networks()) == {"kept"}
        assert {name: row["state"] for name, row in combu.ps().items()} == {
            "stuck": "collecting", "good": "succeeded", "on": "stopped", "serv": "stopped"
        }
    assert "cannot be removed" in combu("why", "stuck").stdout
    assert files(combu.home / "results/experiment/r1/good")["out/a"] == "x\n"
    # The container still has its name. Another run must not remove it together with its outputs.
    combu.write([sleeper("other"), sleeper("stuck")])
    refused = combu("run", code=1)
    assert "stuck: the container of run r1 was not removed: the outputs cannot be collected: " in refused.stderr
    assert "kill --run r1 --discard` removes the container" in refused.stderr and "nothing was started" in refused.stderr
    combu.write([sleeper("other")])
    combu("run")
    assert engine.running() == {"other"}
    assert engine.names() == {"other", "stuck"}
    stuck()
    combu("kill")
    assert engine.names() == set()
    assert engine.networks() == {}
    assert files(combu.home / "results/experiment/r1/stuck")["out/a"] == "precious\n"
    assert "has ended: 2 succeeded, 2 stopped" in combu("run", "--resume", "r1", code=1).stderr


@pytest.mark.usefixtures("stuck")
def test_discard_removes_a_container_whose_outputs_cannot_be_collected(combu, engine, left):
    left([trial("stuck", "mkdir /out; echo precious >/out/a", networks=["kept"])])
    combu("kill", code=1)
    assert engine.names() == {"stuck"}
    combu("kill", "--discard")
    assert engine.names() == set()
    assert engine.networks() == {}
    row = combu.ps()["stuck"]
    assert (row["state"], row["reason"]) == ("stopped", "removed by `combu kill` before its outputs were collected")


def test_kill_stops_running_trials_whose_logs_cannot_be_stored(combu, engine, left):
    left([])
    kept = combu.home / ".local/state/combu/telemetry/r1.sqlite"
    damaged = kept.rename(kept.with_suffix(".away"))
    for beside in kept.parent.glob("r1.sqlite-*"):
        beside.rename(damaged.with_name(beside.name.replace(kept.name, damaged.name)))
    kept.write_text("this is no database" * 1000, encoding="utf-8")
    done = combu("kill", code=1)
    assert {line.split(":")[1] for line in done.stderr.splitlines() if line.startswith("not removed: ")} == {" on", " serv"}
    assert engine.names() == {"on", "serv"}
    assert engine.running() == set()
    rows = combu.ps()
    assert {name: (row["state"], row["cause"]) for name, row in rows.items()} == {
        "on": ("collecting", "stopped"), "serv": ("stopped", "stopped")
    }
    kept.unlink()
    damaged.rename(kept)
    combu("kill")
    assert engine.names() == set()
