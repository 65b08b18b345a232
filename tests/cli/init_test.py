"""Tests of `combu init`: it creates a working project, and never overwrites files."""

import os
import re
import resource
import stat
import subprocess

import pytest
from conftest import COMBU, ROOT

FILES = sorted(str(path.relative_to(ROOT / "src/cli/init")) for path in (ROOT / "src/cli/init").rglob("*") if path.is_file())


def there(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_it_makes_every_file_of_the_source(combu, tmp_path):
    result = combu("init", "lab")
    assert (result.returncode, result.stderr) == (0, "")
    first, last = result.stdout.splitlines()
    assert first.startswith(f"created the experiment lab in {tmp_path}/lab: ")
    assert last == "next: cd lab && make run-experiment"
    assert len(FILES) == 8
    assert there(tmp_path / "lab") == FILES == sorted(first.split(": ")[1].split(", "))
    for file in FILES:
        text = (ROOT / "src/cli/init" / file).read_text()
        made = tmp_path / "lab" / file
        assert made.read_text() == text.replace("my-experiment", "lab")
        assert bool(made.stat().st_mode & stat.S_IXUSR) == text.startswith("#!")


def test_here_it_takes_the_folder_s_name(combu, tmp_path):
    here = tmp_path / "My Lab, v2"
    here.mkdir()
    result = combu("init", cwd=here)
    assert result.stdout.startswith(f"created the experiment my-lab-v2 in {here}: ")
    assert result.stdout.endswith("\nnext: make run-experiment\n")
    assert 'local project = "my-lab-v2";' in (here / "experiment.jsonnet").read_text()


@pytest.mark.parametrize("folder, name", [
    ("Lab", "lab"), ("a.b_c", "a-b-c"), ("--lab", "lab"), ("x" * 40, "x" * 40), ("lab/", "lab"), ("a/b/../c", "c"), ("it's", "it-s"),
    ("実験/lab", "lab"),
])
def test_names_are_what_images_may_be_called(combu, tmp_path, folder, name):
    result = combu("init", "--", folder)
    assert result.returncode == 0, result.stderr
    assert f"created the experiment {name} in " in result.stdout
    command = result.stdout.splitlines()[-1].removeprefix("next: ").replace("make run-experiment", "pwd")
    where = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert where.stdout == os.path.realpath(tmp_path / folder) + "\n"


@pytest.mark.parametrize("folder", ["ümläut", "実験", "...", "--", "lab-é", "x" * 60])
def test_where_letters_would_be_lost_a_name_is_asked_for(combu, tmp_path, folder):
    result = combu("init", "--", folder)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (f"combu: {folder}: cannot derive the experiment's name from the folder's name, which must have a letter a to z or a digit, "
                             "only ASCII characters, and at most 40 of them; use --name NAME\n")
    assert not (tmp_path / folder).exists()
    result = combu("init", "--name", "lab-2", "--", folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"created the experiment lab-2 in {tmp_path}/{folder}: ")
    assert 'local project = "lab-2";' in (tmp_path / folder / "experiment.jsonnet").read_text()


@pytest.mark.parametrize("name", ["", "Lab", "a b", "-a", "a-", "a--b", "ü", "x" * 41])
def test_a_name_must_be_what_images_may_be_called(combu, tmp_path, name):
    result = combu("init", *([f"--name={name}"] if name else ["--name", ""]), "lab")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"combu: --name \"{name}\": must be the name of an image: small letters a to z, digits, and - between them, 40 characters at most\n"
    assert not (tmp_path / "lab").exists()


def test_a_folder_without_a_name_is_refused(combu, tmp_path):
    result = combu("init", "")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "combu: init: FOLDER must not be empty; leave it out for the current folder\n"
    assert there(tmp_path) == []


@pytest.mark.parametrize("file", ["Makefile", "src/train"])
def test_nothing_is_overwritten(combu, tmp_path, file):
    lab = tmp_path / "lab"
    (lab / file).parent.mkdir(parents=True)
    (lab / file).symlink_to("nowhere")
    result = combu("init", "lab")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"combu: lab/{file}: exists already, and `init` overwrites nothing; choose another folder, or move it away\n"
    assert [path for path in lab.rglob("*") if not path.is_dir()] == [lab / file]


def test_all_that_is_in_the_way_is_named_at_once(combu, tmp_path):
    for file in ("README.md", ".gitignore", "Makefile", "experiment.jsonnet", "src"):
        (tmp_path / file).write_text("mine\n")
    result = combu("init")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == ("combu: Makefile, experiment.jsonnet, src (not a folder): exist already, and `init` overwrites nothing; "
                             "choose another folder, or move them away\n")
    assert there(tmp_path) == sorted([".gitignore", "Makefile", "README.md", "experiment.jsonnet", "src"])


def test_a_clone_s_own_files_are_left_alone(combu, tmp_path):
    theirs = {"README.md": "mine", ".gitignore": "*.o\n", ".dockerignore": ".git\n", "LICENSE": "free"}
    lab = tmp_path / "lab"
    lab.mkdir()
    for file, text in theirs.items():
        (lab / file).write_text(text)
    result = combu("init", "lab")
    assert (result.returncode, result.stderr) == (0, "")
    made, left, then = result.stdout.splitlines()
    assert left == "kept: .dockerignore, .gitignore (add /results/ to it), README.md"
    assert then == "next: cd lab && make run-experiment"
    assert sorted(made.split(": ")[1].split(", ")) == sorted(set(FILES) - set(theirs))
    assert there(lab) == sorted({*FILES, *theirs})
    assert {file: (lab / file).read_text() for file in theirs} == theirs


@pytest.mark.parametrize("line, hint", [("results", ""), ("/results/", ""), ("results.txt", " (add /results/ to it)")])
def test_a_gitignore_that_has_results_needs_no_line_more(combu, tmp_path, line, hint):
    (tmp_path / ".gitignore").write_text(f"*.o\n{line}\n")
    assert combu("init", "--name", "lab").stdout.splitlines()[1] == f"kept: .gitignore{hint}"


@pytest.mark.parametrize("target", ["elsewhere", "nowhere", None])
def test_nothing_is_made_through_a_link_or_below_a_file(combu, tmp_path, target):
    (tmp_path / "elsewhere").mkdir()
    lab = tmp_path / "lab"
    lab.mkdir()
    if target:
        (lab / "src").symlink_to(tmp_path / target)
    else:
        (lab / "src").write_text("mine")
    result = combu("init", "lab")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "combu: lab/src (not a folder): exists already, and `init` overwrites nothing; choose another folder, or move it away\n"
    assert list(lab.iterdir()) == [lab / "src"] and not list((tmp_path / "elsewhere").iterdir())


def test_what_was_made_goes_when_the_rest_cannot_be(combu, tmp_path):
    sizes = [(ROOT / "src/cli/init" / file).stat().st_size for file in FILES]
    assert sizes[0] < max(sizes) - 100, "the first file is made, a later one is cut off"

    def no_large_file():
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(sizes) - 100, max(sizes) - 100))

    (tmp_path / "mine").mkdir()
    result = combu("init", "mine/deep/lab", preexec_fn=no_large_file)
    assert result.returncode == 1
    assert re.fullmatch(r"combu: mine/deep/lab/\S+: cannot be written: File too large\n", result.stderr)
    assert not list((tmp_path / "mine").iterdir())


