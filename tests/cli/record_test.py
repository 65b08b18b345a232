"""Tests of the record, and of the commands that remove runs from it."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess

import pytest
from conftest import COMBU, FAILING, SIMULATED, SLOW, run


def test_a_run_is_on_record(combu, failing, record, tmp_path):
    assert run(combu, failing, "run", "--wait", "--run-id", "mine").returncode == 1
    [row] = record("SELECT id, file, source, machine, program, address, ended_at > began_at, json_extract(arguments, '$[1]') "
                   "FROM runs JOIN texts ON run = number")
    assert row[:3] == ("mine", str(failing), FAILING)
    version, evaluator = combu("version", "--verbose").stdout.replace("evaluator: ", "").splitlines()
    assert row[3] and row[4] == f"{version} ({evaluator})"
    assert row[5:] == (SIMULATED, 1, "-f")
    assert record("SELECT name, state, exit_code, cause FROM states ORDER BY trial") == [
        ("good", "succeeded", 0, "none"), ("bad", "failed", 3, "error"), ("after", "blocked", None, "none"),
        ("last", "blocked", None, "none")]
    [evaluated] = record("SELECT evaluated FROM texts")
    assert [trial["name"] for trial in json.loads(evaluated[0])] == ["good", "bad", "after", "last"]


def test_the_commit_of_the_files_folder_is_on_record(combu, failing, record, git):
    git("init", "-q")
    git("add", failing.name)
    git("commit", "-qm", "one")
    run(combu, failing, "run", "--wait")
    assert record("SELECT revision, revision_dirty FROM runs") == [(git("rev-parse", "HEAD").strip(), 0)]
    failing.write_text(FAILING + "\n")
    run(combu, failing, "run", "--wait")
    assert record("SELECT revision_dirty FROM runs ORDER BY number") == [(0,), (1,)]


def test_what_is_over_is_not_gone_on_with(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    again = run(combu, failing, "run", "--resume")
    assert (again.returncode, again.stderr) == (1, "run mine has ended: 1 succeeded, 1 failed, 2 blocked\n")


def test_no_run_to_go_on_with(combu, failing):
    nothing = run(combu, failing, "run", "--resume")
    assert (nothing.returncode, nothing.stderr) == (1, f"combu: {failing}: the record has no run of this file\n")
    other = run(combu, failing, "run", "--resume", "other")
    assert other.returncode == 1
    assert other.stderr.startswith("combu: run other: is not in the record ")
    without = combu("run", "--resume")
    assert (without.returncode, without.stderr) == (1, "combu: experiment.jsonnet: the record has no run of this file\n")


def test_a_runs_id_is_used_once(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    again = run(combu, failing, "run", "--wait", "--run-id", "mine")
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1] == (
        "combu: run mine: is in the record already; choose another --run-id, or continue the run with `combu run --resume`")


def test_events_tell_what_happened(combu, failing):
    run(combu, failing, "run", "--wait")
    events = [json.loads(line) for line in combu("-f", failing, "events", "--json").stdout.splitlines()]
    times = [event["time"] for event in events]
    assert times == sorted(times)
    of_bad = [(event["state"], event.get("exit_code"), event.get("cause")) for event in events if event["trial"] == "bad"]
    assert of_bad == [("ready", None, None), ("starting", None, None), ("running", None, None), ("ended", 3, "error"),
                      ("failed", None, None)]
    text = combu("-f", failing, "events", "after").stdout
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} after blocked: "
                        r"depends on `bad`, which did not succeed\n", text)
    nothing = combu("-f", failing, "events", "nobody")
    assert nothing.returncode == 1


def test_a_kill_elsewhere_leaves_a_run_alone(combu, failing, record):
    run(combu, failing, "run", "--run-id", "mine")
    before = record("SELECT name, state FROM states ORDER BY trial")
    combu("-f", failing, "--engine", SIMULATED + "&seed=2", "kill")
    assert record("SELECT name, state FROM states ORDER BY trial") == before


def test_rm_forgets_runs_that_are_over(combu, failing, record):
    for run_id in ("first", "second", "third"):
        run(combu, failing, "run", "--wait", "--run-id", run_id)
    assert combu("rm", "first", "third").stderr == "removed 2 runs from the record\n"
    assert record("SELECT id FROM runs") == [("second",)]
    assert record("SELECT count(*) FROM trials") == [(4,)]
    assert record("SELECT count(*) FROM attempts") == [(2,)]
    unknown = combu("rm", "second", "first")
    assert unknown.returncode == 1 and "run first: is not in the record" in unknown.stderr
    assert record("SELECT id FROM runs") == [("second",)]
    assert combu("rm", "second").returncode == 0
    assert record("SELECT count(*) FROM experiments") == [(0,)]


def test_rm_keeps_what_is_not_over(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "left")
    # Makes the run look interrupted before its last start.
    assert record("UPDATE trials SET over = NULL, over_at = NULL, reason = NULL WHERE name = 'last' RETURNING name") == [("last",)]
    assert record("UPDATE runs SET ended_at = NULL RETURNING id") == [("left",)]
    refused = combu("rm", "left")
    assert refused.returncode == 1
    assert refused.stderr.startswith("combu: run left: cannot be removed: it has not ended; `combu kill --experiment ")
    assert combu("prune", "--before", "0s").stderr == "removed 0 runs from the record\n"
    assert record("SELECT id FROM runs") == [("left",)]


def test_prune_forgets_what_was_over_long_ago(combu, failing, write, record):
    other = write(FAILING, "other.jsonnet")
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    run(combu, other, "run", "--wait", "--run-id", "other")
    assert combu("prune").stderr == "removed 0 runs from the record\n"
    assert combu("-f", failing, "prune", "--before", "0s").stderr == "removed 1 run from the record\n"
    assert record("SELECT id FROM runs") == [("other",)]
    wrong = combu("prune", "--before", "soon")
    assert wrong.returncode == 2 and "soon" in wrong.stderr


def test_relative_paths_are_those_of_the_file_as_it_was_named(combu, write, tmp_path):
    write('[{ name: "bad", image: "lab/x", cmd: "sh -c \'exit 3\'", env_file: "e.env" }]', "real/real.jsonnet")
    (tmp_path / "e.env").write_text("A=1\n")
    link = tmp_path / "link.jsonnet"
    link.symlink_to("real/real.jsonnet")
    assert run(combu, link, "run", "--wait").returncode == 1
    assert "1 trial is retried" in run(combu, link, "retry", "--wait").stderr


@pytest.mark.parametrize("damage, words", [
    (lambda path: path.write_bytes(b"x" * 8192), "is damaged"),
    (lambda path: sqlite3.connect(path).execute("PRAGMA user_version = 99").connection.close(), "newer combu"),
    (lambda path: sqlite3.connect(path).execute("ALTER TABLE texts RENAME TO taken").connection.close(), "is damaged"),
    (lambda path: (path.unlink(), path.mkdir()), "must be a regular file"),
])
def test_a_record_that_cannot_be_used_keeps_a_run_from_beginning(combu, ladder, tmp_path, damage, words):
    assert run(combu, ladder, "run", "--wait").returncode == 0
    path = tmp_path / ".local/state/combu/record.sqlite"
    damage(path)
    refused = run(combu, ladder, "run", "--wait")
    assert refused.returncode in (1, 2)
    assert refused.stderr.startswith(f"combu: {path}: ") and words in refused.stderr
    assert "COMBU_HOME" in refused.stderr


def test_a_wait_for_another_writer_is_told(combu, failing, tmp_path):
    assert run(combu, failing, "run", "--wait").returncode == 1
    path = tmp_path / ".local/state/combu/record.sqlite"
    waiting = [COMBU, "-f", failing, "--engine", SIMULATED, "--progress", "plain", "run", "--wait"]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        process = subprocess.Popen(waiting, env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            assert any("another process is writing to the record; combu waits" in line for line in process.stderr)
            database.execute("COMMIT")
            process.communicate(timeout=60)
            assert process.returncode == 1
        finally:
            process.kill()


def test_who_begins_anew_is_told_of_the_run_that_is_interrupted(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record("UPDATE trials SET over = NULL, over_at = NULL, reason = NULL WHERE trial NOT IN (SELECT trial FROM attempts) RETURNING 1")
    record("UPDATE runs SET ended_at = NULL RETURNING 1")
    told = run(combu, failing, "run", "--wait").stderr
    assert re.search("run mine is interrupted: `combu .*run --resume mine` resumes that run; this command starts a new run", told)
    assert "is interrupted" not in run(combu, failing, "run", "--wait").stderr


@pytest.mark.parametrize("fields, options", [("", ["--wait"]), ("retries: 1", []), ("timeout: '1h'", [])])
def test_a_run_that_somebody_has_to_stay_for_is_interrupted(combu, write, begun, record, tmp_path, fields, options):
    file = write('[{ name: "one", image: "lab/x", cmd: "sleep 600", %s }]' % fields)
    process = begun(file, "--run-id", "mine", *options, running=["one"])
    process.kill()
    process.wait()
    record(f"UPDATE runs SET is_simulated = 0, address = 'unix://{tmp_path}/no.sock'")
    assert combu("-f", file, "ps").stdout.splitlines()[0].endswith(", interrupted: 1 running")
    assert combu("-f", file, "why", "one").stdout.endswith(
        "; no process owns the run: `combu run --resume mine` resumes it\n")


def test_a_run_that_nobody_has_to_stay_for_is_left_running(combu, write, record, tmp_path):
    file = write("""
    [{ name: "one", image: "lab/x", cmd: "sleep 600" }, { name: "two", image: "lab/x", cmd: "true", retries: 1 }]
    """)
    assert combu("-f", file, "--engine", SLOW, "run").returncode == 0
    record(f"UPDATE runs SET is_simulated = 0, address = 'unix://{tmp_path}/no.sock'")
    assert combu("-f", file, "ps").stdout.splitlines()[0].endswith(", left running: 1 running, 1 succeeded")
    assert "no process owns" not in combu("-f", file, "why", "one").stdout


@pytest.mark.parametrize("arguments", [["prune", "--before", "30"], ["logs", "--since", "30", "a"]])
def test_a_moment_has_a_unit(combu, failing, arguments):
    refused = combu("-f", failing, "--engine", SIMULATED, *arguments)
    assert (refused.returncode, refused.stderr) == (
        2, f"combu: {arguments[1]}: 30 needs a unit: 30d, 30h, 30m or 30s\n")


def test_what_does_not_exist_is_told(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    for arguments, words in [(["--run", "nosuch"], "combu: run nosuch: no matching run is on record, and no matching container is on this engine"),
                             (["--experiment", "nosuch"], "combu: nosuch: no matching run is on record, and no matching container is on this engine")]:
        nothing = combu("--engine", SIMULATED, "ps", *arguments)
        assert nothing.returncode == 1 and nothing.stderr.startswith(words)
    some = combu("-f", failing, "ps", "good", "nosuch", "neither-*")
    assert (some.returncode, some.stderr) == (1, "combu: nosuch, neither-*: are not trials of run mine\n")
    assert "good " in some.stdout
    none = combu("-f", failing, "ps", "good", "--where", "state=failed")
    assert (none.returncode, none.stderr) == (0, "")
    record("DELETE FROM attempts WHERE trial = 0")
    record("UPDATE trials SET over = NULL, over_at = NULL WHERE trial = 0")
    silent = combu("-f", failing, "events", "good")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    unknown = combu("-f", failing, "events", "nosuch")
    assert (unknown.returncode, unknown.stderr) == (1, "combu: nosuch: is not a trial of run mine\n")


def test_the_record_is_the_callers_alone(combu, failing, tmp_path):
    run(combu, failing, "run", "--wait")
    path = tmp_path / ".local/state/combu/record.sqlite"
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o640)
    run(combu, failing, "run", "--wait")
    assert path.stat().st_mode & 0o777 == 0o640, "whoever has opened it to others means it"


@pytest.mark.parametrize("reserve, words", [
    ("100", "--reserve 100: the engine has only 8 CPUs"),
    ("100GiB", "--reserve 100GiB: the engine has only 16 GiB of memory"),
    ("8", "one: needs 0.1 CPUs, but the engine has no CPUs, 16 GiB of memory"),
    ("1,1", "--reserve: CPUs are given twice; for memory, add a unit, for example 1GiB"),
    ("1GiB,2GiB", "--reserve: memory is given twice"),
    ("gpu=0,gpu=0", "--reserve: the GPU 0 is given twice"),
    ("gpu=7", "--reserve: the engine has no GPU 7; it has 0, whose UUIDs are not known"),
    ("some", '--reserve: "some" must be CPUs, memory or a GPU, such as 2, 4GiB or gpu=0'),
])
def test_what_cannot_be_reserved_is_told(combu, write, reserve, words):
    file = write('[{ name: "one", image: "lab/x", cmd: "true", cpus: 0.1, gpus: %d }]' % ("gpu" in reserve))
    refused = combu("-f", file, "--engine", SLOW, "run", "--wait", "--reserve", reserve)
    assert refused.returncode == 2 and words in refused.stderr


@pytest.mark.parametrize("command", [["events"], ["times"], ["attach"], ["why", "one"], ["show", "one"], ["results"], ["compare"],
                                     ["plot", "loss"], ["export", "csv"], ["ps"], ["logs", "one"], ["wait"]])
def test_reading_makes_no_record(combu, write, tmp_path, command):
    file = write('[{ name: "one", image: "lab/x", cmd: "true" }]')
    combu("-f", file, "--engine", SIMULATED, *command)
    assert not (tmp_path / ".local").exists()
