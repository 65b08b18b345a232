"""No value of a secret is in what combu writes or prints. tests/e2e/kubernetes_secrets_test.py looks on a cluster."""

import base64
import hashlib
import json

import pytest
from conftest import SIMULATED, SLOW

VALUES = {"a": "hunter-of-file", "b": "hunter-of-variable", "c": "hunter-of-command"}
FILE = """
local worker = std.extVar("worker");
{
  experiment: "lab",
  secrets: {
    a: { file: "a.txt" }, b: { env: "B" }, c: { command: ["sh", "-c", "touch ran; rev reversed"] },
    d: { kubernetes: { secret: "lab", key: "d" } },
  },
  defaults: {
    image: "x",
    worker: worker,
    secrets: ["a", { source: "a", env: "A" }, { source: "b", target: "/etc/b" }, { source: "b", env: "BB" }, { source: "c", env: "C" }, "d"],
  },
  trials: [{ name: "one", cmd: "echo done", cache: std.extVar("cache") }, { name: "two", cmd: "sh -c 'exit 3'", retries: 1 }],
}
"""


@pytest.fixture
def lab(combu, write, tmp_path):
    (tmp_path / "a.txt").write_text(VALUES["a"])
    (tmp_path / "reversed").write_text(VALUES["c"][::-1] + "\n")
    write(FILE)

    def run(*arguments, worker=False, cache=True, engine=None):
        values = ("--ext-code", f"worker={json.dumps(worker)}", "--ext-code", f"cache={json.dumps(cache)}")
        engine = engine or (SLOW if worker else SIMULATED)
        return combu(*values, "-f", "experiment.jsonnet", "--engine", engine, *arguments, env={"B": VALUES["b"]})

    return run


def forms(value):
    """A value as text, and forms in which it must not occur either."""
    return [value.encode(), base64.b64encode(value.encode()), hashlib.sha256(value.encode()).hexdigest().encode()]


def expect_no_value(texts):
    for name, text in texts:
        for value in VALUES.values():
            assert not any(form in text for form in forms(value)), name


def written(folder):
    return [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file() and path.name != "a.txt"]


@pytest.mark.parametrize("worker", [False, True])
def test_no_value_is_in_what_combu_writes(lab, tmp_path, worker):
    done = lab("--trace", "trace", "run", "--wait", worker=worker)
    assert done.returncode == 1 and "1 succeeded" in done.stderr
    assert (tmp_path / "trace").read_text() and (tmp_path / "ran").exists()
    texts = [("run", done.stdout + done.stderr)]
    for command in (["ps"], ["ps", "--json"], ["why"], ["show", "--json"], ["results", "--json"], ["times"], ["logs", "one"],
                    ["plan", "--json"], ["plan"], ["run", "--wait", "--replace"]):
        shown = lab(*command, worker=worker)
        texts.append((command, shown.stdout + shown.stderr))
    expect_no_value([(name, text.encode()) for name, text in texts] + written(tmp_path))


@pytest.mark.parametrize("command", [["plan"], ["validate"], ["ps"], ["kill"], ["plan", "--json"]])
def test_commands_that_start_no_trial_read_no_value(lab, tmp_path, command):
    lab(*command)
    assert not (tmp_path / "ran").exists()


def test_a_manifest_has_no_value(lab, tmp_path):
    done = lab("plan", "--manifest", cache=False, engine="kubernetes")
    assert done.returncode == 0, done.stderr
    expect_no_value([("manifest", (done.stdout + done.stderr).encode())])
    assert not (tmp_path / "ran").exists()


def test_a_failing_source_starts_nothing(lab, tmp_path):
    (tmp_path / "reversed").unlink()
    done = lab("run", "--wait")
    assert done.returncode == 2
    assert "secrets.c.command: the command failed with exit code 1; run the command in the folder" in done.stderr
    assert "nothing was started" in done.stderr
    assert not (tmp_path / "results").exists()
    expect_no_value([("run", done.stderr.encode()), *written(tmp_path)])


def test_an_equal_trial_is_found_by_the_name_of_its_secret(lab, tmp_path):
    assert "1 skipped" not in lab("run", "--wait").stderr
    (tmp_path / "a.txt").write_text("another value")
    assert "1 skipped" in lab("run", "--wait", "--replace").stderr