def test_a_second_one_is_refused(combu, tmp_path):
    assert combu("init", "lab").returncode == 0
    (tmp_path / "lab/src/train").write_text("mine")
    result = combu("init", "lab")
    assert result.returncode == 2
    assert result.stderr.startswith("combu: lab/Makefile, lab/Dockerfile, lab/experiment.jsonnet, lab/src/train, lab/src/choose: exist already")
    assert (tmp_path / "lab/src/train").read_text() == "mine"


def test_what_cannot_be_made_is_told(combu, tmp_path):
    (tmp_path / "file").write_text("")
    result = combu("init", "file")
    assert (result.returncode, result.stderr) == (2, "combu: file: must be a folder, or must not exist\n")
    result = combu("init", "file/lab")
    assert result.returncode == 1
    assert re.fullmatch(r"combu: file/lab.*: cannot be created: Not a directory\n", result.stderr)


def test_its_plan_and_its_make_targets(combu, tmp_path):
    combu("init", "lab")
    lab = tmp_path / "lab"
    plan = combu("-f", "lab/experiment.jsonnet", "plan")
    assert (plan.returncode, plan.stderr) == (0, "")
    assert plan.stdout.startswith("10 trials in 2 waves, 9 dependencies, 1 image, 0 networks\n")
    assert "lab-lr0.01-seed[1-3]" in plan.stdout and "lab-best" in plan.stdout

    def dry(*targets):
        return subprocess.run(["make", "-n", *targets], cwd=lab, capture_output=True, text=True, check=True).stdout

    run = dry("run-experiment", "BASE=debian:12")
    assert "docker build -t lab --build-arg BASE=debian:12 .;" in run
    assert run.endswith("combu -f experiment.jsonnet run --wait\n")
    assert "rm -rf results" in dry("clean") and "kill" in dry("clean")
    targets = re.search(r"^\.PHONY: (.*)$", (lab / "Makefile").read_text(), re.M)[1].split()
    assert {"image", "plan", "run-experiment", "results", "kill", "clean"} <= set(targets)
    for target in targets:
        dry(target)
    shown = subprocess.run(["make", "-s", "plan", f"COMBU={COMBU}"], cwd=lab, capture_output=True, text=True, check=True)
    assert shown.stdout == plan.stdout
    told = subprocess.run(["make", "-s"], cwd=lab, capture_output=True, text=True, check=True).stdout
    assert {"run-experiment", "plan", "results", "kill", "clean"} == {line.split()[1] for line in told.splitlines()} <= set(targets)


def test_its_programs_do_what_the_file_says(tmp_path):
    """Runs the programs with the shell and awk of this machine instead of those in the image."""
    train = (ROOT / "src/cli/init/src/train").read_text().replace("/out", str(tmp_path / "models/a"))
    done = subprocess.run(["sh", "-c", train], env={"PATH": os.environ["PATH"], "COMBU_PARAM_LR": "0.5", "COMBU_PARAM_SEED": "1"},
                          capture_output=True, text=True, check=True)
    losses = [float(loss) for loss in re.findall(r'^\{"step": \d+, "loss": ([\d.]+)\}$', done.stdout, re.M)]
    assert len(losses) == 21 and losses[-1] < 0.01 < losses[0]
    (tmp_path / "models/b").mkdir()
    (tmp_path / "models/b/model").write_text("9.5 1 1\n")
    flat = tmp_path / "flat"  # the input folder has a file for each trial, with the trial's name
    flat.mkdir()
    for name in "ab":
        (flat / name).write_text((tmp_path / "models" / name / "model").read_text())
    choose = (ROOT / "src/cli/init/src/choose").read_text().replace("/out", str(tmp_path / "out")).replace("/models", str(flat))
    done = subprocess.run(["sh", "-c", choose], capture_output=True, text=True, check=True)
    assert re.fullmatch(r'\{"model": "a", "loss": 0\.\d+, "slope": 2\.\d+|\{"model": "a", "loss": 0\.\d+, "slope": 1\.9\d+', done.stdout.split(', "base"')[0])
    assert (tmp_path / "out/best").read_text().startswith("a ")
