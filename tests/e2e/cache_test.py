"""The cache skips trials that have succeeded, and `show --reproduce` prints how to repeat a trial."""

import json
import os
import signal
import subprocess

import pytest
from engines import wait_until


def learn(seed, **fields):
    return {"name": f"learn-{seed}", "image": "combu-test", "cmd": ["sh", "-c", f"mkdir /out; echo {seed} >/out/n"],
            "params": {"seed": seed}, "outputs": ["/out"], "cache": True, **fields}


def states(combu):
    return {name: row["state"] for name, row in combu.ps().items()}


def folder(combu, run):
    return combu.home / "results" / "experiment" / run


def test_an_equal_trial_is_skipped(combu, engine):
    combu.write([learn(seed) for seed in (1, 2, 3)])
    combu("run", "--wait", "--run-id", "first")
    combu.write([learn(seed) for seed in (2, 3, 4)])
    done = combu("run", "--wait", "--run-id", "second")
    assert "1 succeeded, 2 skipped" in done.stderr
    assert states(combu) == {"learn-2": "skipped", "learn-3": "skipped", "learn-4": "succeeded"}
    for seed in (2, 3, 4):
        place = folder(combu, "second") / f"learn-{seed}"
        assert (place / "out" / "n").read_text() == f"{seed}\n"
        subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "manifest.sha256"], cwd=place, check=True)
    combu("wait", "learn-2")
    combu("kill")
    assert "skipped: equal to `learn-2` of run first" in combu("why", "learn-2").stdout


def test_edited_outputs_are_not_reused(combu):
    combu.write([learn(1), learn(2)])
    combu("run", "--wait", "--run-id", "first")
    combu("kill")
    (folder(combu, "first") / "learn-1/out/n").write_text("edited\n")
    (folder(combu, "first") / "learn-2/out/notes").write_text("mine\n")
    combu("run", "--wait", "--run-id", "second")
    assert states(combu) == {"learn-1": "succeeded", "learn-2": "skipped"}
    assert (folder(combu, "second") / "learn-1/out/n").read_text() == "1\n"
    assert [path.name for path in (folder(combu, "second") / "learn-2/out").iterdir()] == ["n"]


def test_logs_and_metrics_of_the_cached_trial_are_shown_for_a_skipped_trial(combu):
    cmd = ["sh", "-c", "mkdir /out; echo 1 >/out/n; echo '{\"step\": 1, \"loss\": 0.5}'"]
    combu.write([learn(1, cmd=cmd, metrics="json")])
    for run in ("first", "second", "third"):
        combu("run", "--wait", "--run-id", run)
        combu("kill")
    (row,) = map(json.loads, combu("results", "--json").stdout.splitlines())
    assert (row["run"], row["state"]) == ("third", "skipped")
    assert row["metrics"] == {"loss": {"last": 0.5, "least": 0.5, "greatest": 0.5, "points": 1}}
    assert "equal to `learn-1` of run first" in combu("why", "learn-1").stdout, "who has run, not who was skipped before"
    assert combu("logs", "learn-1").stdout == '{"step": 1, "loss": 0.5}\n'
    assert combu("logs").stdout == 'learn-1 | {"step": 1, "loss": 0.5}\n'
    assert len(combu("export", "csv", "--points").stdout.splitlines()) == 2
    shown = json.loads(combu("show", "learn-1", "--json").stdout)
    assert shown["metrics"]["loss"]["last"] == 0.5
    assert shown["equal_to"] == {"run": "first", "trial": "learn-1"}
    assert [attempt["exit_code"] for attempt in shown["attempts"]] == [0], "those of who had run it"


def test_a_skipped_trial_keeps_its_logs_when_the_cached_run_is_removed(combu):
    cmd = ["sh", "-c", "mkdir /out; echo 1 >/out/n; echo '{\"loss\": 0.5}'"]
    combu.write([learn(1, cmd=cmd, metrics="json")])
    for run in ("first", "second"):
        combu("run", "--wait", "--run-id", run)
        combu("kill")
    combu("rm", "first")
    assert combu("logs", "learn-1").stdout == '{"loss": 0.5}\n'
    combu("run", "--wait", "--run-id", "third")
    combu("kill")
    combu("rm", "second")
    (row,) = map(json.loads, combu("results", "--json").stdout.splitlines())
    assert (row["run"], row["state"], row["metrics"]["loss"]["last"]) == ("third", "skipped", 0.5)
    page = combu("show", "learn-1").stdout
    assert "first, which is not in this record" in page
    assert "person" not in page, "nobody's that is known"
    assert len(combu("export", "csv", "--points").stdout.splitlines()) == 2
    # A cache hit needs the logs and metrics of the cached trial, not only its outputs.
    for path in (combu.home / ".local/state/combu/telemetry").glob("third.*"):
        path.unlink()
    combu("run", "--wait", "--run-id", "fourth")
    (row,) = map(json.loads, combu("results", "--json").stdout.splitlines())
    assert (row["run"], row["state"], row["metrics"]["loss"]["last"]) == ("fourth", "succeeded", 0.5)


