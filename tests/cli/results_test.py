"""Tests of results, compare, plot and export, with runs on the simulated engine."""

import base64
import contextlib
import csv
import http.server
import io
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.request
import xml.etree.ElementTree

import pytest

from conftest import COMBU, ROOT

# Each trial reports three points of its loss and finally an accuracy; the last trial fails.
GRID = """
local uuid = "UUID";
local trial(lr, model, seed) = {
  local loss = lr * 8 + seed + SHIFT,
  name: "%s-%s-%d" % [model, std.strReplace("" + lr, ".", "_"), seed],
  image: "lab/solver",
  metrics: { stdout: "json" },
  outputs: { path: "/out", required: false },
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
    """Two runs of the grid. The losses of the second run are greater by 0.25. Returns the second file."""
    for run, shift in (("one", "0"), ("two", "0.25")):
        file = write(GRID.replace("SHIFT", shift))
        done = combu("-f", file, "--engine", "simulated:?speed=0", "--progress", "plain", "run", "--wait", "--run-id", run)
        assert done.returncode == 1 and "8 succeeded, 1 failed" in done.stderr, done.stderr
    return file


def ok(done):
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def notes_of(done):
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_results_of_the_files_last_run(combu, runs):
    lines = ok(combu("-f", runs, "results")).splitlines()
    assert lines[0] == f"run two (simulated) of {runs}: 8 succeeded, 1 failed"
    assert lines[1] == "in all rows: epochs=3"
    assert lines[2].split() == ["TRIAL", "lr", "model", "note", "seed", "STATE", "TIME", "accuracy", "loss"]
    first = lines[3].split()
    assert (first[0], first[-2:]) == ("resnet-0_125-1", ["0.875", "2.25"])
    assert lines[-1].split()[-2:] == ["–", "–"]
    assert ok(combu("results", "one")).splitlines()[0].startswith("run one (simulated) of ")


@contextlib.contextmanager
def somebody_who_only_reads(combu, tmp_path):
    """Returns a function that runs combu as a user who may read the state folder, but cannot write anywhere."""
    state = tmp_path / ".local/state/combu"
    everything = [state, *state.rglob("*")]
    before = {path: path.stat().st_mode for path in [*everything, *state.parents]}
    for path in everything:
        path.chmod(0o555 if path.is_dir() else 0o444)
    is_root = os.geteuid() == 0
    own = shutil.copy(COMBU, tmp_path) if is_root else COMBU
    if is_root:
        for path in state.parents:
            path.chmod(before[path] | 0o111)
    person = {"user": 65534, "group": 65534, "extra_groups": []} if is_root else {}
    try:
        yield lambda *arguments: combu(*arguments, executable=own, **person)
    finally:
        for path, mode in before.items():
            path.chmod(mode & 0o7777)


def test_looking_writes_nothing(combu, runs, tmp_path):
    looks = [["results", "two"], ["compare", "one", "two"], ["show", "vit-0_25-2"], ["plot", "loss"],
             ["export", "csv"], ["logs", "vit-0_25-2"], ["why", "vit-0_25-2"]]
    asked = [["-f", runs, "--engine", "simulated:", *look] for look in looks]
    before = [ok(combu(*arguments)) for arguments in asked]
    telemetry = tmp_path / ".local/state/combu/telemetry"
    files = sorted(telemetry.iterdir())
    with somebody_who_only_reads(combu, tmp_path) as reader:
        assert [ok(reader(*arguments)) for arguments in asked] == before
        assert sorted(telemetry.iterdir()) == files
        assert ok(reader("--engine", "simulated:", "logs", "--run", "one", "vit-0_25-2")).count("\n") == 4
        (telemetry / "two.sqlite").chmod(0o000)
        for trial in ([], ["vit-0_25-2"]):
            log = reader("-f", runs, "--engine", "simulated:", "logs", *trial)
            assert (log.returncode, log.stdout) == (2 if os.geteuid() == 0 else 1, "")
            why = "cannot hold combu's state: user 0 owns it" if os.geteuid() == 0 else "cannot be "
            assert log.stderr.startswith(f"combu: {telemetry}/two.sqlite: {why}"), log.stderr


def test_show_tells_how_many_points_are_not_stored(combu, runs, tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/telemetry/two.sqlite")) as database, database:
        database.execute("UPDATE series SET points = 1000007 WHERE metric = 'loss'")
    page = ok(combu("show", "--run", "two", "vit-0_25-2"))  # includes one point of the accuracy
    assert "metrics    8 points not stored: combu keeps the first 1000000 points of an attempt\n" in page
    assert json.loads(ok(combu("show", "--run", "two", "--json", "vit-0_25-2")))["points_not_kept"] == 8
    assert "not stored" not in ok(combu("show", "--run", "one", "vit-0_25-2"))


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
        2, "combu: --sort: run one has no param and no metric `los`; did you mean `loss`?\n")
    for command in (["results", "one"], ["ps", "--run", "one"]):
        for name, hint in (("nothing", ""), ("modle", "; did you mean `model`?")):
            note = combu(*command, "--where", f"{name}=1")
            assert (note.returncode, note.stderr) == (0, f"--where: no trial of run one has `{name}`{hint}\n")


def test_mistakes_in_lists_of_names_are_told(combu, runs):
    for arguments, wanted in (
            (["results", "one", "--columns", "trial,,lr"], "--columns: commas must separate names; one name is empty"),
            (["results", "one", "--columns", "trial,lr,"], "--columns: commas must separate names; one name is empty"),
            (["results", "one", "--columns", "lr,trial", "--columns", "lr"], "--columns: `lr` is named twice"),
            (["results", "one", "--sort", "lr", "--sort", "loss"], "--sort must be given once, not 2 times; see combu results --help"),
            (["compare", "one", "two", "--metric", "loss,,lr"], "--metric: commas must separate names; one name is empty"),
            (["compare", "one", "two", "--over", "sede"], "--over: no trial has a param `sede`; did you mean `seed`?")):
        done = combu(*arguments)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"combu: {wanted}\n")


def test_names_with_odd_letters_stand_in_quotes(combu, write):
    file = write(r"""[{ name: "t%d" % i, image: "lab/solver", metrics: "json", params: { "a b": i },
                       cmd: ["sh", "-c", "echo '%s'" % std.manifestJsonMinified({ "v loss": i, "a,b": 10 * i })] } for i in [1, 2]]""")
    assert combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "odd").returncode == 0
    text = ok(combu("results", "odd", "--columns", "trial,'a b',\"a,b\",v loss", "--where", "\"v loss\" > 1 && 'a,b'<=20"))
    assert [line.split() for line in text.splitlines()[-1:]] == [["t2", "2", "20", "2"]]
    compared = combu("compare", "odd", "--metric", "'a,b'", "--json")
    assert [json.loads(line)["metric"] for line in compared.stdout.splitlines()] == ["a,b"] * 2
    for names in ('"a,b', '"a"b'):
        wrong = combu("results", "odd", "--columns", names)
        assert (wrong.returncode, wrong.stderr) == (2, f"combu: --columns: {names}: a name that begins with a quote must also end with this quote\n")


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
    assert text[0] == "loss of run one, and of run two minus run one; ± is half of a 95 % interval (Student's t)"
    assert text[1] == "in all rows: epochs=3"
    assert [line.split() for line in text[3:7]] == [
        [lr, model, low, "6.353", "0.7071", "2", high, "6.353", "0.7071", "2", "0.25", "0", "paired"]
        for lr, low, high in (("0.125", "2.5", "2.75"), ("0.25", "3.5", "3.75")) for model in ("resnet", "vit")]
    assert text[7].startswith("all 4 pairs: two minus one is 0.25 ± 0 ")
    assert text[8:] == [line for run in ("one", "two") for line in (
        f"run {run} is simulated: its results are not measured", f"left out of run {run}: 1 failed")]
    done = combu("compare", "one", "two", "--json")
    assert (done.returncode, done.stderr.splitlines()) == (0, text[8:])
    pairs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [pair["metric"] for pair in pairs] == ["accuracy"] * 4 + ["loss"] * 4
    assert pairs[4]["params"] == {"epochs": 3, "lr": 0.125, "model": "resnet"}
    assert pairs[4]["differences"][0]["difference"] == 0.25
    for command in (["compare"], ["export", "csv"]):
        twice = combu(*command, "one", "two", "one")
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
    assert wrong.returncode == 2 and "must end with .svg" in wrong.stderr
    nothing = combu("-f", runs, "plot", "loss", "--where", "state=failed")
    assert (nothing.returncode, nothing.stderr) == (
        1, "combu: loss: nothing to draw: no trial of run two reported a value\n")


def test_a_plot_of_words_that_xml_does_not_allow_is_xml(combu, write, tmp_path):
    file = write(r"""[{ name: "t-%d" % i, image: "x", cmd: "true", params: { model: "\uffff\ufffe\u0001%d" % i, size: i } } for i in [1, 2]]""")
    ok(combu("-f", file, "--engine", "simulated:?speed=0", "--progress", "quiet", "run", "--wait", "--run-id", "words"))
    ok(combu("plot", "size", "--x", "model", "--run", "words", "-o", "words.svg"))
    root = xml.etree.ElementTree.parse(tmp_path / "words.svg").getroot()
    assert {"\ufffd\ufffd1", "\ufffd\ufffd2"} <= {text.text for text in root.findall("{*}text")}


def test_every_word_of_an_axis_is_labelled_or_it_is_said_which(combu, write, tmp_path):
    file = write("""[{ name: "t-%d" % i, image: "x", cmd: "true", params: { model: "model-%03d" % i, size: i } }
                     for i in std.range(1, 40)]""")
    ok(combu("-f", file, "--engine", "simulated:?speed=0", "--progress", "quiet", "run", "--wait", "--run-id", "words"))
    models = [f"model-{i:03}" for i in range(1, 41)]
    for form in ([], ["-o", "words.svg"]):
        for where, most in [("size<=10", 10), ("size<=40", 40)]:
            drawn = combu("plot", "size", "--x", "model", "--run", "words", "--where", where, *form)
            assert drawn.returncode == 0, drawn.stderr
            text = (tmp_path / "words.svg").read_text() if form else drawn.stdout
            said = re.search(r"^every (\d+)\w\w of 40 values of `model` is labelled$", drawn.stderr, re.M)
            assert bool(said) == (most == 40)
            every = int(said[1]) if said else 1
            assert [model for model in models if model in text] == models[:most:every]


def test_a_file_is_replaced_when_the_new_one_is_whole(combu, runs, tmp_path):
    (tmp_path / "real.svg").write_text("old")
    (tmp_path / "real.svg").chmod(0o640)
    (tmp_path / "link.svg").symlink_to("real.svg")
    with open(tmp_path / "real.svg") as before:
        ok(combu("plot", "loss", "--run", "one", "-o", "link.svg"))
        assert before.read() == "old"
    assert (tmp_path / "link.svg").is_symlink() and (tmp_path / "real.svg").read_text().startswith("<svg ")
    assert (tmp_path / "real.svg").stat().st_mode & 0o777 == 0o640


def test_a_file_that_replaces_a_setuid_program_is_none(combu, runs, tmp_path):
    (tmp_path / "out.csv").write_text("old")
    (tmp_path / "out.csv").chmod(0o7755)
    ok(combu("export", "csv", "one", "-o", "out.csv"))
    assert (tmp_path / "out.csv").stat().st_mode & 0o7777 == 0o755


def test_a_file_that_is_replaced_keeps_its_owner(combu, runs, tmp_path):
    owner = (12345, 23456) if os.geteuid() == 0 else (os.getuid(), os.getgid())
    (tmp_path / "out.csv").write_text("old")
    os.chown(tmp_path / "out.csv", *owner)
    (tmp_path / "out.csv").chmod(0o6750)
    ok(combu("export", "csv", "one", "-o", "out.csv"))
    found = (tmp_path / "out.csv").stat()
    assert (found.st_mode & 0o7777, found.st_uid, found.st_gid) == (0o750, *owner)


def test_a_file_in_memory_is_replaced_like_others(combu, runs, tmp_path):
    path = f"/dev/shm/combu-test.{os.getpid()}.csv"
    try:
        for _ in range(2):
            ok(combu("export", "csv", "one", "-o", path))
            with open(path) as file:
                assert file.read() == ok(combu("export", "csv", "one"))
    finally:
        os.unlink(path)


def test_a_file_that_cannot_be_written_is_as_it_was(combu, write, tmp_path):
    file = write('[{ name: "aa", image: "x", cmd: "true", params: { note: std.repeat("x", 100000) } }]')
    done = combu("-f", file, "--engine", "simulated:?speed=0", "--progress", "quiet", "run", "--wait", "--run-id", "one")
    assert done.returncode == 0, done.stderr
    (tmp_path / "out.csv").write_text("old")

    def smaller_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000))

    full = combu("export", "csv", "one", "-o", "out.csv", preexec_fn=smaller_files)
    assert (full.returncode, full.stderr) == (1, "combu: out.csv: cannot be written: File too large\n")
    assert (tmp_path / "out.csv").read_text() == "old"
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]


def test_what_is_no_file_is_written_to(combu, runs, tmp_path):
    for form in (["plot", "loss"], ["export", "csv"]):
        text = ok(combu(*form, *(["--run"] if form[0] == "plot" else []), "one", "-o", "/dev/stdout"))
        assert text.startswith(("<svg ", "run,trial,"))
    with open(tmp_path / "out", "w+") as out:
        out.write("before\n")
        out.flush()
        done = combu("export", "csv", "one", "-o", "/dev/stdout", capture_output=False, stdout=out, stderr=subprocess.PIPE)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text().startswith("before\nrun,trial,")
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reader:
        ok(combu("plot", "loss", "--run", "one", "-o", "pipe"))
        assert reader.stdout.read().startswith("<svg ")
    refused = combu("export", "sqlite", "one", "-o", "/dev/stdout")
    assert (refused.returncode, refused.stderr) == (1, "combu: /dev/stdout: cannot be written: it must be a regular file\n")


CLASHES = """
[{ name: "aa", image: "x", params: { lr: 1, state: "hot" }, metrics: { stdout: "json" },
   cmd: ["sh", "-c", "echo '%s'" % std.manifestJsonMinified({ lr: 3, state: 4, Lr: 5 })] }]
