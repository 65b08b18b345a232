"""Secrets on a Docker Engine: programs get files and variables, and no value is in the engine's state or in what combu writes."""

import base64
import hashlib
import json
import mmap
import os
from pathlib import Path

import pytest
from engines import command_lines, trial, wait_until
from stalling import Stalling

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


@pytest.fixture
def held(tmp_path):
    """A folder of the trials: `begun(NAME)` is a part of a script that waits until the folder has the file `on`."""
    (tmp_path / "held").mkdir()
    (tmp_path / "held").chmod(0o777)
    return tmp_path / "held"


def begun(name):
    return f"touch /held/{name}; until test -e /held/on; do sleep 0.05; done"


def run_without_trace(lab, engine, held, names):
    """Runs the experiment, and looks for the value while the programs of these trials run and after their end. Returns the engine's containers."""
    process = lab.start("--trace", "trace", "run", "--wait")
    arguments = []
    while not all((held / name).exists() for name in names):
        assert process.poll() is None, process.communicate()
        arguments += command_lines()
    containers = engine.containers()
    found = files_with_value(engine.dir)
    (held / "on").touch()
    out, err = process.communicate()
    assert process.returncode == 1, err
    assert VALUE not in out + err + repr(arguments) + json.dumps([containers, engine.containers()])
    assert found + files_with_value(engine.dir) == []
    assert files_with_value(lab.home) == [lab.home / "token"]
    return containers


def test_an_attempt_in_a_worker_gets_a_variable_without_a_trace(lab, engine, held):
    fields = {"worker": {"count": 1, "concurrency": 2}, "secrets": [{"source": "token", "env": "TOKEN"}], "volumes": [f"{held}:/held"], "retries": 0}
    lab.write(experiment(*(trial(f"t{i}", f"{SHOW}; {begun(f't{i}')}; exit {i}", **fields, outputs=["out"] if i else []) for i in (0, 1))))
    [worker] = run_without_trace(lab, engine, held, ["t0", "t1"])
    assert worker.startswith("combu-worker-")
    for i in (0, 1):
        assert lab("logs", f"t{i}").stdout.startswith(hashlib.sha256(VALUE.encode()).hexdigest())


def test_a_container_gets_files_and_variables_without_a_trace(lab, engine, held):
    show = f"{SHOW}; sha256sum < /run/secrets/token; stat -c %a /run/secrets/token; cat /data/in; mkdir /out; echo done > /out/x; {begun('root')}"
    (lab.file.parent / "in").write_text("input\n", encoding="utf-8")
    variable = {"source": "token", "env": "TOKEN"}
    fields = {"retries": 0, "volumes": [f"{held}:/held"]}
    root = trial("root", show, secrets=["token", variable], inputs=["./in:/data/in"], outputs=["/out"], **fields)
    other = trial("other", f"{SHOW}; sha256sum < /key/a; {begun('other')}; exit 3", secrets=[{"source": "token", "target": "/key/a"}, variable], user="1234", **fields)
    lab.write(experiment(root, other))
    assert set(run_without_trace(lab, engine, held, ["root", "other"])) == {"root", "other"}
    digest = hashlib.sha256(VALUE.encode()).hexdigest()
    assert lab("logs", "root").stdout == f"{digest}\n{digest}  -\n444\ninput\n"
    assert lab("logs", "other").stdout == f"{digest}\n{digest}  -\n"
    assert {name: (row["state"], row["exit_code"]) for name, row in lab.ps().items()} == {"root": ("succeeded", 0), "other": ("failed", 3)}
    assert [file.read_text(encoding="utf-8") for file in lab.file.parent.glob("results/lab/*/root/out/x")] == ["done\n"]


def test_a_program_with_secrets_ends_and_stops_as_without(lab):
    secrets = ["token"]
    lab.write(
        experiment(
            {**trial("absent", "", secrets=secrets, retries=1), "cmd": ["/no/program"]},
            trial("signal", "trap 'echo got it; exit 5' USR1; while :; do sleep 0.05; done", secrets=secrets, stop_signal="USR1", timeout="1s", retries=0),
            {"name": "image", "image": "combu-test", "secrets": secrets},
        )
    )
    lab("run", "--wait", code=1)
    rows = lab.ps()
    assert (rows["absent"]["state"], rows["absent"]["cause"], rows["absent"]["attempt"]) == ("failed", "start", 2)
    assert "/no/program" in rows["absent"]["reason"]
    assert (rows["signal"]["cause"], lab("logs", "signal").stdout) == ("timeout", "got it\n")


@pytest.mark.parametrize("ends", ["resume", "kill"])
def test_a_start_that_was_interrupted_is_completed(lab, engine, tmp_path, ends):
    """A killed combu can leave a container whose agent waits for the secrets. The process that resumes the run sends them."""
    lab.write(experiment(trial("one", SHOW, secrets=[{"source": "token", "env": "TOKEN"}], retries=0)))
    with Stalling(lab, engine, tmp_path / "engine.sock", b"/exec HTTP") as stalling:
        process = lab.start("run", "--wait")
        wait_until(stalling.asked.is_set, "the connection to the agent")
        process.kill()
        process.wait()
        assert engine.running() == {"one"}
        stalling.free.set()
        assert lab.ps()["one"]["state"] == "starting"
        if ends == "kill":
            lab("kill")
            assert (engine.names(), lab.ps()["one"]["state"]) == (set(), "stopped")
            return
        lab("run", "--resume", "--wait")
    assert {(row["state"], row["attempt"]) for row in lab.ps().values()} == {("succeeded", 1)}
    assert lab("logs", "one").stdout == hashlib.sha256(VALUE.encode()).hexdigest() + "\n"


def test_programs_with_secrets_survive_combu(lab, engine, held):
    """The process that resumes the run finds that the programs have begun."""
    fields = {"secrets": ["token"], "volumes": [f"{held}:/held"], "retries": 0}
    lab.write(experiment(*(trial(f"t{i}", begun(f"t{i}"), **fields) for i in range(3))))
    process = lab.start("run", "--wait")
    wait_until(lambda: len(list(held.iterdir())) == 3, "the programs")
    process.kill()
    process.wait()
    process = lab.start("run", "--resume", "--wait")
    (held / "on").touch()
    assert process.wait() == 0
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
