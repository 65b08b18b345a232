"""An edited file is taken into a run."""

import json
import os
import re
import subprocess

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
