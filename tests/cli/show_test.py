"""Tests of `show`: the details of a trial, and the commands that reproduce it."""

import json
import os
import pathlib
import re
import subprocess

import pytest

from conftest import COMBU, SIMULATED

FILE = """
local uuid = "UUID";
{ defaults: { image: "lab/learn" },
  trials: [
    { name: "prepare", cmd: "true" },
    { name: "learn-1", cmd: "sh -c 'echo 1 > /out; echo UUID=%s; echo two words'" % uuid, params: { lr: 0.1, fold: 3 },
      env: { SEED: "a b" }, cpus: 1.5, outputs: ["/out"], depends: [{ trial: "prepare", condition: "succeeded" }] },
  ] }
"""


@pytest.fixture
def repository(git, write, tmp_path):
    """An experiment file under version control. The record is not under version control."""
    git("init", "-q")
    (tmp_path / ".gitignore").write_text(".local\n.cache\nresults\n")
    (tmp_path / "code.py").write_text("one\n")
    (tmp_path / ".env").write_text("TOKEN=old\n")
    file = write(FILE)
    git("add", "-A")
    git("commit", "-qm", "one")
    return file


def run(combu, file, *arguments):
    done = combu("-f", file, "--engine", SIMULATED, "--progress", "plain", *arguments)
    assert done.returncode == 0, done.stderr
    return done


def page(text):
    lines = {}
    for line in text.splitlines():
        lines.setdefault(line[:11].strip(), line[11:])
    return lines


GRID = """
[{ name: "fit-%d" % i, image: "lab/learn", cmd: "true", params: { lr: i } } for i in [2, 1]] + [{ name: "last", image: "lab/learn", cmd: "true" }]
"""


