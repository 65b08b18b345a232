"""Runs the examples as their README files describe."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from engines import wait_until


@pytest.fixture
def example(combu, tmp_path):
    """A function: example(name) copies the example's folder, and returns a Combu whose file is the copy's experiment."""

    def open_example(name):
        folder = tmp_path / name
        shutil.copytree(ROOT / "examples" / name, folder, ignore=shutil.ignore_patterns("results"))
        shutil.copytree(ROOT / "examples/image", tmp_path / "image")
        combu.file = folder / "experiment.jsonnet"
        return combu

    return open_example


def make(combu, program, *targets):
    """Runs make in the example's folder and returns its output."""
    done = subprocess.run(
        ["make", "-s", *targets, f"COMBU={program}"],
        cwd=combu.file.parent,
        env=combu.env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "reported no metric" not in done.stderr
    return done.stdout


def test_quickstart(example, engine):
    combu = example("quickstart")
    combu("run", "--wait")
    reports = combu("logs", "board").stdout.splitlines()
    assert sorted(line.split(",")[0] for line in reports) == [f"seed={seed}" for seed in range(1, 5)]
    assert {row["state"] for row in combu.ps().values()} <= {"succeeded", "stopped"}
    combu("kill")
    assert engine.names() == set() and engine.networks() == {}


@pytest.mark.slow
def test_solver_by_its_makefile(example, engine, program):
    combu = example("solver")

    make(combu, program, "run-experiment")
    assert len(engine.names()) == 11
    assert "solver-b-5" in make(combu, program, "show-experiment")
    wait_until(lambda: engine.running() == {"loader"}, "the solvers' end", seconds=120)
    for name in engine.names() - {"loader"}:
        assert json.loads(combu("logs", name).stdout)["error"] < 1e-3
    make(combu, program, "kill-experiment")
    assert engine.names() == set()


@pytest.mark.slow
@pytest.mark.engine_version
def test_cross_validation_by_its_makefile(example, engine, program):
    combu = example("cross-validation")
    assert engine.ask("DELETE", "/images/combu-demo:latest?force=1")[0] == 200
    table = [line.split() for line in make(combu, program).splitlines()]
    report = json.loads(combu("logs", "ensemble").stdout)
    assert report["models"] == 5 and report["loss"] < 0.02
    (left,) = (combu.file.parent / "results/cross-validation").glob("*/ensemble/report")
    assert json.loads(left.read_text()) == report
    steps = [json.loads(line) for line in combu("logs", "fold-3").stdout.splitlines()]
    assert [step["step"] for step in steps] == list(range(0, 201, 10))
    assert steps[-1]["loss"] < 0.02 < steps[0]["loss"]
    losses = {row[0]: float(row[1]) for row in table if row and row[0].startswith(("fold-", "ensemble"))}
    assert set(losses) == {f"fold-{i}" for i in range(5)} | {"ensemble"}
    assert losses["fold-3"] == pytest.approx(steps[-1]["loss"], rel=1e-3)
    image = engine.get("/images/combu-demo/json")["Id"]
    make(combu, program, "image")
    assert engine.get("/images/combu-demo/json")["Id"] == image, "it is made where it is missing"
    picture = (combu.file.parent / "loss.svg").read_text()
    assert all(f"fold-{i}" in picture for i in range(5)) and "ensemble" not in picture
    make(combu, program, "kill-experiment")
    assert engine.names() == set()


def test_grid(example, engine):
    combu = example("grid")
    combu("run", "--wait")
    results = [json.loads(combu("logs", name).stdout) for name in engine.names()]
    assert len(results) == 14
    grid = {(result["lr"], result["momentum"]) for result in results}
    assert {(lr, momentum) for lr in (0.001, 0.01, 0.05) for momentum in (0, 0.5, 0.9)} <= grid


def test_short_by_its_makefile(example, engine, program):
    combu = example("short")
    make(combu, program, "SEEDS=30")
    rows = [json.loads(line) for line in combu("results", "--json").stdout.splitlines()]
    errors = {method: [row["metrics"]["error"]["last"] for row in rows if row["trial"].startswith(method)] for method in ("plain", "stratified")}
    assert {method: len(values) for method, values in errors.items()} == {"plain": 30, "stratified": 30}
    assert sum(errors["stratified"]) < sum(errors["plain"])
    picture = (combu.file.parent / "error.svg").read_text()
    assert "plain" in picture and "stratified" in picture
    make(combu, program, "kill-experiment")
    assert engine.names() == set()


@pytest.mark.engine_version
def test_the_experiment_that_init_makes_runs_with_its_makefile(combu, engine, program, tmp_path):
    combu.file = tmp_path / "lab/experiment.jsonnet"
    subprocess.run([program, "init", tmp_path / "lab"], check=True, capture_output=True)
    # The Makefile needs a docker client to build the image.
    path = combu.env["PATH"].split(":")
    client = next((folder for folder in path if (Path(folder) / "docker").exists()), None)
    assert client, "scripts/setup --tests installs a docker client"

    printed = make(combu, program, "run-experiment", "BASE=combu-test:latest")
    assert "10 succeeded" in printed or {row["state"] for row in combu.ps().values()} == {"succeeded"}
    table = [line.split() for line in make(combu, program, "results").splitlines()]
    losses = {row[0]: float(row[3]) for row in table if row and row[0].startswith("lab-lr")}
    assert len(losses) == 9 and losses["lab-lr0.5-seed1"] < losses["lab-lr0.01-seed1"]
    (best,) = (tmp_path / "lab/results/lab").glob("*/lab-best/out/best")
    assert best.read_text().split()[0] in losses
    make(combu, program, "kill")
    assert engine.names() == set()
    make(combu, program, "clean")
    assert not (tmp_path / "lab/results").exists()
    assert engine.ask("GET", "/images/lab/json")[0] == 404


@pytest.mark.slow
def test_quickstart_with_a_release(combu, engine, program, tmp_path):
    """scripts/quickstart uses the release without a build, and refuses a release with a wrong checksum."""
    release = tmp_path / "combu-0.0.0-linux-x86_64"
    release.mkdir()
    shutil.copy(program, release / "combu")
    tarball = tmp_path / "combu-0.0.0-linux-x86_64.tar.gz"
    subprocess.run(["tar", "-C", tmp_path, "-czf", tarball, release.name], check=True)
    sums = subprocess.run(["sha256sum", tarball.name], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    (tmp_path / "SHA256SUMS").write_text(sums)

    def quickstart(*options):
        return subprocess.run([ROOT / "scripts/quickstart", *options], env=combu.env, capture_output=True, text=True, timeout=300, check=False)

    done = quickstart("--binary", tarball)
    assert done.returncode == 0, done.stdout + done.stderr
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    assert f"quickstart: using {version} of {tarball}\n" in done.stdout
    assert "building" not in done.stdout and done.stdout.endswith("README.md says how to go on\n")
    assert engine.names() == set()
    (tmp_path / "SHA256SUMS").write_text("0" * 64 + sums[64:])
    done = quickstart(f"--binary={tarball}")
    assert done.returncode == 1 and done.stderr.endswith(f"quickstart: {tarball} does not have the checksum that {tmp_path}/SHA256SUMS has for it\n")
    done = quickstart("--binary", tmp_path / "nowhere")
    assert (done.returncode, done.stderr) == (1, f"quickstart: there is no file {tmp_path}/nowhere\n")
    assert quickstart("--binary").returncode == quickstart("--build", "--binary", tarball).returncode == 2