"""


def test_columns_of_the_same_name_are_told_apart(combu, write, tmp_path, peers):
    done = combu("-f", write(CLASHES), "--engine", "simulated:?speed=0", "--progress", "quiet", "run", "--wait", "--run-id", "one")
    assert done.returncode == 0, done.stderr
    for form in ("csv", "json", "sqlite"):
        ok(combu("export", form, "one", "-o", f"out.{form}"))
    names = next(csv.reader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert len({name.lower() for name in names}) == len(names)
    values = {"state": "succeeded", "lr": 1, "params.state": "hot", "metrics.Lr": 5, "metrics.lr_2": 3,
              "metrics.state": 4}
    assert {name: value for name, value in json.loads((tmp_path / "out.json").read_text()).items() if name in values} == values
    script = """
import duckdb, json, pandas, sqlite3, sys
tables = [pandas.read_csv("out.csv"), pandas.read_json("out.json", lines=True), duckdb.sql("SELECT * FROM 'out.csv'").df(),
          duckdb.sql("SELECT * FROM 'out.json'").df()]
tables[0].to_sql("results", sqlite3.connect("again.sqlite"))
print(json.dumps([[getattr(table[name].iloc[0], "item", lambda: table[name].iloc[0])() for name in sys.argv[1:]] for table in tables]))
"""
    read = subprocess.run([peers / "bin/python", "-c", script, *values], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert json.loads(read.stdout) == [list(values.values())] * 4
    database = sqlite3.connect(tmp_path / "out.sqlite")
    assert database.execute("SELECT param, value FROM params ORDER BY param").fetchall() == [("lr", 1), ("state", "hot")]
    assert database.execute("SELECT metric, last FROM metrics ORDER BY metric").fetchall() == [("Lr", 5), ("lr", 3), ("state", 4)]


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


# ---- Other programs read exported results


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


# A server takes 20 s to start, so all tests that need it run in one worker.
one_server = pytest.mark.xdist_group("mlflow")


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory, peers):
    """The address of an MLflow server."""
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(folder / "mlflow.log", "wb") as log:
        server = subprocess.Popen([peers / "bin/mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
                                   "--backend-store-uri", f"sqlite:///{folder}/mlflow.sqlite"], cwd=folder, stdout=log,
                                  stderr=subprocess.STDOUT, start_new_session=True)
    uri = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 300
        while not is_up(uri):
            assert server.poll() is None and time.monotonic() < until, (folder / "mlflow.log").read_text()
            time.sleep(0.1)
        yield uri
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait()


@one_server
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
                                run.data.tags, run.info.end_time >= run.info.start_time > 0, run.info.experiment_id]
print(json.dumps(found))
"""

    def there():
        done = subprocess.run([peers / "bin/python", "-c", script, mlflow, str(runs)], check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    for _ in range(2):
        ok(combu("export", "mlflow", "one", "--to", mlflow, "--progress", "quiet"))
        found = there()
        assert len(found) == 9
        status, params, loss, tags, _in_order, _ = found["vit-0_25-2"]
        assert (status, params, loss, _in_order) == ("FINISHED", {"epochs": "3", "lr": "0.25", "model": "vit", "seed": "2"},
                                                     [[1, 6], [2, 5], [3, 4]], True)
        assert found["odd-one"][0] == "FAILED"
        told = json.loads(ok(combu("show", "--run", "one", "vit-0_25-2", "--json")))
        assert {name: value for name, value in tags.items() if name != "combu.digest"} == {
            "combu.run": "one", "combu.trial": "vit-0_25-2", "combu.attempt": "1", "combu.state": "succeeded",
            "combu.image": "lab/solver", "combu.outputs": f"{tmp_path}/results/experiment/one/vit-0_25-2",
            "mlflow.user": told["person"], "mlflow.source.name": str(runs), "mlflow.runName": "vit-0_25-2"}
        assert tags.get("combu.digest") == told["digest"]
        assert told["outputs"] == tags["combu.outputs"]
        assert found["odd-one"][3]["combu.reason"] == json.loads(ok(combu("show", "--run", "one", "odd-one", "--json")))["reason"]
        assert "combu.outputs" not in found["odd-one"][3], "it has none"
    ok(combu("export", "mlflow", "--progress", "quiet", "two", "--where", "model=none", env={"MLFLOW_TRACKING_URI": mlflow}))


@one_server
def test_mlflow_has_a_run_for_each_attempt(combu, write, mlflow, peers):
    """An MLflow run of the first attempt that was exported while it ran is closed by a later export."""
    file = write(r"""[{ name: "again", image: "lab/solver", metrics: "json", outputs: { path: "/out", required: false }, params: { lr: 1 },
                      cmd: ["sh", "-c", "echo '{\"x\": 1}'; echo '{\"x\": 2}'; exit 1"] }]""")
    script = """
import json, mlflow, sys
client = mlflow.MlflowClient(sys.argv[1])
found = {}
for run in client.search_runs([client.get_experiment_by_name(sys.argv[2]).experiment_id], *sys.argv[3:]):
    history = client.get_metric_history(run.info.run_id, "x")
    found[run.data.tags["combu.attempt"]] = [run.info.status, run.info.start_time, run.info.end_time, len(history), run.data.params,
                                             run.data.tags.get("combu.tried_again"), "combu.outputs" in run.data.tags]
    if "RUNNING" in sys.argv[-1]:
        client.update_run(run.info.run_id, status="RUNNING")
        client.set_tag(run.info.run_id, "combu.outputs", "somewhere")
print(json.dumps(found))
"""

    def there(*arguments):
        done = subprocess.run([peers / "bin/python", "-c", script, mlflow, str(file), *arguments], check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)

    engine = ["-f", file, "--engine", "simulated:?speed=0"]
    assert combu(*engine, "run", "--wait", "--run-id", "again").returncode == 1
    ok(combu("export", "mlflow", "again", "--to", mlflow, "--progress", "quiet"))
    first = there("attributes.status != 'RUNNING'")["1"]
    assert (first[0], first[3], first[5]) == ("FAILED", 2, None)
    assert combu(*engine, "retry", "--wait").returncode == 1
    for _ in range(2):
        ok(combu("export", "mlflow", "again", "--to", mlflow, "--progress", "quiet"))
        found = there()
        assert found["1"] == ["FAILED", *first[1:5], "2", False]
        assert (found["2"][0], found["2"][3:6]) == ("FAILED", [2, {"lr": "1"}, None])
        assert found["2"][1] >= first[2], "its own start"


@one_server
def test_mlflow_has_what_is_no_number(combu, write, mlflow, peers):
    """An MLflow server with a database cannot store infinity: it stores the largest number instead."""
    file = write(r"""[{ name: "odd", image: "lab/solver", metrics: "json",
                      cmd: ["sh", "-c", "echo '{\"x\": NaN}'; echo '{\"x\": Infinity}'; echo '{\"x\": -Infinity}'; echo '{\"x\": 1}'"] }]""")
    assert combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "odd").returncode == 0
    script = """
import math, mlflow, sys
client = mlflow.MlflowClient(sys.argv[1])
[run] = client.search_runs([client.get_experiment_by_name(sys.argv[2]).experiment_id])
print(["nan" if math.isnan(point.value) else "%.2g" % point.value for point in
       sorted(client.get_metric_history(run.info.run_id, "x"), key=lambda point: point.step)])
"""
    for _ in range(2):
        ok(combu("export", "mlflow", "odd", "--to", mlflow, "--progress", "quiet"))
        done = subprocess.run([peers / "bin/python", "-c", script, mlflow, str(file)], check=True, stdout=subprocess.PIPE, text=True)
        assert done.stdout == "['nan', '1.8e+308', '-1.8e+308', '1']\n"


