"""Tests of `apply`, and of other commands that apply a changed file to a run."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess

import pytest
from conftest import COMBU, wait_until

ENGINE = "simulated:?speed=100"


def trials(*some, **settings):
    return json.dumps({**settings, "trials": [{"image": "lab/x", **one} for one in some]})


def trial(name, cmd="true", **fields):
    return {"name": name, "cmd": cmd, **fields}


@pytest.fixture
def states(combu):
    def states(file):
        rows = map(json.loads, combu("-f", file, "--engine", ENGINE, "ps", "--json").stdout.splitlines())
        return {row["trial"]: (row["state"], row["attempt"]) for row in rows}

    return states


@pytest.fixture
def start(tmp_path):
    """start(arguments…) starts combu and returns the process, which is killed after the test."""
    started = []

    def start(*arguments):
        started.append(subprocess.Popen([COMBU, *map(str, arguments)], env={**os.environ, "HOME": str(tmp_path)},
                                        cwd=tmp_path, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def database(tmp_path):
    """The record. While a transaction of this connection is open, no other process can write the record."""
    with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite", isolation_level=None, timeout=20)) as database:
        yield database


def at_work(start, file, count):
    """Starts a run and returns its process once `count` trials run according to the record."""
    run = start("-f", file, "--engine", ENGINE, "--progress", "plain", "run", "--wait", "--run-id", "r1")
    path = file.parent / ".local/state/combu/record.sqlite"

    def is_so():
        if not path.exists():
            return False
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as database:
            try:
                return database.execute("SELECT count(*) FROM states WHERE state = 'running'").fetchone() == (count,)
            except sqlite3.OperationalError:
                return False  # the record does not exist yet

    wait_until(is_so)
    return run


def test_what_is_added_to_a_run_that_is_over_is_run(combu, write, states):
    file = write(trials(trial("one"), trial("two")))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 0
    write(trials(trial("zero"), trial("one"), trial("two"), trial("three", depends=["two"])))
    result = combu("-f", file, "--engine", ENGINE, "apply")
    assert result.returncode == 0, result.stderr
    assert "2 trials are new" in result.stderr
    assert states(file) == {name: ("succeeded", 1) for name in ("one", "two", "zero", "three")}
    assert "the file has not changed" in combu("-f", file, "--engine", ENGINE, "apply").stderr


def test_replace_starts_changed_trials_again(combu, write, states):
    file = write(trials(trial("one"), trial("bad", "exit 3"), trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 1
    write(trials(trial("one"), trial("bad", "exit 0"), trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])))
    result = combu("-f", file, "--engine", ENGINE, "apply")
    assert "run " in result.stderr and "1 trial changed\n" in result.stderr
    assert "these trials changed, but failed or were stopped with the earlier definition; `apply --failed` starts these trials again: bad\n" in result.stderr
    assert states(file)["bad"] == ("failed", 1)
    result = combu("-f", file, "--engine", ENGINE, "apply", "--replace")
    assert states(file) == {"one": ("succeeded", 1), "bad": ("succeeded", 2), "after": ("succeeded", 1)}, result.stderr
    assert result.returncode == 0


def test_a_bad_file_changes_nothing(combu, write, states):
    file = write(trials(trial("one")))
    combu("-f", file, "--engine", ENGINE, "run", "--wait")
    for text, code, words in [
        (trials(trial("one"), trial("one")), 2, "one"),
        (trials(trial("one"), trial("two", depends=["three"])), 2, "no trial is named `three`"),
        (trials(trial("one"), {"name": "two", "image": "missing", "cmd": "true"}), 1, "nothing was changed"),
        (trials(trial("one"), experiment="other"), 2, "describes the experiment other, but the run belongs to the experiment"),
    ]:
        write(text)
        result = combu("-f", file, "--engine", ENGINE, "apply")
        assert result.returncode == code, result.stderr
        assert words in result.stderr
        assert states(file) == {"one": ("succeeded", 1)}


def test_what_only_left_out_stays_out(combu, write, states):
    file = write(trials(trial("one"), trial("two")))
    combu("-f", file, "--engine", ENGINE, "run", "--wait", "--only", "one")
    write(trials(trial("one"), trial("two"), trial("three")))
    assert combu("-f", file, "--engine", ENGINE, "apply").returncode == 0
    assert set(states(file)) == {"one", "three"}


def test_the_time_counts_from_the_runs_beginning(combu, write, tmp_path):
    file = write(trials(trial("one", "sleep 1000")))
    run = subprocess.Popen([COMBU, "-f", file, "--engine", ENGINE, "--progress", "json", "run", "--wait", "--run-id", "r1"],
                           env={**os.environ, "HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    told = map(json.loads, run.stderr)
    try:
        assert next(line for line in told if line["event"] == "snapshot" and line["counts"]["running"] == 1)
        with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite", isolation_level=None,
                                                timeout=20)) as database:
            database.execute("UPDATE runs SET began_at = began_at - 3600000000")
        write(trials(trial("one", "sleep 1000"), trial("new", "sleep 1000")))
        result = combu("-f", file, "--engine", ENGINE, "apply")
        assert result.returncode == 0, result.stderr
        last = next(line for line in told if line["event"] == "snapshot" and line["counts"]["running"] == 2)
        assert last["elapsed"] >= 3600
        assert {one["trial"] for one in last["running"]} == {"one", "new"}
    finally:
        run.kill()
        run.communicate()


def test_a_trial_that_waits_while_a_file_is_applied_has_waited_from_the_runs_beginning(combu, write, start, tmp_path):
    lines = [trial("first"), trial("long", "sleep 300"), trial("other"), trial("after", depends=["first"])]
    file = write(trials(*lines, parallel=1))
    run = start("-f", file, "--engine", ENGINE, "--progress", "plain", "run", "--wait", "--run-id", "r1")
    path = tmp_path / ".local/state/combu/record.sqlite"

    def is_held_up():
        if not path.exists():
            return False
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as database:
            try:
                return database.execute("SELECT 1 FROM states WHERE name = 'long' AND state = 'running'").fetchone()
            except sqlite3.OperationalError:
                return False  # the record does not exist yet

    wait_until(is_held_up)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=20)) as database:
        database.execute("UPDATE runs SET began_at = began_at - 3600000000")
    write(trials(*lines, trial("new"), parallel=1))
    result = combu("-f", file, "--engine", ENGINE, "apply")
    assert result.returncode == 0, result.stderr
    assert run.wait(timeout=30) == 0
    times = {row["trial"]: row for row in map(json.loads, combu("times", "--run", "r1", "--json").stdout.splitlines())}
    assert "needs" not in times["other"] and times["other"]["place"] >= 3600
    # `first` ended before `long` began to run.
    assert times["after"]["needs"] >= 3600
    assert times["after"]["place"] >= times["long"]["running"]
    assert "needs" not in times["new"]


def test_the_process_at_work_goes_on_with_the_edited_file(combu, write, tmp_path):
    lines = [trial(f"t{i}", "sleep 1000") for i in range(6)]
    file = write(trials(*lines, parallel=2))
    run = subprocess.Popen([COMBU, "-f", file, "--engine", ENGINE, "--progress", "json", "run", "--wait", "--run-id", "r1"],
                           env={**os.environ, "HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    told = map(json.loads, run.stderr)
    try:
        assert next(line for line in told if line["event"] == "snapshot" and line["counts"]["running"] == 2)
        # t0 and t1 run. The new file lacks the other trials and has a new one.
        write(trials(lines[0], lines[1], trial("new", "sleep 1000"), parallel=3))
        result = combu("-f", file, "--engine", ENGINE, "apply")
        assert (result.returncode, "run r1: 1 trial is new, 4 trials were removed" in result.stderr) == (0, True), result.stderr
        assert next(line for line in told if line["event"] == "snapshot" and line["counts"]["running"] == 3)
        assert run.poll() is None
    finally:
        run.kill()
        run.communicate()
    rows = {row["trial"]: row["state"] for row in map(json.loads, combu("ps", "--run", "r1", "--json", "--engine", ENGINE).stdout.splitlines())}
    assert [rows[f"t{i}"] for i in range(2, 6)] == ["stopped"] * 4
    assert re.search("removed from the file", combu("why", "t3", "--run", "r1").stdout)


def test_what_joins_brings_its_services_back(combu, write, states):
    """Services of services are started too. A changed service runs with the new file."""
    lines = [trial("base", "sleep 1000000", service=True), trial("serv", "sleep 1000000", service=True, depends=["base"]),
             trial("user", depends=["serv"]), trial("bad", "exit 3", depends=["serv"])]
    file = write(trials(*lines))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 1
    lines[1]["cmd"] = "sleep 2000000"
    write(trials(*lines, trial("more", depends=["serv"])))
    result = combu("-f", file, "--engine", ENGINE, "--progress", "json", "apply")
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["trial"] for line in told if line["event"] == "fact" and line["state"] == "running"] == ["base", "serv", "more"]
    assert "1 trial changed, 1 trial is new" in result.stderr
    assert states(file) == {"base": ("stopped", 2), "serv": ("stopped", 2), "user": ("succeeded", 1),
                            "bad": ("failed", 1), "more": ("succeeded", 1)}


def test_two_at_once_change_the_run_one_after_another(write, start, tmp_path, request):
    file = write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 1000")))
    run = at_work(start, file, 2)
    database = request.getfixturevalue("database")
    write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 1000"), trial("new", "sleep 1000")))
    # Neither process can write the record until both have read the run's file.
    database.execute("BEGIN IMMEDIATE")
    both = [start("-f", file, "--engine", ENGINE, "--progress", "json", "apply") for _ in range(2)]
    for one in both:
        assert any(json.loads(line).get("text") == "waiting for the starts in flight" for line in one.stderr)
    database.execute("COMMIT")
    told = [one.communicate(timeout=60)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    assert sorted(json.loads(text.splitlines()[-1])["text"] for text in told) == [
        "run r1: 1 trial is new", "run r1: the file has not changed"]
    wait_until(lambda: database.execute("SELECT state, attempt FROM states WHERE name = 'new'").fetchall() == [("running", 1)])
    assert run.poll() is None


def test_a_process_that_dies_while_it_waits_is_told(write, start, tmp_path, request):
    file = write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 1000")))
    run = at_work(start, file, 2)
    database = request.getfixturevalue("database")
    write(trials(trial("t0", "sleep 1000")))
    database.execute("BEGIN IMMEDIATE")
    apply = start("-f", file, "--engine", ENGINE, "--progress", "json", "apply")
    assert any(json.loads(line).get("text") == "changing the run" for line in apply.stderr)
    run.kill()
    run.wait()
    database.execute("COMMIT")
    _, told = apply.communicate(timeout=60)
    assert apply.returncode == 1
    assert "run r1: the owner of the run has ended, or has waited too long and continues without the change; nothing was changed; run the same command again" in told
    assert database.execute("SELECT name, leaving FROM attempts JOIN trials USING (run, trial)").fetchall() == [
        ("t0", None), ("t1", None)]


def test_one_that_is_suspended_does_not_hold_the_run(write, start, request):
    file = write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 6000", timeout="500s")))
    run = at_work(start, file, 2)
    database = request.getfixturevalue("database")
    write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 6000", timeout="500s"), trial("new", "sleep 1000")))
    database.execute("BEGIN IMMEDIATE")
    apply = start("-f", file, "--engine", ENGINE, "--progress", "json", "apply")
    assert any(json.loads(line).get("text") == "changing the run" for line in apply.stderr)
    apply.send_signal(signal.SIGSTOP)
    database.execute("COMMIT")
    assert any("an `apply` did not finish in time; the run continues without the edited file" in line for line in run.stderr)
    apply.send_signal(signal.SIGCONT)
    _, told = apply.communicate(timeout=60)
    assert (apply.returncode, "has waited too long and continues without the change; nothing was changed; run the same command again" in told) == (1, True), told
    assert database.execute("SELECT name FROM trials").fetchall() == [("t0",), ("t1",)]
    assert run.poll() is None


ARGUMENTS = "function(n=1) [{ name: 't%d' % i, image: 'lab/x', cmd: 'true' } for i in std.range(1, std.parseInt(std.toString(n)))]"


def test_what_the_file_was_given_is_given_again(combu, write, states):
    file = write(ARGUMENTS)
    for given, words in [(["-A", "n=3"], "-A n=3"), (["--tla-code=n=3"], "--tla-code=n=3"),
                         (["-V", "u=a b", "-A", "n=3"], "-V 'u=a b' -A n=3")]:
        assert combu("-f", file, "--engine", ENGINE, *given, "run", "--wait").returncode == 0
        result = combu("-f", file, "--engine", ENGINE, "apply")
        assert result.returncode == 2
        assert f"was started with `{words}`; give the same options again, or others" in result.stderr
        assert states(file) == {f"t{i}": ("succeeded", 1) for i in (1, 2, 3)}
    assert "1 trial is new" in combu("-f", file, "--engine", ENGINE, "-A", "n=4", "apply").stderr


def versions(combu, file):
    rows = map(json.loads, combu("-f", file, "results", "--json", "--columns", "trial,version").stdout.splitlines())
    return {row["trial"]: row["version"] for row in rows}


@pytest.fixture
def study(combu, write):
    """A run with a trial that succeeded, one that failed and one that is blocked; study(**fields) changes the failed one in the
    file."""
    def trials_with(**fields):
        return [trial("good"), trial("bad", **{"cmd": "exit 3", "params": {"lr": 1}, **fields}),
                trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])]

    file = write(trials(*trials_with()))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait", "--run-id", "r1").returncode == 1

    def edit(**fields):
        return write(trials(*trials_with(**fields)))

    edit.file = file
    return edit


def test_a_failed_trial_is_tried_again_with_the_text_that_was_applied(combu, study, states):
    study(cmd="exit 0", params={"lr": 2})
    assert combu("-f", study.file, "--engine", ENGINE, "apply").returncode == 1
    assert states(study.file) == {"good": ("succeeded", 1), "bad": ("failed", 1), "after": ("blocked", 1)}
    # The trial has not run with the new text yet.
    assert versions(combu, study.file) == {"good": 1, "bad": 1, "after": 1}
    result = combu("-f", study.file, "--engine", ENGINE, "retry")
    assert (result.returncode, "edited after" in result.stderr) == (0, False), result.stderr
    assert states(study.file) == {"good": ("succeeded", 1), "bad": ("succeeded", 2), "after": ("succeeded", 1)}
    assert versions(combu, study.file) == {"good": 1, "bad": 2, "after": 1}
    shown = json.loads(combu("-f", study.file, "show", "bad", "--json").stdout)
    assert (shown["params"], shown["version"], shown["versions"]) == ({"lr": 2}, 2, 2)
    assert re.search(r"^version +2 of 2$", combu("-f", study.file, "show", "bad").stdout, re.M)


def test_apply_failed_starts_what_failed_and_was_blocked_again(combu, study, states):
    study(cmd="exit 0")
    result = combu("-f", study.file, "--engine", ENGINE, "apply", "--failed")
    assert result.returncode == 0, result.stderr
    assert "run r1: 1 trial changed, 1 trial is retried" in result.stderr
    assert states(study.file) == {"good": ("succeeded", 1), "bad": ("succeeded", 2), "after": ("succeeded", 1)}
    assert "the file has not changed, and none of its trials has failed" in combu("-f", study.file, "--engine", ENGINE, "apply", "--failed").stderr


def test_apply_failed_starts_unchanged_trials_again(combu, study, states):
    result = combu("-f", study.file, "--engine", ENGINE, "apply", "--failed")
    assert result.returncode == 1
    assert "run r1: 1 trial is retried" in result.stderr
    assert states(study.file) == {"good": ("succeeded", 1), "bad": ("failed", 2), "after": ("blocked", 1)}
    assert versions(combu, study.file) == {"good": 1, "bad": 1, "after": 1}


def test_replace_takes_names(combu, write, states):
    file = write(trials(*(trial(f"t{i}") for i in range(3)), trial("same")))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait", "--run-id", "r1").returncode == 0
    write(trials(*(trial(f"t{i}", env={"A": "1"}) for i in range(3)), trial("same")))
    told = combu("-f", file, "--engine", ENGINE, "apply").stderr
    assert "run r1: 3 trials changed\n" in told
    assert "run r1: these trials changed, but succeeded with the earlier definition; `apply --replace` runs these trials again: t0, t1, t2\n" in told
    result = combu("-f", file, "--engine", ENGINE, "apply", "--replace=t0", "--replace=*2", "--replace=same")
    assert result.returncode == 0, result.stderr
    assert states(file) == {"t0": ("succeeded", 2), "t1": ("succeeded", 1), "t2": ("succeeded", 2), "same": ("succeeded", 1)}
    assert versions(combu, file) == {"t0": 2, "t1": 1, "t2": 2, "same": 1}
    result = combu("-f", file, "--engine", ENGINE, "apply", "--replace=t9")
    assert (result.returncode, "--replace t9: matches no trial" in result.stderr) == (2, True), result.stderr


def test_failed_trials_are_planned_with_the_text_that_they_will_have(combu, write, states):
    """Two trials exchange a port: when the failed trial starts again, the file has given it another port."""
    file = write(trials(trial("bad", "exit 3", ports=["8080:80"])))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 1
    write(trials(trial("bad", "exit 0", ports=["8081:80"]), trial("new", ports=["8080:80"])))
    result = combu("-f", file, "--engine", ENGINE, "apply")
    assert "1 trial changed, 1 trial is new" in result.stderr
    assert states(file) == {"bad": ("failed", 1), "new": ("succeeded", 1)}
    assert combu("-f", file, "--engine", ENGINE, "retry").returncode == 0
    assert states(file) == {"bad": ("succeeded", 2), "new": ("succeeded", 1)}


def test_what_a_failed_trial_asks_for_is_checked_before_it_is_on_record(combu, write):
    file = write(trials(trial("one"), trial("bad", "exit 3")))
    combu("-f", file, "--engine", ENGINE, "run", "--wait", "--only", "bad")
    for changed, words in [({"image": "missing"}, "missing"), ({"depends": ["one"]}, "no trial is named `one`")]:
        write(trials(trial("one"), {**trial("bad"), **changed}))
        result = combu("-f", file, "--engine", ENGINE, "apply")
        assert result.returncode != 0
        assert words in result.stderr and result.stderr.endswith("nothing was changed\n"), result.stderr
        assert versions(combu, file) == {"bad": 1}


def test_a_trial_whose_need_is_gone_is_no_longer_blocked_nor_are_its_dependents(combu, write, states):
    after = lambda name: [{"trial": name, "condition": "succeeded"}]
    file = write(trials(trial("first", "exit 3"), trial("next", depends=after("first")), trial("last", depends=after("next"))))
    combu("-f", file, "--engine", ENGINE, "run", "--wait")
    assert states(file)["last"] == ("blocked", 1)
    write(trials(trial("first", "exit 3"), trial("next"), trial("last", depends=after("next"))))
    combu("-f", file, "--engine", ENGINE, "apply")
    assert states(file) == {"first": ("failed", 1), "next": ("succeeded", 1), "last": ("succeeded", 1)}


def test_a_success_is_kept_when_its_trial_leaves_the_file_and_comes_back(combu, write, states):
    file = write(trials(trial("one"), trial("two")))
    combu("-f", file, "--engine", ENGINE, "run", "--wait")
    write(trials(trial("one")))
    assert "1 trial was removed" in combu("-f", file, "--engine", ENGINE, "apply").stderr
    write(trials(trial("one"), trial("two")))
    combu("-f", file, "--engine", ENGINE, "apply")
    assert states(file) == {"one": ("succeeded", 1), "two": ("succeeded", 1)}


def test_an_edited_comment_is_taken_in_silence(combu, study):
    study.file.write_text(study.file.read_text() + "// a comment")
    assert "edited after it was recorded, and no trial differs" in combu("-f", study.file, "--engine", ENGINE, "retry").stderr
    assert "the file has not changed" in combu("-f", study.file, "--engine", ENGINE, "apply").stderr
    assert "edited after" not in combu("-f", study.file, "--engine", ENGINE, "retry").stderr
    assert set(versions(combu, study.file).values()) == {1}


def test_edited_has_the_values_of_the_newest_text(combu, write, states):
    file = write(ARGUMENTS)
    combu("-f", file, "--engine", ENGINE, "-A", "n=1", "run", "--wait")
    assert "2 trials are new" in combu("-f", file, "--engine", ENGINE, "-A", "n=3", "apply").stderr
    file.write_text(ARGUMENTS.replace("'true'", "'exit 0'"))
    result = combu("-f", file, "--engine", ENGINE, "retry", "--edited", "t1")
    assert "removed" not in result.stderr
    assert states(file) == {"t1": ("succeeded", 2), "t2": ("succeeded", 1), "t3": ("succeeded", 1)}


def test_import_folders_are_those_of_the_run_wherever_it_is_gone_on_with(combu, write, tmp_path, states):
    (tmp_path / "lib").mkdir()
    (tmp_path / "elsewhere").mkdir()
    library = tmp_path / "lib/values.libsonnet"
    library.write_text("{ code: 3 }")
    file = write("local v = import 'values.libsonnet'; [{ name: 'bad', image: 'lab/x', cmd: 'exit ' + v.code }]")
    combu("-f", file, "--engine", ENGINE, "-J", "lib", "run", "--wait")
    library.write_text("{ code: 0 }")
    result = combu("-f", file, "--engine", ENGINE, "retry", "--edited", cwd=tmp_path / "elsewhere")
    assert (result.returncode, states(file)) == (0, {"bad": ("succeeded", 2)}), result.stderr


def test_a_run_that_is_named_has_its_own_file(combu, study, tmp_path, states):
    other = tmp_path / "other"
    other.mkdir()
    (other / "experiment.jsonnet").write_text(trials(trial("stranger")))
    study(cmd="exit 0")
    result = combu("--engine", ENGINE, "apply", "--failed", "r1", cwd=other)
    assert result.returncode == 0, result.stderr
    assert states(study.file) == {"good": ("succeeded", 1), "bad": ("succeeded", 2), "after": ("succeeded", 1)}


def test_a_trial_that_waits_may_be_named(combu, write, interrupted, states):
    file = interrupted(trials(trial("slow", "sleep 30"), trial("next"), parallel=1))
    assert combu("-f", file, "--engine", ENGINE, "retry", "next").returncode == 1
    assert states(file) == {"slow": ("stopped", 1), "next": ("succeeded", 1)}


NOTE = "was edited after it was recorded, and 1 trial differs; `{}` uses the recorded text, or with --edited the current file"


def test_retry_uses_the_runs_text_unless_the_edited_one_is_asked_for(combu, study, states):
    study(cmd="exit 0")
    result = combu("-f", study.file, "--engine", ENGINE, "retry")
    assert (result.returncode, NOTE.format("retry") in result.stderr) == (1, True), result.stderr
    assert states(study.file)["bad"] == ("failed", 2)
    result = combu("-f", study.file, "--engine", ENGINE, "retry", "--edited")
    assert (result.returncode, "edited after" in result.stderr) == (0, False), result.stderr
    assert states(study.file) == {"good": ("succeeded", 1), "bad": ("succeeded", 3), "after": ("succeeded", 1)}
    # The run uses the changed file now.
    assert "edited after" not in combu("-f", study.file, "--engine", ENGINE, "retry").stderr
    assert states(study.file)["good"] == ("succeeded", 1)
    combu("-f", study.file, "--engine", ENGINE, "retry", "--edited", "good")
    assert states(study.file)["good"] == ("succeeded", 2)


@pytest.fixture
def interrupted(write, start, tmp_path):
    """interrupted(text, arguments…) starts a run, and kills its process while its trials run."""
    def interrupted(text, *arguments):
        file = write(text)
        run = start("-f", file, "--engine", ENGINE, *arguments, "run", "--wait", "--run-id", "r1")
        path = tmp_path / ".local/state/combu/record.sqlite"

        def is_so():
            with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
                return database.execute("SELECT count(*) FROM attempts WHERE ran_at IS NOT NULL").fetchone() != (0,)

        wait_until(is_so)
        run.kill()
        run.wait()
        return file

    return interrupted


def test_resume_uses_the_runs_text_unless_the_edited_one_is_asked_for(combu, write, interrupted, states):
    file = interrupted(trials(trial("slow", "sleep 30"), trial("next", "exit 3"), parallel=1))
    write(trials(trial("slow", "sleep 30"), trial("next", "exit 0"), parallel=1))
    result = combu("-f", file, "--engine", ENGINE, "run", "--resume")
    assert (result.returncode, NOTE.format("run --resume") in result.stderr) == (1, True), result.stderr
    assert states(file)["next"] == ("failed", 1)
    result = combu("-f", file, "--engine", ENGINE, "run", "--edited")
    assert (result.returncode, "--edited: must be used with --resume" in result.stderr) == (2, True), result.stderr


def test_resume_edited_takes_the_file_as_it_is_now(combu, write, interrupted, states):
    file = interrupted(trials(trial("slow", "sleep 30"), trial("next", "exit 3"), parallel=1))
    write(trials(trial("slow", "sleep 30"), trial("next", "exit 0"), parallel=1))
    result = combu("-f", file, "--engine", ENGINE, "run", "--resume", "--edited")
    assert "run r1: 1 trial changed" in result.stderr
    # The container of the first trial is gone, because the simulated engine ended with its process.
    assert states(file) == {"slow": ("stopped", 1), "next": ("succeeded", 1)}


IMPORTING = "local v = import 'values.libsonnet'; [{ name: 'bad', image: 'lab/x', cmd: 'exit ' + v.code + std.extVar('more') }]"


@pytest.fixture
def importing(combu, write, tmp_path, monkeypatch):
    monkeypatch.setenv("more", "")
    values = tmp_path / "values.libsonnet"
    values.write_text("{ code: 3 }")
    file = write(IMPORTING)
    assert combu("-f", file, "--engine", ENGINE, "-V", "more", "run", "--wait", "--run-id", "r1").returncode == 1
    return file, values


def test_an_edited_import_is_noticed_and_values_are_those_of_the_run(combu, importing, states):
    file, values = importing
    assert "edited" not in combu("-f", file, "--engine", ENGINE, "retry").stderr
    values.write_text("{ code: 0 }")
    assert NOTE.format("retry") in combu("-f", file, "--engine", ENGINE, "retry").stderr
    values.write_text("{ code: 3 } // as it was")
    assert "edited after it was recorded, and no trial differs" in combu("-f", file, "--engine", ENGINE, "retry").stderr
    values.write_text("{ code: 0 }")
    assert combu("-f", file, "--engine", ENGINE, "retry", "--edited").returncode == 0
    assert states(file) == {"bad": ("succeeded", 5)}


def test_a_file_that_cannot_be_read_costs_a_note_only(combu, importing, states, monkeypatch):
    file, values = importing

    def retry(words):
        result = combu("-f", file, "--engine", ENGINE, "retry")
        assert "run r1: the recorded text is used; the current file cannot be read: " in result.stderr
        assert words in result.stderr
        assert "1 trial is retried" in result.stderr
        return states(file)["bad"]

    values.write_text("{ code: }")
    assert retry("values.libsonnet:1:") == ("failed", 2)
    values.unlink()
    assert retry("no such file") == ("failed", 3)
    values.write_text("{ code: 4 }")
    monkeypatch.delenv("more")
    assert retry("--ext-str more=VALUE") == ("failed", 4)
    monkeypatch.setenv("more", "")
    file.unlink()
    assert retry("no such file") == ("failed", 5)
    result = combu("-f", file, "--engine", ENGINE, "retry", "--edited")
    assert (result.returncode, states(file)["bad"]) == (2, ("failed", 5))


def running(database):
    return database.execute("SELECT count(*) FROM states WHERE state = 'running'").fetchone()[0]


def test_a_parallel_that_was_set_survives_apply(combu, write, start, request):
    lines = [trial(f"t{i}", "sleep 1000") for i in range(6)]
    file = write(trials(*lines, parallel=2))
    run = at_work(start, file, 2)
    database = request.getfixturevalue("database")

    combu("-f", file, "--engine", ENGINE, "set", "parallel=3")
    wait_until(lambda: running(database) == 3)
    write(trials(*lines, trial("new"), parallel=2))
    told = combu("-f", file, "--engine", ENGINE, "apply").stderr
    assert "1 trial is new" in told
    assert "parallel=3" in combu("-f", file, "--engine", ENGINE, "set", "starts_in_flight=4").stderr
    write(trials(*lines, trial("new"), parallel=5))
    combu("-f", file, "--engine", ENGINE, "apply")
    wait_until(lambda: running(database) == 5)
    assert run.poll() is None


def test_a_parallel_that_was_set_survives_the_runs_process(combu, write, start, request):
    lines = [trial(f"t{i}", "sleep 1000") for i in range(6)]
    file = write(trials(*lines, parallel=1))
    run = at_work(start, file, 1)
    database = request.getfixturevalue("database")

    combu("-f", file, "--engine", ENGINE, "set", "parallel=6")
    wait_until(lambda: running(database) == 6)
    run.kill()
    run.wait()
    # The containers are gone, because the simulated engine ended with its process. Three more trials run at the same time.
    write(trials(*lines, *(trial(f"n{i}", "sleep 1000") for i in range(3)), parallel=1))
    start("-f", file, "--engine", ENGINE, "apply")
    wait_until(lambda: running(database) == 3)
