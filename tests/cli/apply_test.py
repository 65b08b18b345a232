"""An edited file is taken into a run."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import time

import pytest
from conftest import COMBU

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
    """start(arguments…) is the program at work; none is left behind."""
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
    """The record, which nobody else writes while a transaction of this one is open."""
    with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite", isolation_level=None, timeout=20)) as database:
        yield database


def wait_until(is_so):
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def at_work(start, file, count):
    """A run of which so many trials run, by its record."""
    run = start("-f", file, "--engine", ENGINE, "--progress", "plain", "run", "--wait", "--run-id", "r1")
    path = file.parent / ".local/state/combu/record.sqlite"

    def is_so():
        if not path.exists():
            return False
        with contextlib.closing(sqlite3.connect(path, timeout=20)) as database:
            try:
                return database.execute("SELECT count(*) FROM states WHERE state = 'running'").fetchone() == (count,)
            except sqlite3.OperationalError:
                return False  # not made yet

    wait_until(is_so)
    return run


def test_what_is_added_to_a_run_that_is_over_is_run(combu, write, states):
    file = write(trials(trial("one"), trial("two")))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 0
    write(trials(trial("zero"), trial("one"), trial("two"), trial("three", depends=["two"])))
    result = combu("-f", file, "--engine", ENGINE, "apply")
    assert result.returncode == 0, result.stderr
    assert "2 trials join" in result.stderr
    assert states(file) == {name: ("succeeded", 1) for name in ("one", "two", "zero", "three")}
    assert "the file has not changed" in combu("-f", file, "--engine", ENGINE, "apply").stderr


def test_what_has_changed_is_told_and_left_unless_it_is_replaced(combu, write, states):
    file = write(trials(trial("one"), trial("bad", "exit 3"), trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 1
    write(trials(trial("one"), trial("bad", "exit 0"), trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])))
    result = combu("-f", file, "--engine", ENGINE, "apply")
    assert "changed, but left as it is, since it has been started: bad; `apply --replace` runs it anew" in result.stderr
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
        (trials(trial("one"), experiment="other"), 2, "is of the experiment other now"),
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


def test_the_process_at_work_goes_on_with_the_edited_file(combu, write, tmp_path):
    lines = [trial(f"t{i}", "sleep 1000") for i in range(6)]
    file = write(trials(*lines, parallel=2))
    run = subprocess.Popen([COMBU, "-f", file, "--engine", ENGINE, "--progress", "json", "run", "--wait", "--run-id", "r1"],
                           env={**os.environ, "HOME": str(tmp_path)}, stderr=subprocess.PIPE, text=True)
    told = map(json.loads, run.stderr)
    try:
        assert next(line for line in told if line["event"] == "snapshot" and line["counts"]["running"] == 2)
        # t0 and t1 run. Others are taken out, and one is new.
        write(trials(lines[0], lines[1], trial("new", "sleep 1000"), parallel=3))
        result = combu("-f", file, "--engine", ENGINE, "apply")
        assert (result.returncode, "run r1: 1 trial joins, 4 are removed" in result.stderr) == (0, True), result.stderr
        assert next(line for line in told if line["event"] == "snapshot" and line["counts"]["running"] == 3)
        assert run.poll() is None
    finally:
        run.kill()
        run.communicate()
    rows = {row["trial"]: row["state"] for row in map(json.loads, combu("ps", "--run", "r1", "--json", "--engine", ENGINE).stdout.splitlines())}
    assert [rows[f"t{i}"] for i in range(2, 6)] == ["stopped"] * 4
    assert re.search("removed from the file", combu("why", "t3", "--run", "r1").stdout)


def test_what_joins_brings_its_services_back(combu, write, states):
    """Also when these need one themselves; one that has changed is as the file says now."""
    lines = [trial("base", "sleep 1000000", service=True), trial("serv", "sleep 1000000", service=True, depends=["base"]),
             trial("user", depends=["serv"]), trial("bad", "exit 3", depends=["serv"])]
    file = write(trials(*lines))
    assert combu("-f", file, "--engine", ENGINE, "run", "--wait").returncode == 1
    lines[1]["cmd"] = "sleep 2000000"
    write(trials(*lines, trial("more", depends=["serv"])))
    result = combu("-f", file, "--engine", ENGINE, "--progress", "json", "apply")
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert [line["trial"] for line in told if line["event"] == "fact" and line["state"] == "running"] == ["base", "serv", "more"]
    assert "1 trial joins, 1 is as the file says now" in result.stderr
    assert states(file) == {"base": ("stopped", 2), "serv": ("stopped", 2), "user": ("succeeded", 1),
                            "bad": ("failed", 1), "more": ("succeeded", 1)}


def test_two_at_once_change_the_run_one_after_another(write, start, tmp_path, request):
    file = write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 1000")))
    run = at_work(start, file, 2)
    database = request.getfixturevalue("database")
    write(trials(trial("t0", "sleep 1000"), trial("t1", "sleep 1000"), trial("new", "sleep 1000")))
    # Nothing gets on record until both have the run's file as it was.
    database.execute("BEGIN IMMEDIATE")
    both = [start("-f", file, "--engine", ENGINE, "--progress", "json", "apply") for _ in range(2)]
    for one in both:
        assert any(json.loads(line).get("text") == "waiting for the starts in flight" for line in one.stderr)
    database.execute("COMMIT")
    told = [one.communicate(timeout=60)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], told
    assert sorted(json.loads(text.splitlines()[-1])["text"] for text in told) == [
        "run r1: 1 trial joins", "run r1: the file has not changed"]
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
    assert "run r1: its process has ended, or has waited too long and gone on; nothing was changed: the same command tries again" in told
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
    assert any("an `apply` took too long, and was given up" in line for line in run.stderr)
    apply.send_signal(signal.SIGCONT)
    _, told = apply.communicate(timeout=60)
    assert (apply.returncode, "has waited too long and gone on; nothing was changed: the same command tries again" in told) == (1, True), told
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
        assert f"was begun with `{words}`: give the same again, or others" in result.stderr
        assert states(file) == {f"t{i}": ("succeeded", 1) for i in (1, 2, 3)}
    assert "1 trial joins" in combu("-f", file, "--engine", ENGINE, "-A", "n=4", "apply").stderr
