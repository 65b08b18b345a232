"""Tests of inputs from other trials and from the user, on the simulated engine."""

import json
import os
import signal
import subprocess
import threading

from conftest import COMBU, SIMULATED

FILE = """
local folds = [1, 2, 3];
[{ name: "preprocess", image: "x", cmd: "sh -c 'echo ten > /out/a'", outputs: ["/out"], inputs: ["./data:/data"] }] +
[
  { name: "fold-%d" % i, image: "x", cmd: "sh -c 'cat /in/a > /model'", inputs: ["trial:preprocess/out:/in"], outputs: ["/model"] }
  for i in folds
] +
[{ name: "ensemble", image: "x", cmd: "cat /models/1 /models/2 /models/3", inputs: ["trial:fold-%d/model:/models/%d" % [i, i] for i in folds] }]
"""


def test_inputs_are_what_others_have_left(combu, write, tmp_path):
    (tmp_path / "data").mkdir()
    write(FILE)
    assert combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--wait").returncode == 0
    (run,) = (tmp_path / "results/experiment").iterdir()
    assert (run / "fold-2/model").read_text() == "ten\n"


def test_a_plan_has_the_edges_that_inputs_make(combu, write):
    write(FILE)
    plan = json.loads(combu("-f", "experiment.jsonnet", "plan", "--json").stdout)
    assert plan["waves"] == [["preprocess"], ["fold-1", "fold-2", "fold-3"], ["ensemble"]]
    assert plan["needs"]["ensemble"] == [{"trial": f"fold-{i}", "condition": "succeeded"} for i in (1, 2, 3)]


def test_an_input_that_is_not_there_is_told_before_the_first_start(combu, write, tmp_path):
    write(FILE)
    done = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--wait")
    assert done.returncode == 2
    assert f"[0].inputs[0]: {tmp_path}/data does not exist (trial `preprocess`)" in done.stderr
    assert not (tmp_path / "results").exists()


def test_many_inputs_are_read_at_once(combu, write):
    """The time must not grow with the square of the number of inputs."""
    write("""
      local count = 20000;
      std.makeArray(count, function(i) { name: "fold-" + i, image: "x", outputs: ["/model"] }) +
      [{ name: "ensemble", image: "x", inputs: std.makeArray(count, function(i) "trial:fold-" + i + "/model:/models/" + i) }]
    """)
    done = combu("-f", "experiment.jsonnet", "validate", timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_run_is_interrupted_while_a_large_input_is_read(combu, write, tmp_path):
    (tmp_path / "data").mkdir()
    with open(tmp_path / "data/large", "wb") as file:
        file.truncate(1 << 40)
    write('[{ name: "reader", image: "x", cmd: "cat /data/small", inputs: ["./data:/data"] }]')
    command = [COMBU, "-f", "experiment.jsonnet", "--engine", SIMULATED, "--progress", "json", "run", "--wait", "--run-id", "one"]
    with subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)}, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        hung = threading.Timer(100, process.kill)
        hung.start()
        next(line for line in process.stderr if json.loads(line).get("starting") == ["reader"])
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        hung.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 143
    assert used.ru_maxrss << 10 < 256 << 20
    (tmp_path / "data/large").unlink()
    (tmp_path / "data/small").write_text("ten\n")
    assert combu("--engine", SIMULATED, "run", "--resume", "--wait").returncode == 0
    assert combu("logs", "--run", "one", "reader").stdout == "ten\n"


def logs_of(combu):
    return combu("-f", "experiment.jsonnet", "logs", "one").stdout


def test_an_input_is_where_its_links_led_when_the_run_began(combu, write, tmp_path):
    """A container of the run may have changed the link in the meantime."""
    for folder in ("disk", "secrets"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x").write_text(f"of {folder}\n")
    (tmp_path / "data").symlink_to("disk")
    write("""[{ name: "one", image: "x", cmd: "sh -c 'cat /in/x; exit 1'", inputs: ["data:/in"] }]""")
    assert combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--wait", "--run-id", "r1").returncode == 1
    assert logs_of(combu) == "of disk\n"

    (tmp_path / "data").unlink()
    (tmp_path / "data").symlink_to("secrets")
    again = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "retry", "--wait")
    assert (f"{tmp_path}/data resolves to {tmp_path}/secrets, but resolved to {tmp_path}/disk when run r1 began; "
            "the run keeps using the earlier target; `run` starts a new run with the current target") in again.stderr
    assert logs_of(combu) == "of disk\n"

    (tmp_path / "disk").rename(tmp_path / "moved")
    (tmp_path / "disk").symlink_to("secrets")
    refused = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "retry", "--wait")
    assert f"{tmp_path}/disk cannot be read: it was replaced by a symbolic link or a file after the run began" in refused.stderr

    assert combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--wait").returncode == 1
    assert logs_of(combu) == "of secrets\n"


def test_the_results_may_be_behind_a_link(combu, write, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to("disk")
    write("""[{ name: "one", image: "x", cmd: "sh -c 'echo ten > /out/a'", outputs: ["/out"] }]""")
    assert combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--wait", "--run-id", "r1").returncode == 0
    assert (tmp_path / "disk/experiment/r1/one/out/a").read_text() == "ten\n"
