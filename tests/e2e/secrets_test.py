"""Secrets on a Docker Engine: programs get files and variables, and no value is in the engine's state or in what combu writes."""

import base64
import hashlib
import json
import mmap
import os
from pathlib import Path

import pytest
from engines import command_lines, trial

VALUE = f"hunter-of-process-{os.getpid()}"
SHOW = "printf %s $TOKEN | sha256sum | cut -d' ' -f1"


@pytest.fixture
def lab(combu):
    (combu.home / "token").write_text(VALUE, encoding="utf-8")
    return combu


def experiment(*trials):
    return {"experiment": "lab", "secrets": {"token": {"file": "token"}, "there": {"kubernetes": {"secret": "lab", "key": "k"}}}, "trials": trials}


def holds_value(path):
    """True if a file has the value, as text or as Base64."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(content.find(form) >= 0 for form in (VALUE.encode(), base64.b64encode(VALUE.encode())))
    except (OSError, ValueError):  # it has no content, or is gone
        return False


def files_with_value(folder):
    # os.walk() passes over folders that the engine removes meanwhile.
    paths = (Path(parent) / name for parent, _, names in os.walk(folder) for name in names)
    return [path for path in paths if path.is_file() and not path.is_symlink() and holds_value(path)]


def test_an_attempt_in_a_worker_gets_a_variable_without_a_trace(lab, engine):
    secrets = [{"source": "token", "env": "TOKEN"}]
    lab.write(experiment(*(trial(f"t{i}", f"{SHOW}; sleep 0.5; exit {i}", worker={"count": 1}, secrets=secrets, outputs=["out"] if i else []) for i in (0, 1))))
    process = lab.start("--trace", "trace", "run", "--wait")
    seen, found = [], set()
    while process.poll() is None:
        seen += [json.dumps(engine.containers()), *map(repr, command_lines())]
        found.update(files_with_value(engine.dir))
    out, err = process.communicate()
    assert process.returncode == 1, err
    assert any("combu-worker-" in text for text in seen)
    for i in (0, 1):
        assert lab("logs", f"t{i}").stdout.startswith(hashlib.sha256(VALUE.encode()).hexdigest())
    assert VALUE not in out + err + "".join(seen)
    assert found == set()
    assert files_with_value(lab.home) == [lab.home / "token"]


def test_a_container_gets_files_and_variables_without_a_trace(lab, engine):
    show = f"{SHOW}; sha256sum < /run/secrets/token; stat -c %a /run/secrets/token; cat /data/in; mkdir /out; echo done > /out/x; sleep 0.5"
    (lab.file.parent / "in").write_text("input\n", encoding="utf-8")
    secrets = ["token", {"source": "token", "env": "TOKEN"}]
    lab.write(experiment(trial("root", show, secrets=secrets, inputs=["./in:/data/in"], outputs=["/out"]), trial("other", f"{SHOW}; sha256sum < /key/a; exit 3", secrets=[{"source": "token", "target": "/key/a"}, secrets[1]], user="1234", retries=0)))
    process = lab.start("--trace", "trace", "run", "--wait")
    seen, found = [], set()
    while process.poll() is None:
        seen += [json.dumps(engine.containers()), *map(repr, command_lines())]
        found.update(files_with_value(engine.dir))
    out, err = process.communicate()
    assert process.returncode == 1, err
    digest = hashlib.sha256(VALUE.encode()).hexdigest()
    assert lab("logs", "root").stdout == f"{digest}\n{digest}  -\n444\ninput\n"
    assert lab("logs", "other").stdout == f"{digest}\n{digest}  -\n"
    assert {name: (row["state"], row["exit_code"]) for name, row in lab.ps().items()} == {"root": ("succeeded", 0), "other": ("failed", 3)}
    assert [file.read_text(encoding="utf-8") for file in lab.file.parent.glob("results/lab/*/root/out/x")] == ["done\n"]
    assert VALUE not in out + err + "".join(seen)
    assert found == set()
    assert files_with_value(lab.home) == [lab.home / "token"]


def test_a_program_with_secrets_ends_and_stops_as_without(lab):
    secrets = ["token"]
    lab.write(
        experiment(
            {**trial("absent", "", secrets=secrets, retries=0), "cmd": ["/no/program"]},
            trial("signal", "trap 'echo got it; exit 5' USR1; while :; do sleep 0.05; done", secrets=secrets, stop_signal="USR1", timeout="1s", retries=0),
            {"name": "image", "image": "combu-test", "secrets": secrets},
        )
    )
    lab("run", "--wait", code=1)
    rows = lab.ps()
    assert (rows["absent"]["state"], rows["absent"]["cause"]) == ("failed", "start")
    assert "/no/program" in rows["absent"]["reason"]
    assert (rows["signal"]["cause"], lab("logs", "signal").stdout) == ("timeout", "got it\n")


def test_a_start_that_was_interrupted_is_completed(lab, engine):
    """A killed combu leaves an agent that waits. The process that resumes the run brings the secrets."""
    lab.write(experiment(*(trial(f"t{i}", f"{SHOW}", secrets=[{"source": "token", "env": "TOKEN"}]) for i in range(20))))
    process = lab.start("run", "--wait")
    while not engine.names():
        assert process.poll() is None
    process.kill()
    process.wait()
    lab("run", "--resume", "--wait")
    assert {(row["state"], row["attempt"]) for row in lab.ps().values()} == {("succeeded", 1)}


@pytest.mark.parametrize(
    "fields, refusal",
    [
        ({"secrets": ["token"], "worker": True}, "trials[0].secrets[0]: combu cannot give files of secrets to workers of a Docker Engine"),
        ({"secrets": [{"source": "there", "env": "T"}], "worker": True}, "trials[0].secrets[0]: the source is a Secret of a Kubernetes cluster"),
        ({"secrets": [{"source": "token", "target": "/token"}]}, "one: a Docker Engine cannot give files of secrets in the folder /"),
    ],
    ids=["file", "cluster", "root"],
)
def test_other_secrets_are_refused_before_the_first_start(lab, engine, fields, refusal):
    lab.write(experiment(trial("one", "true", **fields)))
    done = lab("run", "--wait", code=1)
    assert refusal in done.stderr and "nothing was started" in done.stderr
    assert engine.names() == set()
