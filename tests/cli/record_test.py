"""What is on record, and the commands that read it."""

import contextlib
import json
import re
import sqlite3
import subprocess

import pytest

from conftest import COMBU, SIMULATED

FAILING = """
[{ name: "good", image: "lab/x", cmd: "sleep 1" },
 { name: "bad", image: "lab/x", cmd: "sh -c 'exit 3'" },
 { name: "after", image: "lab/x", cmd: "true", depends: [{ trial: "bad", condition: "succeeded" }] },
 { name: "last", image: "lab/x", cmd: "true", depends: ["after"] }]
"""


@pytest.fixture
def failing(write):
    return write(FAILING)


@pytest.fixture
def record(tmp_path):
    """Rows of the record that combu has written."""
    def rows(query):
        with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite")) as database, database:
            return database.execute(query).fetchall()

    return rows


def run(combu, file, *arguments, **options):
    return combu("-f", file, "--engine", SIMULATED, "--progress", "plain", *arguments, **options)


def test_a_run_is_on_record(combu, failing, record, tmp_path):
    assert run(combu, failing, "run", "--wait", "--run-id", "mine").returncode == 1
    [row] = record("SELECT id, file, source, machine, program, address, ended_at > began_at, json_extract(arguments, '$[1]') "
                   "FROM runs JOIN texts ON run = number")
    assert row[:3] == ("mine", str(failing), FAILING)
    assert row[3] and row[4].startswith("combu ")
    assert row[5:] == (SIMULATED, 1, "-f")
    assert record("SELECT name, state, exit_code, cause FROM states ORDER BY trial") == [
        ("good", "succeeded", 0, "none"), ("bad", "failed", 3, "error"), ("after", "blocked", None, "none"),
        ("last", "blocked", None, "none")]
    [evaluated] = record("SELECT evaluated FROM texts")
    assert [trial["name"] for trial in json.loads(evaluated[0])] == ["good", "bad", "after", "last"]


