"""Tests of the cache: a trial that has succeeded is not executed again."""

import contextlib
import sqlite3

import pytest

from conftest import SIMULATED

LEARN = """
local uuid = "UUID";
[{ name: "learn-%d" % seed, image: "lab/learn", cmd: "sh -c 'echo %d > /out; echo UUID=%s'" % [seed, uuid],
   params: { seed: seed }, outputs: ["/out"], cache: true } for seed in std.range(1, 3)]
"""


@pytest.fixture
def learn(write):
    return write(LEARN)


def run(combu, file, *arguments, code=0, **options):
    done = combu("-f", file, "--engine", SIMULATED, "--progress", "plain", *arguments, **options)
    assert done.returncode == code, done.stderr
    return done


@pytest.fixture
def states(tmp_path):
    """states(run) returns the state of each trial of a run."""
    def read(run_id):
        with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite")) as database:
            return dict(database.execute("SELECT name, state FROM states JOIN runs ON number = run WHERE id = ?", [run_id]))

    return read


def results(tmp_path, run_id):
    return tmp_path / "results" / "experiment" / run_id


def test_an_equal_trial_is_skipped_and_has_the_same_outputs(combu, learn, tmp_path, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    again = run(combu, learn, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    assert "3 skipped" in again.stderr
    assert set(states("bbbbbbbbbbbb").values()) == {"skipped"}
    for seed in (1, 2, 3):
        first, second = (results(tmp_path, run_id) / f"learn-{seed}" for run_id in ("aaaaaaaaaaaa", "bbbbbbbbbbbb"))
        assert (second / "out").read_text() == f"{seed}\n"
        assert (second / "manifest.sha256").read_text() == (first / "manifest.sha256").read_text()
    assert not list(results(tmp_path, "bbbbbbbbbbbb").glob(".*"))
    why = combu("-f", learn, "why", "learn-2").stdout
    assert why == "learn-2 was skipped: equal to `learn-2` of run aaaaaaaaaaaa\n"


def test_only_what_differs_is_run(combu, learn, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    learn.write_text(LEARN.replace("std.range(1, 3)", "std.range(2, 4)").replace("learn-%d", "other-%d"))
    run(combu, learn, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    assert states("bbbbbbbbbbbb") == {"other-2": "skipped", "other-3": "skipped", "other-4": "succeeded"}
    why = combu("-f", learn, "why", "other-4").stdout
    assert why.startswith("other-4 has succeeded; the trial differs from `learn-")
    assert "params.seed is 4, but was " in why and "cmd is sh -c" in why


def test_another_experiment_knows_of_it(combu, learn, write, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    other = write(f'{{ experiment: "other", trials: {LEARN.strip().splitlines()[0]} {"".join(LEARN.strip().splitlines()[1:])} }}',
                  "other/other.jsonnet")
    run(combu, other, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    assert set(states("bbbbbbbbbbbb").values()) == {"skipped"}


def test_no_cache_runs_all_and_is_known_from_then_on(combu, learn, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    run(combu, learn, "run", "--wait", "--no-cache", "--run-id", "bbbbbbbbbbbb")
    assert set(states("bbbbbbbbbbbb").values()) == {"succeeded"}
    assert "--no-cache" in combu("-f", learn, "why", "learn-1").stdout
    run(combu, learn, "run", "--wait", "--run-id", "cccccccccccc")
    assert combu("-f", learn, "why", "learn-1").stdout.endswith("of run bbbbbbbbbbbb\n")


@pytest.mark.parametrize("lost", ["out", "manifest.sha256"])
def test_outputs_that_are_not_there_any_more_are_made_again(combu, learn, tmp_path, lost, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    (results(tmp_path, "aaaaaaaaaaaa") / "learn-1" / lost).unlink()
    run(combu, learn, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    assert states("bbbbbbbbbbbb") == {"learn-1": "succeeded", "learn-2": "skipped", "learn-3": "skipped"}
    assert (results(tmp_path, "bbbbbbbbbbbb") / "learn-1" / "out").read_text() == "1\n"
    assert "has no outputs to reuse" in combu("-f", learn, "why", "learn-1").stdout


def test_what_was_skipped_is_run_when_it_is_tried_again(combu, learn, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    run(combu, learn, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    run(combu, learn, "retry", "--wait", "learn-2")
    assert states("bbbbbbbbbbbb") == {"learn-1": "skipped", "learn-2": "succeeded", "learn-3": "skipped"}


def test_what_has_failed_is_not_taken_for_done(combu, write):
    file = write('[{ name: "aa", image: "x", cmd: "exit 3", cache: true }]')
    run(combu, file, "run", "--wait", code=1)
    run(combu, file, "run", "--wait", code=1)


def test_a_trial_without_outputs_is_known_by_the_record_alone(combu, write, states):
    file = write('[{ name: "aa", image: "x", cmd: "true", cache: true },'
                 ' { name: "bb", image: "x", cmd: "true", depends: [{ trial: "aa", condition: "succeeded" }] }]')
    run(combu, file, "run", "--wait")
    run(combu, file, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    assert states("bbbbbbbbbbbb") == {"aa": "skipped", "bb": "succeeded"}


def test_only_the_named_fields_count(combu, write):
    text = '[{ name: "aa", image: "x", cmd: "echo %s", params: { lr: 1 }, cache: { key: ["params.lr"] } }]'
    file = write(text % "one")
    run(combu, file, "run", "--wait")
    file.write_text(text % "two")
    assert "1 skipped" in run(combu, file, "run", "--wait").stderr


def test_what_was_skipped_and_is_edited_is_run(combu, learn, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    run(combu, learn, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    learn.write_text(LEARN.replace("std.range(1, 3)", "[1, 2, 4]").replace("echo %d > /out", "echo %d0 > /out; test 1"))
    run(combu, learn, "apply")
    found = states("bbbbbbbbbbbb")
    assert {name: found[name] for name in ("learn-1", "learn-2", "learn-4")} == dict.fromkeys(("learn-1", "learn-2", "learn-4"), "succeeded")


def test_what_is_edited_to_what_has_been_done_is_skipped(combu, learn, states):
    run(combu, learn, "run", "--wait", "--run-id", "aaaaaaaaaaaa")
    learn.write_text(LEARN.replace("std.range(1, 3)", "[7]"))
    run(combu, learn, "run", "--wait", "--run-id", "bbbbbbbbbbbb")
    learn.write_text(LEARN)
    run(combu, learn, "apply")
    found = states("bbbbbbbbbbbb")
    assert {name: found[name] for name in ("learn-1", "learn-2", "learn-3")} == dict.fromkeys(("learn-1", "learn-2", "learn-3"), "skipped")
