"""Inputs, which combu copies into containers before the start: files of the user, and outputs of other trials."""

import json
import os
import shutil
import signal

import pytest
from engines import trial, wait_until


def said(combu, name):
    return combu("logs", name).stdout


FOLDS = 3

# `preprocess` makes data in parts, each fold computes a model, and `ensemble` combines the models.
CROSS_VALIDATION = [
    trial("preprocess", f"mkdir -p /out/parts; for i in $(seq {FOLDS}); do echo $((i * 10)) >/out/parts/$i; done", outputs=["/out"]),
    *(
        trial(f"fold-{i}", f"mkdir /model; expr $(cat /in/{i}) + 1 >/model/weight; ls /in | wc -l",
              inputs=["trial:preprocess/out/parts:/in"], outputs=["/model"])
        for i in range(1, FOLDS + 1)
    ),
    trial("ensemble", "cat /models/*/weight >/sum; cat /sum", outputs=["/sum"],
          inputs=[{"from": f"trial:fold-{i}/model", "to": f"/models/{i}"} for i in range(1, FOLDS + 1)]),
]


def test_cross_validation_runs_from_one_file(combu):
    combu.write(CROSS_VALIDATION)
    plan = json.loads(combu("plan", "--json").stdout)
    assert plan["waves"] == [["preprocess"], ["fold-1", "fold-2", "fold-3"], ["ensemble"]]
    assert plan["needs"]["fold-2"] == [{"trial": "preprocess", "condition": "succeeded"}]
    combu("run", "--wait")
    assert said(combu, "ensemble") == "11\n21\n31\n"
    assert said(combu, "fold-1") == "3\n"


def test_only_includes_the_trials_that_inputs_come_from(combu):
    combu.write([*CROSS_VALIDATION, trial("other", "true")])
    combu("run", "--wait", "--only", "ensemble")
    assert {row["state"] for row in combu.ps().values()} == {"succeeded"}
    assert set(combu.ps()) == {one["name"] for one in CROSS_VALIDATION}


@pytest.mark.engine_version
def test_a_resumed_run_has_the_outputs_of_earlier_trials(combu, engine):
    hold = combu.home / "hold"
    hold.mkdir()
    (hold / "it").touch()
    (combu.home / "raw").write_text("made\n")
    combu.write([
        trial("preprocess", "mkdir /out; cat /raw >/out/a", inputs=["./raw:/raw"], outputs=["/out"]),
        trial("between", "while test -e /hold/it; do sleep 0.05; done", volumes=[f"{hold}:/hold"],
              depends=[{"trial": "preprocess", "condition": "succeeded"}]),
        trial("last", "cat /in/a", inputs=["trial:preprocess/out:/in"], depends=[{"trial": "between", "condition": "succeeded"}]),
    ])
    run = combu.start("run", "--wait")
    wait_until(lambda: "between" in engine.running(), "the second trial to run")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    engine.ask("DELETE", "/containers/preprocess?force=1")
    (combu.home / "raw").unlink()  # no trial reads this input again
    (hold / "it").unlink()
    combu("run", "--resume")
    assert said(combu, "last") == "made\n"


def test_a_retried_trial_has_the_same_inputs(combu):
    (combu.home / "data").mkdir()
    (combu.home / "data/a").write_text("own\n")
    combu.write([
        trial("preprocess", "mkdir /out; echo left >/out/a", outputs=["/out"]),
        trial("both", "cat /in/a /data/a; rm -r /in /data; exit 1", inputs=["trial:preprocess/out:/in", "./data:/data"],
              retries={"max": 1, "backoff": {"initial": 0}}),
    ])
    combu("run", "--wait", code=1)
    assert said(combu, "both") == "left\nown\n"
    assert combu.ps()["both"]["attempt"] == 2
    combu("retry", "both", "--wait", code=1)
    assert said(combu, "both") == "left\nown\n"
    assert combu.ps()["preprocess"]["attempt"] == 1


@pytest.mark.engine_version
def test_files_of_the_user_are_copied_with_modes_times_and_links(combu):
    data = combu.home / "data"
    (data / "sub").mkdir(parents=True)
    (data / "sub/run").write_text("#!/bin/sh\necho runs\n")
    (data / "sub/run").chmod(0o750)
    (data / "secret").write_text("s")
    (data / "secret").chmod(0o600)
    (data / "link").symlink_to("sub/run")
    (data / "line\nend").write_text("odd")
    (data / "none").touch()
    os.utime(data / "secret", (1_000_000_000, 1_000_000_000))
    with (data / "holes").open("wb") as file:
        file.truncate(5_000_000)
        file.seek(4_000_000)
        file.write(b"x")
    combu.write([
        trial("root", "cd /deep/in; stat -c '%n %a %u:%g %s' secret sub/run none; stat -c %Y secret; readlink link; ./link; "
              "cat line*end; stat -c %s holes; tr -d '\\0' <holes; stat -c '%a %u:%g' /deep; cat /home.txt",
              inputs=["./data:/deep/in", "~/home.txt:/"]),
        trial("user", "cd /in; id -u; cat secret; stat -c '%u:%g' . secret; touch new", user="1234:55", inputs=["./data:/in"]),
    ])
    (combu.home / "home.txt").write_text("home\n")
    combu("run", "--wait")
    assert said(combu, "root").splitlines() == [
        "secret 600 0:0 1", "sub/run 750 0:0 20", "none 644 0:0 0", "1000000000", "sub/run", "runs",
        "odd5000000", "x755 0:0", "home",
    ]
    assert said(combu, "user") == "1234\ns1234:55\n1234:55\n"
    assert not (data / "new").exists()