@one_server
def test_mlflow_has_what_it_does_not_take_by_its_name_or_whole(combu, write, mlflow, peers):
    """Every changed name is distinct, and each change is reported."""
    file = write(r"""[{ name: "odd", image: "lab/solver", metrics: "json",
                      params: { "a(b": 1, "c(d": 2, ["n" + std.repeat("x", 300)]: 3, ["n" + std.repeat("x", 301)]: 4,
                                long: std.repeat("ö", 6001), fits: std.repeat("ö", 6000) },
                      cmd: ["sh", "-c", "echo '{\"x(y\": 1, \"x)y\": 2, \"x_y\": 3, \"x y\": 4}'"] },
                    { name: "even", image: "lab/solver", params: { a_b: 5 } }]""")
    assert combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "clash").returncode == 0
    script = """
import json, mlflow, sys
client = mlflow.MlflowClient(sys.argv[1])
[run] = client.search_runs([client.get_experiment_by_name(sys.argv[2]).experiment_id], "tags.`combu.trial` = 'odd'")
print(json.dumps([run.data.params, {key: [point.value for point in client.get_metric_history(run.info.run_id, key)] for key in run.data.metrics}]))
"""
    for told in (["params", "metrics", "cut"], ["params", "metrics"]):
        done = notes_of(combu("export", "mlflow", "clash", "--to", mlflow, "--progress", "plain"))
        notes = [line for line in done.splitlines() if "MLflow" in line]
        assert len(notes) == len(told), done
        assert notes[0].startswith("params renamed for MLflow: `a(b` to `a_b-"), notes[0]
        assert "`, `c(d` to `c_d`, `nx" in notes[0]
        assert notes[1].startswith("metrics renamed for MLflow: `x(y` to `x_y-"), notes[1]
        assert notes[2:] in ([], ["param long: MLflow gets only the first 6000 characters of longer values"])
        out = subprocess.run([peers / "bin/python", "-c", script, mlflow, str(file)], check=True, stdout=subprocess.PIPE, text=True).stdout
        params, metrics = json.loads(out)
        assert sorted(value for key, value in params.items() if key not in ("long", "fits")) == ["1", "2", "3", "4"]
        assert params["c_d"] == "2" and "a_b" not in params and params["long"] == params["fits"] == "ö" * 6000
        assert max(map(len, params)) == 250
        assert sorted(metrics.values()) == [[1.0], [2.0], [3.0], [4.0]] and metrics["x_y"] == [3.0] and metrics["x y"] == [4.0]