def test_the_commit_of_the_files_folder_is_on_record(combu, failing, record, tmp_path):
    def git(*arguments):
        return subprocess.run(["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *arguments],
                              check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("add", failing.name)
    git("commit", "-qm", "one")
    run(combu, failing, "run", "--wait")
    assert record("SELECT revision, revision_dirty FROM runs") == [(git("rev-parse", "HEAD"), 0)]
    failing.write_text(FAILING + "\n")
    run(combu, failing, "run", "--wait")
    assert record("SELECT revision_dirty FROM runs ORDER BY number") == [(0,), (1,)]


def test_what_is_over_is_not_gone_on_with(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    again = run(combu, failing, "run", "--resume")
    assert (again.returncode, again.stderr) == (1, "run mine is over: 1 succeeded, 1 failed, 2 blocked\n")


def test_no_run_to_go_on_with(combu, failing):
    nothing = run(combu, failing, "run", "--resume")
    assert (nothing.returncode, nothing.stderr) == (1, f"combu: {failing}: no run of it is on record\n")
    other = run(combu, failing, "run", "--resume", "other")
    assert other.returncode == 1
    assert other.stderr.startswith("combu: run other: is not in the record ")
    without = combu("run", "--resume")
    assert (without.returncode, without.stderr) == (
        2, "combu: which run? its id, or -f FILE for the file's last one, says it\n")


def test_a_runs_id_is_used_once(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    again = run(combu, failing, "run", "--wait", "--run-id", "mine")
    assert again.returncode == 1
    assert again.stderr.splitlines()[-1] == (
        "combu: run mine: is on record already; choose another --run-id, or go on with it by `run --resume`")


def test_why_tells_the_cause(combu, failing):
    run(combu, failing, "run", "--wait")

    def why(trial):
        return combu("-f", failing, "why", trial)

    assert why("good").stdout == "good has succeeded\n"
    assert why("bad").stdout == "bad failed: exit code 3\n"
    assert why("last").stdout == (
        "last is blocked: depends on `after`, which is blocked by `bad`; bad failed: exit code 3\n")
    unknown = why("goad")
    assert (unknown.returncode, unknown.stderr) == (1, "combu: goad: is no trial of the run; did you mean `good`?\n")


def test_why_tells_what_a_trial_waits_for(combu, write, tmp_path):
    file = write("""
{ parallel: 2, trials: [
  { name: "one", image: "lab/x", cmd: "sleep 600" }, { name: "two", image: "lab/x", cmd: "sleep 600" },
  { name: "three", image: "lab/x", cmd: "true" },
  { name: "four", image: "lab/x", cmd: "true", depends: [{ trial: "one", condition: "finished" }, "three"] }] }
""")
    process = subprocess.Popen([COMBU, "-f", file, "--engine", "simulated:?speed=1&start=0.01", "--progress", "json", "run"],
                               env={"HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        seen = set()
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "fact" and event["state"] == "running":
                seen.add(event["trial"])
            if seen == {"one", "two"}:
                break
        # What is told is on record when what follows is done; the next snapshot comes after it.
        assert any(json.loads(line)["event"] == "snapshot" for line in process.stderr)
        lines = [combu("-f", file, "why", trial).stdout for trial in ("three", "four", "one")]
        assert lines[0] == "three waits for a place: 2 attempts are alive, as many as may (parallel)\n"
        assert lines[1] == "four waits for `one` to be over (it is running), `three` to be started (it is waiting)\n"
        assert re.fullmatch(r"one runs since [0-9.]+ m?s\n", lines[2])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert re.search(r"; nobody is at work on the run: `combu run --resume [a-z0-9]{12}` goes on with it\n",
                     combu("-f", file, "why", "three").stdout)


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


def test_times_tell_where_the_time_has_gone(combu, write, tmp_path):
    file = write("""
{ parallel: 1, trials: [
  { name: "one", image: "lab/x", cmd: "sleep 0.3" }, { name: "two", image: "lab/x", cmd: "sleep 0.1" },
  { name: "after", image: "lab/x", cmd: "true", depends: [{ trial: "two", condition: "succeeded" }] }] }
""")
    combu("-f", file, "--engine", "simulated:?speed=1&start=0.1", "--progress", "quiet", "run", "--wait")
    times = {row["trial"]: row for row in map(json.loads, combu("-f", file, "times", "--json").stdout.splitlines())}
    assert times["one"]["running"] > 0 and times["two"]["running"] > 0
    assert times["two"]["place"] >= times["one"]["running"], "its place is the one that `one` has"
    assert times["after"]["needs"] >= times["two"]["place"] + times["two"]["running"], "it needs the end of `two`"
    lines = combu("-f", file, "times").stdout.splitlines()
    assert re.fullmatch(r"run [a-z0-9]{12}: 3 attempts in .+", lines[0])
    assert "evaluated before in " in lines[0] and "prepared in " in lines[0]
    assert [line[:20].strip() for line in lines[2:]] == [
        "waiting for others", "waiting for a place", "combu itself", "creating", "starting", "running"]
    for row in times.values():
        assert min(row[key] for key in ("needs", "place", "combu", "creating", "starting", "running")) >= 0
        assert 0.05 <= row["starting"] <= 0.2
    of_one = combu("-f", file, "times", "one").stdout.splitlines()
    assert len(of_one) == 2 and of_one[1].startswith("one ")
    assert combu("-f", file, "times", "nobody").returncode == 1


PARAMS = """
[{ name: "lr-%d" % i, image: "lab/x", cmd: "sh -c 'exit %d'" % (i % 2), params: { lr: i / 1000.0, model: "net" } } for i in std.range(1, 20)] +
[{ name: "bare", image: "lab/y", cmd: "true" }]
"""


def ps(combu, file, *arguments):
    return [json.loads(line) for line in combu("-f", file, "ps", "--json", *arguments).stdout.splitlines()]


def names(rows):
    return [row["trial"] for row in rows]


def test_ps_shows_a_runs_trials(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "old")
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    lines = combu("-f", failing, "ps").stdout.splitlines()
    assert lines[0] == f"run mine of {failing}, ended: 1 succeeded, 1 failed, 2 blocked"
    assert lines[1].split() == ["TRIAL", "STATE", "ATTEMPT", "RAN", "REASON"]
    assert [line.split()[:3] for line in lines[2:]] == [
        ["good", "succeeded", "1"], ["bad", "failed", "1"], ["after", "blocked", "1"], ["last", "blocked", "1"]]
    assert lines[3].endswith(" exit code 3") and lines[4].endswith(" depends on `bad`, which did not succeed")
    rows = {row["trial"]: row for row in ps(combu, failing)}
    assert {row["run"] for row in rows.values()} == {"mine"}
    assert (rows["bad"]["state"], rows["bad"]["exit_code"], rows["bad"]["cause"]) == ("failed", 3, "error")
    assert rows["good"]["image"] == "lab/x" and rows["good"]["digest"] == "simulated:lab/x"
    assert rows["good"]["seconds"] >= 0 and rows["good"]["ran_at"] <= rows["good"]["ended_at"]
    assert rows["last"]["exit_code"] is None and rows["last"]["ran_at"] is None
    assert {row["run"] for row in map(json.loads, combu("ps", "--run", "old", "--json").stdout.splitlines())} == {"old"}


def test_ps_chooses_by_params_and_states(combu, write):
    file = write(PARAMS)
    run(combu, file, "run", "--wait")
    assert names(ps(combu, file, "--where", "lr<0.01 && state=failed")) == [f"lr-{i}" for i in (1, 3, 5, 7, 9)]
    assert names(ps(combu, file, "--where", "lr>=0.019 && exit_code=0")) == ["lr-20"]
    assert names(ps(combu, file, "--where", "image=lab/y")) == ["bare"]
    assert len(ps(combu, file, "--where", "state=ended")) == 21
    assert ps(combu, file, "--where", "state!=ended") == []
    assert len(ps(combu, file, "--where", "cause=error && model=n*")) == 10
    assert names(ps(combu, file, "lr-1", "bare")) == ["lr-1", "bare"]
    [one] = ps(combu, file, "lr-2")
    assert one["params"] == {"lr": 0.002, "model": "net"}
    assert len(ps(combu, file, "lr-1*")) == 11
    unknown = combu("-f", file, "ps", "lr-21")
    assert (unknown.returncode, unknown.stderr.split(":")[1]) == (1, " lr-21")
    # The file is not read.
    file.write_text("[ this is no Jsonnet")
    assert len(ps(combu, file)) == 21


def test_ps_lists_runs(combu, failing, write):
    other = write(FAILING, "other.jsonnet")
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    run(combu, other, "run", "--wait", "--run-id", "other")
    lines = combu("--engine", SIMULATED, "ps").stdout.splitlines()
    assert lines[0].split() == ["RUN", "EXPERIMENT", "BEGAN", "ENDED", "STATE", "TRIALS", "ENGINE"]
    assert [line.split()[0] for line in lines[1:]] == ["other", "mine"]
    rows = [json.loads(line) for line in combu("--engine", SIMULATED, "ps", "--json").stdout.splitlines()]
    assert rows[1]["file"] == str(failing) and rows[1]["state"] == "ended" and rows[1]["trials"] == 4
    assert rows[1]["counts"] == {"succeeded": 1, "failed": 1, "blocked": 2}
    chosen = combu("--engine", SIMULATED, "ps", "--json", "--where", "failed>0 && run=m*").stdout.splitlines()
    assert [json.loads(line)["run"] for line in chosen] == ["mine"]
    wrong = combu("--engine", SIMULATED, "ps", "--where", "lr<0.01")
    assert wrong.returncode == 2 and "--run ID" in wrong.stderr
    assert combu("--engine", SIMULATED + "&seed=2", "ps").stdout.count("\n") == 1


def test_ps_shows_the_newest_runs(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    columns = ("experiment, file, folder, arguments, options, revision, revision_dirty, address, engine, user, "
               "machine, program, began_at, working_since, ended_at")
    for number in range(30):
        record(f"INSERT INTO runs (id, {columns}) SELECT 'copy-{number}', {columns} FROM runs WHERE id = 'mine'")
    shortened = combu("--engine", SIMULATED, "ps")
    assert shortened.stdout.count("\n") == 21 and shortened.stdout.splitlines()[1].startswith("copy-29 ")
    assert "11 older runs" in shortened.stderr
    assert combu("--engine", SIMULATED, "ps", "--all").stdout.count("\n") == 32


def test_ps_tells_what_is_left_of_a_run(combu, write, tmp_path):
    file = write("""
[{ name: "one", image: "lab/x", cmd: "sleep 600" },
 { name: "two", image: "lab/x", cmd: "true", depends: [{ trial: "one", condition: "finished" }] }]
""")
    process = subprocess.Popen([COMBU, "-f", file, "--engine", "simulated:?speed=1&start=0.01", "--progress", "json", "run",
                                "--wait", "--run-id", "mine"],
                               env={"HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        events = map(json.loads, process.stderr)
        assert any(event["event"] == "fact" and event["state"] == "running" for event in events)
        assert any(event["event"] == "snapshot" for event in events)
        lines = combu("-f", file, "ps").stdout.splitlines()
        assert lines[0].endswith(", running: 1 waiting, 1 running")
        assert lines[2].split()[:2] == ["one", "running"] and lines[3].split()[:2] == ["two", "waiting"]
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    # A simulated engine goes away with its process.
    lines = combu("-f", file, "ps").stdout.splitlines()
    assert lines[0].endswith(", interrupted: 1 waiting, 1 failed")
    assert lines[2].endswith(" its container is gone, and how it ended is not on record")
    [row] = ps(combu, file, "--where", "state=failed")
    assert (row["exit_code"], row["cause"]) == (None, "stopped")


def test_ps_answers_from_the_record_while_the_engine_is_away(combu, failing, record, tmp_path):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record(f"UPDATE runs SET address = 'unix://{tmp_path}/no.sock'")
    away = combu("-f", failing, "ps")
    assert away.returncode == 0 and away.stdout.count("\n") == 6
    assert away.stderr.startswith(f"this is what is on record; the engine could not be asked: unix://{tmp_path}/no.sock: ")


def test_retry_without_a_failure(combu, ladder):
    run(combu, ladder, "run", "--wait", "--run-id", "mine")
    nothing = run(combu, ladder, "retry")
    assert (nothing.returncode, nothing.stderr) == (0, "run mine: nothing has failed: 4 succeeded\n")


def test_retry_tries_what_failed_again(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    again = run(combu, failing, "retry", "--wait")
    assert again.returncode == 1
    assert "run mine: 1 trial is tried again" in again.stderr
    assert record("SELECT name, state, attempt FROM states ORDER BY trial") == [
        ("good", "succeeded", 1), ("bad", "failed", 2), ("after", "blocked", 1), ("last", "blocked", 1)]


def test_retry_of_a_trial_that_there_is_not(combu, failing):
    run(combu, failing, "run", "--wait")
    wrong = run(combu, failing, "retry", "goood")
    assert (wrong.returncode, wrong.stderr) == (2, "combu: retry goood: matches no trial: did you mean `good`?\n")


def test_a_retry_that_is_refused_leaves_the_record_as_it_is(combu, write, record, tmp_path):
    file = write('[{ name: "bad", image: "lab/x", cmd: "sh -c \'exit 3\'", volumes: ["./data/:/data"] }]')
    run(combu, file, "run", "--wait")
    (tmp_path / "data").rmdir()
    (tmp_path / "data").write_text("no folder")
    refused = run(combu, file, "retry", "--wait")
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == "nothing was started"
    assert record("SELECT state, attempt, exit_code FROM states") == [("failed", 1, 3)]
    assert record("SELECT count(*) FROM runs WHERE ended_at IS NULL") == [(0,)]


def test_a_retry_brings_back_the_service_of_what_was_blocked(combu, write):
    file = write("""
[{ name: "serv", image: "lab/x", cmd: "sleep 1000000", service: true },
 { name: "bad", image: "lab/x", cmd: "sh -c 'exit 3'" },
 { name: "user", image: "lab/x", cmd: "true", depends: ["serv", { trial: "bad", condition: "finished" }] },
 { name: "never", image: "lab/x", cmd: "true", depends: ["serv", { trial: "bad", condition: "succeeded" }] }]
""")
    run(combu, file, "run", "--wait")
    again = combu("-f", file, "--engine", SIMULATED, "--progress", "json", "retry", "--wait")
    started = [event["trial"] for event in map(json.loads, again.stderr.splitlines())
               if event["event"] == "fact" and event["state"] == "starting"]
    assert sorted(started) == ["bad", "serv"]


def test_a_retry_has_the_deadline_and_the_failures_to_itself(combu, write, record):
    trials = ", ".join(f'{{ name: "bad-{i}", image: "lab/x", cmd: "sh -c \'exit 3\'" }}' for i in range(3))
    file = write(f"{{ max_failures: 1, trials: [{trials}] }}")
    combu("-f", file, "--engine", SIMULATED, "run", "--wait", "-p", "false")
    run(combu, file, "retry", "bad-0", "--wait")
    assert record("SELECT name, state, attempt, exit_code FROM states ORDER BY trial")[0] == ("bad-0", "failed", 2, 3)


def test_another_engine_is_not_gone_on_with(combu, failing):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    other = combu("-f", failing, "--engine", SIMULATED + "&seed=2", "retry")
    assert other.returncode == 1
    assert other.stderr == (f"combu: run mine: was begun on the engine {SIMULATED}, and this is {SIMULATED}&seed=2; "
                            "without --engine it goes on there\n")


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


def test_rm_keeps_what_is_not_over(combu, ladder, record):
    run(combu, ladder, "run", "--run-id", "left")
    # As one looks that was left to run.
    assert record("UPDATE runs SET ended_at = NULL RETURNING id") == [("left",)]
    refused = combu("rm", "left")
    assert refused.returncode == 1
    assert refused.stderr.startswith("combu: run left: is not over; `combu kill --experiment ")
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
    assert "1 trial is tried again" in run(combu, link, "retry", "--wait").stderr


@pytest.mark.parametrize("damage, words", [
    (lambda path: path.write_bytes(b"x" * 8192), "is damaged"),
    (lambda path: sqlite3.connect(path).execute("PRAGMA user_version = 99").connection.close(), "newer combu"),
    (lambda path: sqlite3.connect(path).execute("ALTER TABLE texts RENAME TO taken").connection.close(), "is damaged"),
    (lambda path: (path.unlink(), path.mkdir()), "cannot be used"),
])
def test_a_record_that_cannot_be_used_keeps_a_run_from_beginning(combu, ladder, tmp_path, damage, words):
    assert run(combu, ladder, "run", "--wait").returncode == 0
    path = tmp_path / ".local/state/combu/record.sqlite"
    damage(path)
    refused = run(combu, ladder, "run", "--wait")
    assert refused.returncode in (1, 2)
    assert refused.stderr.startswith(f"combu: {path}: ") and words in refused.stderr
    assert "COMBU_HOME" in refused.stderr or words == "cannot be used"