def test_several_trials_are_shown_in_the_experiments_order(combu, write):
    file = write(GRID)
    run(combu, file, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    pages = combu("-f", file, "show", "fit-1", "fit-*").stdout.split("\n\n")
    assert [page(text)["trial"] for text in pages] == ["fit-2", "fit-1"]
    assert page(pages[0])["params"] == "lr=2"
    objects = [json.loads(line) for line in combu("-f", file, "show", "--json", "last", "fit-*").stdout.splitlines()]
    assert [one["trial"] for one in objects] == ["fit-2", "fit-1", "last"]
    assert combu("-f", file, "show", "--evaluated", "fit-*").stdout == combu("-f", file, "show", "--evaluated", "last").stdout
    assert combu("-f", file, "show", "--reproduce", "fit-*").stdout.splitlines()[-1] == (
        "combu show --evaluated --run aaaaaaaaaaaa fit-2 fit-1 | "
        f"combu --engine '{SIMULATED}' -f - run --only fit-2 --only fit-1 --no-cache --wait")


def test_a_pattern_that_matches_no_trial_is_named_behind_the_pages(combu, write):
    file = write(GRID)
    run(combu, file, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    some = combu("-f", file, "show", "last", "no-*", "nosuch")
    assert (some.returncode, some.stderr) == (1, "combu: no-*, nosuch: are not trials of run aaaaaaaaaaaa\n")
    assert page(some.stdout)["trial"] == "last"


def test_trials_of_several_versions_of_the_file_have_no_one_text(combu, write):
    file = write(GRID)
    run(combu, file, "run", "--wait")
    write(GRID + "+ [{ name: 'new', image: 'lab/learn', cmd: 'true' }]")
    run(combu, file, "apply")
    for form in ("--evaluated", "--reproduce"):
        refused = combu("-f", file, "show", form, "fit-1", "new")
        assert (refused.returncode, refused.stderr) == (
            2, "combu: TRIAL: the trials must be of one version of the file: fit-1 is of version 1, and new of version 2\n")
        assert combu("-f", file, "show", form, "new").returncode == 0


def test_a_newline_in_the_path_of_the_file_adds_no_code(combu, write, tmp_path):
    file = write(GRID, "folder\n{ trials: [] } +/experiment.jsonnet")
    run(combu, file, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    title, local, *_ = combu("show", "--evaluated", "--run", "aaaaaaaaaaaa").stdout.splitlines()
    assert title == f"// Run aaaaaaaaaaaa of {file}, as it was evaluated.".replace("\n", " ")
    assert local == 'local run = std.extVar("combu.run");'


def test_a_page_has_all(combu, repository, tmp_path):
    run(combu, repository, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    shown = page(combu("-f", repository, "show", "learn-1").stdout)
    assert shown["state"] == "succeeded"
    assert shown["params"] == "fold=3 lr=0.1"
    assert shown["command"] == "sh -c 'echo 1 > /out; echo UUID=aaaaaaaaaaaa; echo two words'"
    assert shown["env"] == "SEED='a b'"
    assert (shown["image"], shown["digest"]) == ("lab/learn", "simulated:lab/learn")
    assert shown["slots"] == "1.5 CPUs"
    assert "exit code 0" in shown["attempt 1"]
    assert shown["outputs"] == str(tmp_path / "results/experiment/aaaaaaaaaaaa/learn-1")
    assert len(shown["commit"]) == 40
    assert shown["file"] == str(repository)
    assert shown["host"] == os.uname().nodename
    assert shown["engine"].endswith(SIMULATED)
    evaluator = combu("version", "--verbose").stdout.split("evaluator: ")[1].strip()
    assert shown["program"].endswith(f" ({evaluator})")


def test_as_json(combu, repository):
    run(combu, repository, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    shown = json.loads(combu("-f", repository, "show", "learn-1", "--json").stdout)
    assert shown["params"] == {"lr": 0.1, "fold": 3}
    assert (shown["run"], shown["state"], shown["attempts"][0]["exit_code"]) == ("aaaaaaaaaaaa", "succeeded", 0)
    assert shown["dirty"] is False and shown["diff"] is None


def test_what_is_not_committed_is_on_record_but_no_secrets(combu, repository, tmp_path):
    (tmp_path / "code.py").write_text("two\n")
    (tmp_path / ".env").write_text("TOKEN=hunter2\n")
    (tmp_path / "own.settings").write_text("PASSWORD=hunter3\n")
    (tmp_path / "new.py").write_text("new\n")
    run(combu, repository, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    diff = combu("-f", repository, "show", "--diff").stdout
    assert "-one\n+two\n" in diff and "hunter" not in diff
    shown = json.loads(combu("-f", repository, "show", "prepare", "--json").stdout)
    assert shown["left_out"] == [".env"]
    assert sorted(shown["untracked"]) == ["new.py", "own.settings"]
    assert " lines of diff (`combu show --diff --run aaaaaaaaaaaa`), 2 files untracked" in \
        page(combu("-f", repository, "show", "prepare").stdout)["commit"]


def test_the_env_files_of_the_experiment_are_no_part_of_the_diff(combu, git, write, tmp_path):
    git("init", "-q")
    (tmp_path / "own.settings").write_text("PASSWORD=old\n")
    file = write('[{ name: "aa", image: "x", cmd: "true", env_file: "own.settings" }]')
    git("add", "own.settings", file.name)
    git("commit", "-qm", "one")
    (tmp_path / "own.settings").write_text("PASSWORD=hunter2\n")
    run(combu, file, "run", "--wait")
    shown = combu("-f", file, "show", "aa", "--json")
    assert json.loads(shown.stdout)["diff"] is None
    assert json.loads(shown.stdout)["left_out"] == ["own.settings"]


def test_a_diff_that_is_too_long_is_cut_and_that_is_said(combu, repository, tmp_path):
    (tmp_path / "code.py").write_text("".join(f"{i} is a line\n" for i in range(100_000)))
    run(combu, repository, "run", "--wait")
    assert len(combu("-f", repository, "show", "--diff").stdout) == 1 << 20
    assert "more than" in page(combu("-f", repository, "show", "prepare").stdout)["commit"]
    assert "# the recorded diff of the working tree is incomplete" in combu("-f", repository, "show", "--reproduce", "prepare").stdout


def paste(text, tmp_path):
    """Executes `text` in a shell with this combu as `combu`."""
    folder = tmp_path / ".cache" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "combu").exists():
        (folder / "combu").symlink_to(COMBU)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    return subprocess.run(["bash", "-c", "set -e\n" + text], env=env, cwd="/", capture_output=True, text=True, timeout=60, check=False)


def reproduce(combu, file, tmp_path):
    text = combu("-f", file, "show", "--reproduce", "learn-1").stdout
    done = paste(text, tmp_path)
    assert done.returncode == 0, text + done.stdout + done.stderr
    return text, done


def test_what_reproduce_prints_runs_it_again(combu, repository, tmp_path):
    run(combu, repository, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    text, done = reproduce(combu, repository, tmp_path)
    assert "git" not in text
    assert "2 succeeded" in done.stderr, done.stderr
    again = re.search(r"run (\w{12}) has ended", done.stderr)[1]
    assert again != "aaaaaaaaaaaa"
    shown = json.loads(combu("show", "--run", again, "learn-1", "--json").stdout)
    assert f"UUID={again}" in shown["cmd"][2]
    assert (shown["params"], shown["env"]["SEED"], shown["experiment"]) == ({"lr": 0.1, "fold": 3}, "a b", str(repository))


def test_reproduce_finds_trials_whose_names_have_the_id(combu, write, tmp_path):
    file = write("""
local uuid = "UUID";
local name(i) = "learn-%s-%d" % [uuid, i];
[{ name: name(1), image: "x", cmd: "true", labels: { ["of-" + uuid]: "x" } },
 { name: name(2), image: "x", cmd: "echo " + uuid, depends: [{ trial: name(1), condition: "succeeded" }] },
 { name: name(3), image: "x", cmd: "true" }]
""")
    run(combu, file, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    text = combu("-f", file, "show", "--reproduce", "learn-aaaaaaaaaaaa-2").stdout
    assert "--only learn-UUID-2 " in text
    for _ in range(2):
        done = paste(text, tmp_path)
        again = re.search(r"run (\w{12}) has ended: 2 succeeded", done.stderr)[1]
        shown = json.loads(combu("show", "--run", again, f"learn-{again}-2", "--json").stdout)
        assert shown["cmd"] == ["echo", again]
    assert '["of-" + run + ""]: "x"' in combu("-f", file, "show", "--evaluated", "--run", "aaaaaaaaaaaa").stdout


def test_a_run_id_that_a_person_gave_is_a_word(combu, write, tmp_path):
    file = write("""
local uuid = "UUID";
[{ name: "odd-" + uuid, image: "x", cmd: ["echo", "none", "/data/" + uuid + "/one2", "all-in-one"] }]
""")
    run(combu, file, "run", "--wait", "--run-id", "one")
    text = combu("-f", file, "show", "--reproduce", "odd-one").stdout
    assert text.startswith("# ") and "# each word `one` is treated as the run's id\n" in text
    done = paste(text, tmp_path)
    again = re.search(r"run (\w{12}) has ended: 1 succeeded", done.stderr)[1]
    shown = json.loads(combu("show", "--run", again, f"odd-{again}", "--json").stdout)
    assert shown["cmd"][1:] == ["none", f"/data/{again}/one2", f"all-in-{again}"]


def test_a_file_that_does_not_ask_for_the_id_is_as_it_was(combu, write, tmp_path):
    file = write('[{ name: "odd-one", image: "x", cmd: ["echo", "one"] }]')
    run(combu, file, "run", "--wait", "--run-id", "one")
    text = combu("-f", file, "show", "--reproduce", "odd-one").stdout
    assert "each word" not in text
    done = paste(text, tmp_path)
    again = re.search(r"run (\w{12}) has ended: 1 succeeded", done.stderr)[1]
    assert json.loads(combu("show", "--run", again, "odd-one", "--json").stdout)["cmd"] == ["echo", "one"]


def test_reproduce_puts_the_working_tree_as_it_was(combu, repository, git, tmp_path):
    """In the meantime there is a new commit, and the uncommitted changes are lost."""
    (tmp_path / "code.py").write_text("two\n")
    run(combu, repository, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    repository.write_text("[]")
    (tmp_path / "code.py").write_text("three\n")
    git("commit", "-qam", "two")
    text, done = reproduce(combu, repository, tmp_path)
    assert "2 succeeded" in done.stderr
    assert (tmp_path / "code.py").read_text() == "two\n"
    assert repository.read_text() == FILE


def test_reproduce_touches_no_work_that_is_not_committed(combu, repository, git, tmp_path):
    run(combu, repository, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    (tmp_path / "code.py").write_text("precious\n")
    done = paste(combu("-f", repository, "show", "--reproduce", "learn-1").stdout, tmp_path)
    assert done.returncode != 0 and "code.py" in done.stdout
    assert (tmp_path / "code.py").read_text() == "precious\n"


def test_the_source_is_as_it_was(combu, repository):
    run(combu, repository, "run", "--wait")
    repository.write_text("[]")
    assert combu("-f", repository, "show", "--source").stdout == FILE


def test_outputs_are_named_where_they_are(combu, write, tmp_path):
    file = write('''{ collect: { every: "1h", on: "success" }, trials: [
      { name: "good", image: "lab/x", cmd: "true", outputs: { path: "/out", required: false } },
      { name: "bad", image: "lab/x", cmd: "false", outputs: { path: "/out" } },
      { name: "blocked", image: "lab/x", depends: ["bad"], outputs: { path: "/out" } }] }''')
    combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "one")

    def outputs():
        told = {name: json.loads(combu("show", "--run", "one", name, "--json").stdout) for name in ("good", "bad", "blocked")}
        return {name: (one["outputs"], one["outputs_so_far"]) for name, one in told.items()}

    place = f"{tmp_path}/results/experiment/one"
    assert outputs() == {"good": (f"{place}/good", None), "bad": (None, None), "blocked": (None, None)}
    saved = pathlib.Path(f"{place}/bad@so-far")
    saved.mkdir()
    (saved / "manifest.sha256").touch()
    (tmp_path / f"{place}/good/manifest.sha256").unlink()
    assert outputs() == {"good": (None, None), "bad": (None, str(saved)), "blocked": (None, None)}
    assert f"so far     {saved}" in combu("show", "--run", "one", "bad").stdout


def test_mistakes(combu, repository):
    assert "the record has no run of this file" in combu("-f", repository, "show", "aa").stderr
    run(combu, repository, "run", "--wait")
    assert "did you mean `learn-1`?" in combu("-f", repository, "show", "learn-2").stderr
    nameless = combu("-f", repository, "show")
    assert nameless.returncode == 2 and "no trial is named" in nameless.stderr
    assert combu("-f", repository, "show", "--json", "--diff", "learn-1").returncode == 2