def test_an_old_mlflow_server_gets_less_of_a_param(combu, write):
    file = write("""[{ name: "one", image: "lab/solver", params: { long: std.repeat("x", 501), short: "y" } }]""")
    assert combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "old").returncode == 0
    with listening() as server:
        server.value_max = 500
        done = notes_of(combu("export", "mlflow", "old", "--to", f"http://127.0.0.1:{server.server_port}", "--progress", "plain",
                            env={"MLFLOW_TRACKING_TOKEN": "a-token"}))
    assert "param long: MLflow gets only the first 500 characters of longer values\n" in done
    taken = [body["params"] for path, body in server.heard if path.endswith("log-batch")]
    assert taken[-1] == [{"key": "long", "value": "x" * 500}, {"key": "short", "value": "y"}]


def test_an_mlflow_server_that_is_not_there_is_told(combu, runs):
    away = combu("export", "mlflow", "one", "--to", "http://127.0.0.1:1")
    assert away.returncode == 1
    assert away.stderr.splitlines()[-1].startswith("combu: http://127.0.0.1:1: the MLflow server does not answer")
    for uri in ("ftp://example.org", "example.org", "http://"):
        wrong = combu("export", "mlflow", "one", "--to", uri)
        assert (wrong.returncode, wrong.stderr) == (
            2, f"combu: {uri}: must be the address of an MLflow server: http://HOST:PORT or https://HOST\n")
    assert combu("export", "mlflow", "one").returncode == 2


