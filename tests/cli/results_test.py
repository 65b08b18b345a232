"""What trials have told: results, compare, plot and export, from runs on the simulated engine."""

import csv
import io
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import subprocess
import time
import urllib.request
import xml.etree.ElementTree

import pytest

from conftest import ROOT

# Each trial tells three points of its loss, and in the end an accuracy; the last one fails.
GRID = """
local uuid = "UUID";
local trial(lr, model, seed) = {
  local loss = lr * 8 + seed + SHIFT,
  name: "%s-%s-%d" % [model, std.strReplace("" + lr, ".", "_"), seed],
  image: "lab/solver",
  metrics: { stdout: "json" },
  params: { epochs: 3, lr: lr, model: model, seed: seed },
  cmd: ["sh", "-c", std.join("; ", [
    "echo '%s'" % std.manifestJsonMinified({ step: step, loss: loss + 3 - step }) for step in [1, 2, 3]] +
    ["echo '%s'" % std.manifestJsonMinified({ accuracy: 1 - lr })])],
};
[trial(lr, model, seed) for lr in [0.125, 0.25] for model in ["resnet", "vit"] for seed in [1, 2]] +
[{ name: "odd-one", image: "lab/solver", cmd: "false", params: { epochs: 3, note: 'said "no",\\nand left' } }]
"""


@pytest.fixture
def runs(combu, write):
    """Two runs of the grid, the second one's losses worse by a quarter; gives the second file."""
    for run, shift in (("one", "0"), ("two", "0.25")):
        file = write(GRID.replace("SHIFT", shift))
        done = combu("-f", file, "--engine", "simulated:?speed=0", "--progress", "plain", "run", "--wait", "--run-id", run)
        assert done.returncode == 1 and "8 succeeded, 1 failed" in done.stderr, done.stderr
    return file


