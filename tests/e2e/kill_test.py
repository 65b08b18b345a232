"""kill finds what is ours by labels, and nothing else."""

import pytest
from engines import docker_config, wait_until
from outputs_test import files, trial
from run_test import sleeper


def test_a_file_that_has_changed_since(combu, engine):
    combu.write('local uuid = "UUID";\n[{ name: "n-%d" % i, image: "combu-test", cmd: "sleep 600", env: { U: uuid } } for i in [1, 2]]')
    combu("run")
    combu.write([sleeper("quite-another")])
    combu("kill")
    assert engine.names() == set()


def test_a_file_that_is_broken_by_now(combu, engine):
    combu.write([sleeper("one")])
    combu("run")
    combu.write("[ this is no Jsonnet")
    assert set(combu.ps()) == {"one"}
    combu("kill")
    assert engine.names() == set()


def test_kill_leaves_no_failure_on_record(combu, engine):
    """What ran is stopped, what waited is blocked, and a retry takes both."""
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
    assert (rows["one"]["cause"], rows["one"]["reason"]) == ("stopped", "removed by kill")
    combu.write([{"name": name, "image": "combu-test", "cmd": "true"} for name in ("one", "bad", "after")])
    combu("apply", "--failed")
    assert {name: row["state"] for name, row in combu.ps().items()} == {
        "one": "succeeded", "serv": "stopped", "bad": "succeeded", "after": "succeeded"
    }


def test_one_run_of_several(combu, engine):
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


def test_strangers_stay(combu, engine, tmp_path, combu_on):
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
def test_a_network_in_use_by_a_stranger_stays(combu, engine):
    combu.write([sleeper("one", networks=["shared-net"])])
    combu("run")
    engine.run_stranger("guest", HostConfig={"NetworkMode": "shared-net"})
    assert "the network shared-net stays: still used by guest" in combu("kill").stderr
    assert engine.running() == {"guest"}
    assert "shared-net" in engine.networks()


@pytest.mark.engine_version
def test_containers_that_ended_or_never_ran_go_too(combu, engine):
    combu.write([{"name": "over", "image": "combu-test", "cmd": "true"}, {"name": "odd", "image": "combu-test", "user": "nobody-here"}])
    combu("run", code=1)
    combu("kill")
    assert engine.names() == set()


def test_nothing_to_kill_is_success(combu):
    combu.write([sleeper("one")])
    combu("kill")


def test_kill_ends_a_run_that_still_starts(combu, engine):
    combu.write([{"name": f"t-{i:02}", "image": "combu-test", "cmd": "sleep 600"} for i in range(60)])
    running = combu.start("run", "--starts-in-flight", "4")
    wait_until(lambda: len(engine.names()) >= 8, "the first trials")
    killed = combu("kill")
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted process" in killed.stderr
    assert engine.names() == set()


@pytest.mark.engine_version
def test_what_was_made_from_a_trials_image_is_not_the_trial(combu, engine):
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
    # Nor does a trial of such an image take over what the other was.
    combu.write([sleeper("plain", image="combu-copy:1")])
    combu("run")
    labels = engine.containers()["plain"]["Config"]["Labels"]
    assert (labels["combu.service"], labels["combu.cpus"]) == ("false", "0")
    engine.remove_all()
    engine.ask("DELETE", "/images/combu-copy:1?force=1")


def test_a_run_that_has_no_containers_yet_is_interrupted(combu, engine, tmp_path):
    """Also when the experiment has a name, which only its run knows."""
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
    assert f"interrupted process {running.pid}, which was at work on run " in killed.stderr
    assert running.returncode == 130


LOOP = "its symbolic links form a loop, or are too many"


UNREADABLE = {
    "loop": ("ln -s out /out", f"cannot be read: {LOOP}"),
    "two-links": ("ln -s /b /out; ln -s /out /b", f"cannot be read: {LOOP}"),
    "below-a-file": ("echo >/file; ln -s /file/x /out", "cannot be read: a part of the path is not a folder"),
    "long-name": (f"ln -s /{'n' * 300} /out", "cannot be read: the path, or the target of its link, has a name that is too long"),
    "root": ("ln -s / /out", "cannot be read: it is a link to the root of the file system"),
    "dangling": ("ln -s /nowhere /out", "there is no such output"),
}


@pytest.mark.engine_version
def test_trials_that_make_their_outputs_unreadable_fail_alone(combu):
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