@pytest.mark.engine_version
def test_an_image_or_input_that_changes_before_the_start_is_no_cache_hit(combu, engine):
    def name_image(source):
        assert engine.ask("POST", f"/images/{source}/tag?repo=combu-named&tag=latest")[0] == 201

    engine.load_image("combu-other", cmd="true")
    name_image("combu-test")
    given = combu.home / "given"
    given.write_text("1")
    gate = {"name": "gate", "image": "combu-test", "cmd": ["sh", "-c", "trap 'exit 0' USR1; while :; do sleep 0.1; done"]}
    combu.write([
        gate,
        learn(1, image="combu-named", depends=[{"trial": "gate", "condition": "succeeded"}]),
        learn(2, inputs=["given:/given"], depends=[{"trial": "gate", "condition": "succeeded"}]),
        learn(3, image="combu-named", inputs=["given:/given"]),
    ])

    def run(name, meanwhile):
        process = combu.start("run", "--wait", "--run-id", name)
        wait_until(lambda: states(combu).get("gate") == "running" or process.poll() is not None, "the gate to be there")
        wait_until(lambda: states(combu).get("learn-3") in ("succeeded", "skipped"), "learn-3 to end")
        meanwhile()
        assert engine.ask("POST", "/containers/gate/kill?signal=USR1")[0] == 204
        process.communicate(timeout=60)
        assert process.returncode == 0
        ended = states(combu)
        combu("kill")
        return ended

    def change():
        given.write_text("2")
        name_image("combu-other")

    assert set(run("first", change).values()) == {"succeeded"}
    given.write_text("1")
    name_image("combu-test")
    assert run("second", lambda: None) == {
        "gate": "succeeded", "learn-1": "succeeded", "learn-2": "succeeded", "learn-3": "skipped"}


def test_a_service_that_only_skipped_trials_need_is_not_started(combu, engine):
    service = {"name": "served", "image": "combu-test", "cmd": ["sleep", "1000"], "service": True}
    combu.write([service, learn(1, depends=["served"])])
    combu("run", "--wait")
    combu("kill")
    combu("run", "--wait")
    assert states(combu) == {"served": "stopped", "learn-1": "skipped"}
    assert engine.names() == set()


def test_a_resumed_run_keeps_its_skipped_trials(combu, engine):
    combu.write([learn(1), learn(2)])
    combu("run", "--wait")
    hold = combu.home / "hold"
    hold.mkdir()
    script = "until test -e /hold/go; do sleep 0.05; done; mkdir /out; echo 3 >/out/n"
    slow = learn(3, cmd=["sh", "-c", script], volumes=[f"{hold}:/hold"])
    combu.write([learn(1), learn(2), slow])
    process = combu.start("run", "--wait", "--run-id", "second")
    wait_until(lambda: states(combu).get("learn-3") == "running", "learn-3 to run")
    process.send_signal(signal.SIGKILL)
    process.wait()
    (hold / "go").touch()
    combu("run", "--resume", "second")
    assert states(combu) == {"learn-1": "skipped", "learn-2": "skipped", "learn-3": "succeeded"}
    combu("retry", "learn-1", "--wait")
    assert states(combu) == {"learn-1": "succeeded", "learn-2": "skipped", "learn-3": "succeeded"}


@pytest.mark.engine_version
def test_reproduce_uses_the_image_digest_of_the_original_run(combu, engine, program):
    combu.write([learn(1)])
    combu("run", "--wait", "--run-id", "first")
    shown = json.loads(combu("show", "learn-1", "--json").stdout)
    assert shown["digest"].startswith("sha256:")
    text = combu("show", "--reproduce", "learn-1").stdout
    assert shown["digest"] in combu("show", "--evaluated", "learn-1").stdout
    own = combu.home / "bin"
    own.mkdir()
    (own / "combu").symlink_to(program)
    env = {**combu.env, "PATH": f"{own}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-e", "-c", text], env=env, cwd="/", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, text + done.stderr
    assert "1 succeeded" in done.stderr


def test_a_trial_that_ended_without_an_owner_can_be_reused(combu, engine, tmp_path):
    (tmp_path / "hold").mkdir()
    cmd = ["sh", "-c", "mkdir /out; echo 1 >/out/n; echo '{\"loss\": 0.5}'; until [ -e /hold/go ]; do sleep 0.05; done"]
    combu.write([learn(1, cmd=cmd, metrics="json", volumes=[f"{tmp_path / 'hold'}:/hold"])])
    run = combu.start("run", "--wait", "--run-id", "first")
    wait_until(lambda: states(combu) == {"learn-1": "running"}, "it to run")
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    (tmp_path / "hold/go").touch()
    wait_until(lambda: states(combu) == {"learn-1": "collecting"}, "ps to take its end in")
    combu("run", "--resume", "--wait")
    combu("kill")
    combu("run", "--wait", "--run-id", "second")
    (row,) = map(json.loads, combu("results", "--json").stdout.splitlines())
    assert (row["state"], row["metrics"]["loss"]["last"]) == ("skipped", 0.5)