def ok(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_results_of_the_files_last_run(combu, runs):
    lines = ok(combu("-f", runs, "results")).splitlines()
    assert lines[0] == f"run two of {runs}: 8 succeeded, 1 failed"
    assert lines[1] == "the same for all: epochs=3"
    assert lines[2].split() == ["TRIAL", "lr", "model", "note", "seed", "STATE", "TIME", "accuracy", "loss"]
    first = lines[3].split()
    assert (first[0], first[-2:]) == ("resnet-0_125-1", ["0.875", "2.25"])
    assert lines[-1].split()[-2:] == ["–", "–"]
    assert ok(combu("results", "one")).splitlines()[0].startswith("run one of ")


def test_results_are_sorted_chosen_and_cut_to_columns(combu, runs):
    rows = ok(combu("results", "one", "--sort", "loss", "--reverse", "--where", "model=vit && loss<4", "--columns",
                    "trial,loss,loss.greatest,loss.points")).splitlines()[2:]
    assert [row.split() for row in rows] == [
        ["TRIAL", "loss", "loss.greatest", "loss.points"],
        ["vit-0_125-2", "3", "5", "3"],
        ["vit-0_25-1", "3", "5", "3"],
        ["vit-0_125-1", "2", "4", "3"]]
    unknown = combu("results", "one", "--sort", "los")
    assert (unknown.returncode, unknown.stderr) == (
        2, "combu: --sort: run one has no param and no metric `los`; is `loss` meant?\n")
    note = combu("results", "one", "--where", "nothing=1")
    assert "--where: no trial of run one has `nothing`" in note.stderr


def test_results_as_json(combu, runs):
    rows = [json.loads(line) for line in ok(combu("results", "one", "--json")).splitlines()]
    assert len(rows) == 9
    assert rows[0]["params"] == {"epochs": 3, "lr": 0.125, "model": "resnet", "seed": 1}
    assert rows[0]["metrics"]["loss"] == {"last": 2, "least": 2, "greatest": 4, "points": 3}
    assert (rows[-1]["state"], rows[-1]["metrics"]) == ("failed", {})
    chosen = ok(combu("results", "one", "--columns", "trial,loss", "--json")).splitlines()
    assert json.loads(chosen[0]) == {"trial": "resnet-0_125-1", "loss": 2}


def test_runs_are_compared_by_params_and_seeds(combu, runs):
    text = ok(combu("compare", "one", "two", "--metric", "loss")).splitlines()
    assert text[0] == "loss of run one, and of run two less that; ± is half of a 95 % interval (Student's t)"
    assert text[1] == "the same for all: epochs=3"
    assert [line.split() for line in text[3:7]] == [
        [lr, model, low, "6.353", "0.7071", "2", high, "6.353", "0.7071", "2", "0.25", "0", "paired"]
        for lr, low, high in (("0.125", "2.5", "2.75"), ("0.25", "3.5", "3.75")) for model in ("resnet", "vit")]
    assert text[7].startswith("all 4 pairs: two less one is 0.25 ± 0 ")
    assert text[8:] == [f"left out of run {run}: 1 trial that has not succeeded" for run in ("one", "two")]
    pairs = [json.loads(line) for line in ok(combu("compare", "one", "two", "--json")).splitlines()]
    assert [pair["metric"] for pair in pairs] == ["accuracy"] * 4 + ["loss"] * 4
    assert pairs[4]["params"] == {"epochs": 3, "lr": 0.125, "model": "resnet"}
    assert pairs[4]["differences"][0]["difference"] == 0.25
    twice = combu("compare", "one", "one")
    assert (twice.returncode, twice.stderr) == (2, "combu: run one: is named twice\n")


def test_a_run_alone_is_grouped_by_its_repeats(combu, runs):
    text = ok(combu("-f", runs, "compare", "--metric", "loss", "--over", "seed,model")).splitlines()
    assert [line.split() for line in text[3:5]] == [["0.125", "2.75", "0.9187", "0.5774", "4"],
                                                    ["0.25", "3.75", "0.9187", "0.5774", "4"]]


def test_a_curve_for_each_value(combu, runs):
    text = ok(combu("plot", "loss", "--by", "lr", "--run", "one", env={"LC_ALL": "C"}))
    assert text.splitlines()[0].strip() == "loss"
    assert text.splitlines()[-2:] == ["  a lr=0.125", "  b lr=0.25"]
    assert text.isascii()
    single = ok(combu("plot", "loss", "--run", "one", "--where", "trial=vit-0_25-1", env={"LC_ALL": "C.UTF-8"}))
    assert re.search("[⠁-⣿]", single)


def test_a_plot_is_written_as_svg(combu, runs, tmp_path):
    ok(combu("-f", runs, "plot", "loss", "--x", "lr", "--by", "model", "--log", "xy", "-o", "loss.svg"))
    root = xml.etree.ElementTree.parse(tmp_path / "loss.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(root.findall("{*}circle")) == 8 + 2
    assert {"lr", "loss", "model=resnet", "model=vit"} <= {text.text for text in root.findall("{*}text")}
    wrong = combu("-f", runs, "plot", "loss", "-o", "loss.png")
    assert wrong.returncode == 2 and "name it *.svg" in wrong.stderr
    nothing = combu("-f", runs, "plot", "loss", "--where", "state=failed")
    assert (nothing.returncode, nothing.stderr) == (
        1, "combu: loss: nothing to draw: no trial of run two has told it\n")


def test_csv_holds_what_has_to_be_quoted(combu, runs):
    rows = list(csv.DictReader(io.StringIO(ok(combu("export", "csv", "one", "two")), newline="")))
    assert [row["run"] for row in rows] == ["one"] * 9 + ["two"] * 9
    assert rows[8]["note"] == 'said "no",\nand left'
    assert (rows[0]["lr"], rows[0]["loss"], rows[0]["loss.points"], rows[8]["loss"]) == ("0.125", "2", "3", "")
    points = list(csv.DictReader(io.StringIO(ok(combu("export", "csv", "--points", "one")), newline="")))
    assert len(points) == 8 * 4
    assert [float(row["value"]) for row in points if row["trial"] == "vit-0_25-2" and row["metric"] == "loss"] == [6, 5, 4]


def test_sqlite_takes_the_place_of_what_there_was(combu, runs, tmp_path):
    (tmp_path / "out.sqlite").write_text("something else")
    ok(combu("export", "sqlite", "one", "two", "-o", "out.sqlite"))
    database = sqlite3.connect(tmp_path / "out.sqlite")
    [(count,)] = database.execute("SELECT count(*) FROM points")
    assert count == 2 * 8 * 4
    assert database.execute("SELECT value, typeof(value) FROM params WHERE run = 'one' AND trial = 'vit-0_25-1' ORDER BY param"
                            ).fetchall() == [(3, "real"), (0.25, "real"), ("vit", "text"), (1, "real")]
    assert database.execute("SELECT max(last) FROM metrics WHERE metric = 'loss'").fetchall() == [(4.25,)]
    assert os.listdir(tmp_path).count("out.sqlite") == 1
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]
    nowhere = combu("export", "sqlite", "one", "-o", "nowhere/out.sqlite")
    assert nowhere.returncode == 1 and nowhere.stderr.startswith("combu: nowhere/out.sqlite: cannot be written")


# ---- What others make of it


@pytest.fixture(scope="session")
def peers():
    """The folder of a virtual environment with MLflow, pandas and DuckDB."""
    return pathlib.Path(subprocess.run([ROOT / "tests/mlflow/install"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())


def test_pandas_and_duckdb_read_it_at_once(combu, runs, tmp_path, peers):
    for form in ("csv", "json"):
        ok(combu("export", form, "one", "-o", f"out.{form}"))
    script = """
import duckdb, json, pandas
tables = [pandas.read_csv("out.csv"), pandas.read_json("out.json", lines=True), duckdb.sql("SELECT * FROM 'out.csv'").df(),
          duckdb.sql("SELECT * FROM 'out.json'").df()]
print(json.dumps([[len(table), table.groupby("lr").loss.mean().round(6).tolist(), table.note.iloc[8]] for table in tables]))
"""
    done = subprocess.run([peers / "bin/python", "-c", script], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert json.loads(done.stdout) == [[9, [2.5, 3.5], 'said "no",\nand left']] * 4


def is_up(uri):
    try:
        with urllib.request.urlopen(uri + "/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.fixture
def mlflow(tmp_path, peers):
    """The address of an MLflow server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(tmp_path / "mlflow.log", "wb") as log:
        server = subprocess.Popen([peers / "bin/mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
                                   "--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.sqlite"], cwd=tmp_path, stdout=log,
                                  stderr=subprocess.STDOUT, start_new_session=True)
    uri = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 300
        while not is_up(uri):
            assert server.poll() is None and time.monotonic() < until, (tmp_path / "mlflow.log").read_text()
            time.sleep(0.1)
        yield uri
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


def test_mlflow_has_it_once(combu, runs, mlflow, peers, tmp_path):
    script = """
import json, mlflow, sys
client = mlflow.MlflowClient(sys.argv[1])
experiment = client.get_experiment_by_name(sys.argv[2])
found = {}
for run in client.search_runs([experiment.experiment_id], max_results=1000):
    assert run.info.run_name not in found
    history = client.get_metric_history(run.info.run_id, "loss")
    found[run.info.run_name] = [run.info.status, run.data.params, sorted((point.step, point.value) for point in history),
                                run.data.tags["combu.run"], run.info.end_time >= run.info.start_time > 0]
print(json.dumps(found))
"""

    def there():
        done = subprocess.run([peers / "bin/python", "-c", script, mlflow, str(runs)], check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    for _ in range(2):
        ok(combu("export", "mlflow", "one", "--to", mlflow, "--progress", "quiet"))
        found = there()
        assert len(found) == 9
        assert found["vit-0_25-2"] == ["FINISHED", {"epochs": "3", "lr": "0.25", "model": "vit", "seed": "2"},
                                      [[1, 6], [2, 5], [3, 4]], "one", True]
        assert found["odd-one"][0] == "FAILED"
    ok(combu("export", "mlflow", "--progress", "quiet", "two", "--where", "model=none", env={"MLFLOW_TRACKING_URI": mlflow}))


def test_an_mlflow_server_that_is_not_there_is_told(combu, runs):
    away = combu("export", "mlflow", "one", "--to", "http://127.0.0.1:1")
    assert away.returncode == 1
    assert away.stderr.splitlines()[-1].startswith("combu: http://127.0.0.1:1: no MLflow server answers there")
    for uri in ("https://example.org", "example.org"):
        wrong = combu("export", "mlflow", "one", "--to", uri)
        assert (wrong.returncode, wrong.stderr) == (
            2, f"combu: {uri}: is no address of an MLflow server; give http://HOST:PORT\n")
    assert combu("export", "mlflow", "one").returncode == 2
