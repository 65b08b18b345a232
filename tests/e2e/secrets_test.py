"""Secrets on a Docker Engine: attempts in workers get variables, and no value is in the engine's state or in what combu writes."""

import base64
import hashlib
import json
import mmap
import os
from pathlib import Path

import pytest
from engines import trial

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
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and holds_value(path)]


def command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # the process has ended
            pass


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


@pytest.mark.parametrize(
    "fields, refusal",
    [
        ({"secrets": ["token"]}, "trials[0].secrets[0]: combu cannot give secrets to containers of a Docker Engine yet"),
        ({"secrets": ["token"], "worker": True}, "trials[0].secrets[0]: combu cannot give files of secrets to workers of a Docker Engine yet"),
        ({"secrets": [{"source": "there", "env": "T"}], "worker": True}, "trials[0].secrets[0]: the source is a Secret of a Kubernetes cluster"),
    ],
    ids=["container", "file", "cluster"],
)
def test_other_secrets_are_refused_before_the_first_start(lab, engine, fields, refusal):
    lab.write(experiment(trial("one", "true", **fields)))
    done = lab("run", "--wait", code=1)
    assert refusal in done.stderr and "nothing was started" in done.stderr
    assert engine.names() == set()