@pytest.mark.engine_version
def test_an_input_does_not_change_existing_folders_of_the_image(combu):
    (combu.home / "data").mkdir()
    (combu.home / "data/a").write_text("a\n")
    combu.write([
        trial("one", "ls -d /tmp/data /root/x/data; stat -c %a /tmp /root /bin; test -x /bin/sh", inputs=["./data:/tmp/", "./data:/root/x/data"]),
    ])
    combu("run", "--wait")
    assert said(combu, "one").split() == ["/root/x/data", "/tmp/data", "1777", "755", "755"]


def test_missing_inputs_are_reported_before_the_first_start(combu, engine):
    combu.write([
        trial("one", "true", inputs=["./none:/in"]),
        trial("two", "true", inputs=[{"from": "./neither", "to": "/in"}, "./none:/other"]),
    ])
    refused = combu("run", code=2)
    assert f"[0].inputs[0]: {combu.home}/none does not exist (trial `one`)" in refused.stderr
    assert f"[1].inputs[0].from: {combu.home}/neither does not exist (trial `two`)" in refused.stderr
    assert engine.containers() == {}


def test_an_input_that_disappears_during_the_run_fails_the_start(combu, engine):
    data = combu.home / "data"
    data.mkdir()
    hold = combu.home / "hold"
    hold.mkdir()
    (hold / "it").touch()
    combu.write([
        trial("first", "while test -e /hold/it; do sleep 0.05; done", volumes=[f"{hold}:/hold"]),
        trial("second", "true", inputs=["./data:/in"], depends=[{"trial": "first", "condition": "finished"}]),
        trial("last", "true", depends=[{"trial": "second", "condition": "succeeded"}]),
    ])
    run = combu.start("run", "--wait")
    wait_until(lambda: "first" in engine.running(), "the first trial to run")
    shutil.rmtree(data)
    (hold / "it").unlink()
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 1
    assert f"failed: second: could not be started: {data} is not there" in errors
    assert combu.ps()["second"]["state"] == "failed"
    assert "could not be started" in combu("why", "second").stdout
    assert combu.ps()["last"]["state"] == "blocked"


def test_a_missing_output_of_another_trial_fails_the_start(combu):
    """The output of the first trial has `required: false`, so the first trial succeeds without it."""
    combu.write([
        trial("first", "true", outputs=[{"path": "/out", "required": False}]),
        trial("second", "true", inputs=["trial:first/out:/in"]),
    ])
    done = combu("run", "--wait", code=1)
    assert "second: could not be started: the outputs of `first` must contain /out" in done.stderr


def test_links_in_outputs_cannot_lead_out_of_the_outputs(combu):
    combu.write([
        trial("first", "mkdir -p /out/run-7; echo seven >/out/run-7/a; ln -s run-7 /out/latest; ln -s /out/run-7 /out/absolute; "
              "ln -s /etc /out/etc; ln -s ../../../../../../etc/passwd /out/up", outputs=["/out"]),
        trial("good", "cat /a/a /b/a", inputs=["trial:first/out/latest:/a", "trial:first/out/absolute/:/b"]),
        trial("bad-1", "cat /in", inputs=["trial:first/out/etc/passwd:/in"]),
        trial("bad-2", "cat /in", inputs=["trial:first/out/up:/in"]),
    ])
    combu("run", "--wait", code=1)
    assert said(combu, "good") == "seven\nseven\n"
    states = {name: row["state"] for name, row in combu.ps().items()}
    assert states == {"first": "succeeded", "good": "succeeded", "bad-1": "failed", "bad-2": "failed"}


@pytest.mark.engine_version
def test_an_input_that_is_too_large_for_the_engines_disk_fails_the_start(combu_on, new_engine):
    engine = new_engine()
    engine.use_small_disk(96)
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    with (combu.home / "large").open("wb") as file:
        file.truncate(300 << 20)
    combu.write([trial("one", "true", inputs=["./large:/in"], depends=[{"trial": "two", "condition": "succeeded"}]), trial("two", "true")])
    done = combu("run", "--wait", code=1)
    assert "no space left on device" in done.stderr
    assert {name: row["state"] for name, row in combu.ps().items()} == {"one": "failed", "two": "succeeded"}