class Listener(http.server.BaseHTTPRequestHandler):
    """The part of an MLflow server that checks who makes a request. It accepts Ada's password and one token."""

    protocol_version = "HTTP/1.1"
    known = ("Basic " + base64.b64encode(b"ada:so:secret").decode(), "Bearer a-token")

    def answer(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        call = self.path.split("?")[0].partition("/api/2.0/mlflow/")[2]
        status = 200 if self.headers.get("Authorization") in self.known else 401
        self.server.heard.append((self.path, body))
        if any(len(param["value"]) > self.server.value_max for param in body.get("params", [])):
            status = 400
        text = json.dumps({"experiments/get-by-name": {"experiment": {"experiment_id": "1"}},
                           "runs/create": {"run": {"info": {"run_id": "r"}}}}.get(call, {})) if status == 200 else "Who?"
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def listening(context=None):
    """Starts a server; `heard` has its requests."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # a client that does not trust the server closes the connection
    server.daemon_threads = True
    server.heard = []
    server.value_max = 6000
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def secure_server(tmp_path):
    """A TLS server with a self-signed certificate, tmp_path/cert.pem."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with listening(context) as server:
        yield server


def test_an_mlflow_server_behind_tls_knows_who_asks(combu, runs, secure_server, tmp_path):
    uri = f"https://localhost:{secure_server.server_port}/lab/"
    ada = {"MLFLOW_TRACKING_USERNAME": "ada", "MLFLOW_TRACKING_PASSWORD": "so:secret"}
    trusted = {"MLFLOW_TRACKING_SERVER_CERT_PATH": str(tmp_path / "cert.pem")}

    def export(to=uri, **env):
        secure_server.heard.clear()
        return combu("export", "mlflow", "one", "--to", to, "--progress", "quiet", env=env)

    unknown = export(**ada)
    assert unknown.returncode == 1 and "the certificate of the server is not trusted: " in unknown.stderr, unknown.stderr
    assert secure_server.heard == [], "nobody was told the password"
    ok(export(**ada, **trusted))
    assert {path.split("mlflow/")[0] for path, _ in secure_server.heard} == {"/lab/api/2.0/"}
    assert {body["run_name"] for path, body in secure_server.heard if path.endswith("runs/create")} >= {"odd-one", "vit-0_25-2"}
    ok(export(**ada, MLFLOW_TRACKING_INSECURE_TLS="True"))
    ok(export(MLFLOW_TRACKING_TOKEN="a-token", **trusted))
    ok(export(uri.replace("://", "://ada:so%3Asecret@"), **trusted))
    (tmp_path / ".mlflow").mkdir()
    (tmp_path / ".mlflow/credentials").write_text("[other]\nmlflow_tracking_username = eve\n"
                                                  "[mlflow]\nmlflow_tracking_username = ada\nmlflow_tracking_password=so:secret\n")
    ok(export(**trusted))
    refused = export(**{**ada, "MLFLOW_TRACKING_PASSWORD": "wrong"}, **trusted)
    assert refused.returncode == 1 and "authentication failed; set MLFLOW_TRACKING_USERNAME" in refused.stderr
    hidden = export(uri.replace("://", "://ada:wrong@"), **trusted)
    assert hidden.returncode == 1 and "wrong" not in hidden.stderr
    for env, name in (({"MLFLOW_TRACKING_INSECURE_TLS": "yes"}, "MLFLOW_TRACKING_INSECURE_TLS"),
                      ({"MLFLOW_TRACKING_INSECURE_TLS": "1", **trusted}, "MLFLOW_TRACKING_INSECURE_TLS"),
                      ({"MLFLOW_TRACKING_SERVER_CERT_PATH": "/none.pem"}, "/none.pem")):
        wrong = export(**env)
        assert wrong.returncode == 2 and wrong.stderr.startswith(f"combu: {name}: "), wrong.stderr


def test_what_was_skipped_is_done_for_mlflow_too(combu, write):
    file = write(GRID.replace("SHIFT", "0").replace('image: "lab/solver",\n  metrics', 'image: "lab/solver", cache: true,\n  metrics'))
    for run in ("first", "again"):
        combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", run)
    with listening() as server:
        ok(combu("export", "mlflow", "again", "--to", f"http://127.0.0.1:{server.server_port}", "--progress", "quiet",
                 env={"MLFLOW_TRACKING_TOKEN": "a-token"}))
    states = {body["run_name"]: body["status"] for path, body in server.heard if path.endswith("runs/update")}
    assert states.pop("odd-one") == "FAILED"
    assert set(states.values()) == {"FINISHED"} and len(states) == 8
    points = [body["metrics"] for path, body in server.heard if path.endswith("runs/log-batch") and body.get("metrics")]
    assert len(points) == 2 * 8, "those of the equal ones"
