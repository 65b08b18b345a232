"""Tests of `why` and `times`: what a trial waits for, and how its time divides into parts."""

import json
import re
import subprocess

import pytest
from conftest import COMBU, SLOW, run


def test_why_tells_the_cause(combu, failing):
    run(combu, failing, "run", "--wait")

    def why(trial):
        return combu("-f", failing, "why", trial)

    assert why("good").stdout == "good has succeeded\n"
    assert why("bad").stdout == "bad failed: exit code 3\n"
    assert why("last").stdout == (
        "last is blocked: depends on `after`, which is blocked by `bad`; bad failed: exit code 3\n")
    unknown = why("goad")
    assert (unknown.returncode, unknown.stderr) == (1, "combu: goad: is not a trial of the run; did you mean `good`?\n")


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
        # A fact may be reported before it is on record. At the next snapshot, it is on record.
        assert any(json.loads(line)["event"] == "snapshot" for line in process.stderr)
        lines = [combu("-f", file, "why", trial).stdout for trial in ("three", "four", "one")]
        assert lines[0] == "three waits: 2 attempts are alive, which is the limit (parallel)\n"
        assert lines[1] == "four waits for `one` to end (it is running), `three` to be started (it is waiting)\n"
        assert re.fullmatch(r"one runs for [0-9.]+ m?s\n", lines[2])
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    assert re.search(r"; no process owns the run: `combu run --resume [a-z0-9]{12}` resumes it\n",
                     combu("-f", file, "why", "three").stdout)


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
    assert not any("needs" in times[trial] for trial in ("one", "two")), "they wait for no other trial"
    lines = combu("-f", file, "times").stdout.splitlines()
    assert re.fullmatch(r"run [a-z0-9]{12}: 3 attempts in .+", lines[0])
    assert "before the run, evaluated in " in lines[0] and "prepared in " in lines[0]
    assert [line[:24].strip() for line in lines[2:]] == [
        "waiting for dependencies", "waiting for slots", "combu itself", "creating", "starting", "running"]
    for row in times.values():
        assert min(row[key] for key in ("place", "combu", "creating", "starting", "running")) >= 0
        assert 0.05 <= row["starting"] <= 0.2
    of_one = combu("-f", file, "times", "one").stdout.splitlines()
    assert len(of_one) == 2 and of_one[1].startswith("one ")
    assert dict(zip(of_one[0].split(), of_one[1].split()))["DEPENDS"] == "-"
    assert combu("-f", file, "times", "nobody").returncode == 1


def test_the_wait_for_a_canary_is_no_wait_for_what_a_trial_depends_on(combu, write):
    file = write('{ canary: true, trials: [{ name: "t-%d" % i, image: "lab/x", cmd: "sleep 0.3" } for i in [1, 2]] }')
    combu("-f", file, "--engine", SLOW, "--progress", "quiet", "run", "--wait")
    first, second = map(json.loads, combu("-f", file, "times", "--json").stdout.splitlines())
    assert "needs" not in first and "needs" not in second
    assert second["place"] >= first["running"] > 0


def test_a_trial_that_waits_is_told_as_such(combu, failing, write, record):
    """The message is the same if all other containers of the run were removed."""
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record("UPDATE trials SET over = NULL, over_at = NULL, reason = NULL WHERE trial NOT IN (SELECT trial FROM attempts) RETURNING 1")
    [waiting, *_] = [name for name, in record("SELECT name FROM states WHERE state = 'waiting'")]
    for verb in ("logs", "stop", "wait"):
        told = run(combu, failing, verb, waiting)
        assert told.returncode == 1
        assert f"has no container yet: the trial is waiting in run mine; `combu why {waiting} --run mine` explains why" in told.stderr
    [over, *_] = [name for name, in record("SELECT name FROM states WHERE state = 'failed'")]
    assert "the trial is failed in run mine, and the container has been removed" in run(combu, failing, "stop", over).stderr


def test_the_pause_before_a_retry_is_told(combu, write):
    file = write("""
    [{ name: "one", image: "lab/x", cmd: "exit 3", retries: { max: 1, backoff: { initial: "300ms" } } }]
    """)
    combu("-f", file, "--engine", SLOW, "--progress", "quiet", "run", "--wait")
    first, second = map(json.loads, combu("-f", file, "times", "--json").stdout.splitlines())
    assert "retry" not in first and "needs" not in second
    assert 0.25 <= second["retry"] < 5
    assert re.search(r"^waiting to retry +[3-9]", combu("-f", file, "times").stdout, re.MULTILINE)
    assert "RETRY" in combu("-f", file, "times", "one").stdout.splitlines()[0]


def test_the_first_attempt_that_retry_begins_has_not_waited_to_retry(combu, write):
    file = write("""
    [{ name: "one", image: "lab/x", cmd: "exit 3" },
     { name: "two", image: "lab/x", cmd: "exit 3", retries: { max: 1, backoff: { initial: "300ms" } } }]
    """)
    combu("-f", file, "--engine", SLOW, "--progress", "quiet", "run", "--wait")
    combu("-f", file, "--engine", SLOW, "--progress", "quiet", "retry", "--wait")
    rows = list(map(json.loads, combu("-f", file, "times", "--json").stdout.splitlines()))
    assert [(row["trial"], row["attempt"]) for row in rows if "retry" in row] == [("two", 2), ("two", 4)]
    assert not any("needs" in row for row in rows)
    heads, _, second = combu("-f", file, "times", "one").stdout.splitlines()
    assert dict(zip(heads.split(), second.split()))["RETRY"] == "-"


def test_why_names_who_holds_what_is_waited_for(combu, write, begun):
    file = write("""
    [{ name: "cpu", image: "lab/x", cmd: "sleep 600", cpus: 2 },
     { name: "both", image: "lab/x", cmd: "sleep 600", cpus: 1, gpus: 1 },
     { name: "gpu", image: "lab/x", cmd: "true", gpus: 1 },
     { name: "all", image: "lab/x", cmd: "true", cpus: 6, gpus: 1 }]
    """)
    begun(file, "--wait", running=["cpu", "both"])
    assert combu("-f", file, "why", "gpu").stdout == "gpu waits for 1 GPU; held by `both` (1 GPU)\n"
    assert combu("-f", file, "why", "all").stdout == (
        "all waits for 6 CPUs, 1 GPU; held by `both` (1 CPU, 1 GPU), `cpu` (2 CPUs)\n")


def test_why_tells_whom_a_trial_lets_go_first(combu, write, begun):
    file = write("""
    [{ name: "long", image: "lab/x", cmd: "sleep 600", cpus: 1 }, { name: "large", image: "lab/x", cmd: "true", cpus: 8 }] +
    [{ name: "s-%02d" % i, image: "lab/x", cmd: "true", cpus: 1 } for i in std.range(1, 40)]
    """)
    begun(file, "--wait", running=["long", "s-32"])
    assert combu("-f", file, "why", "large").stdout == "large waits for 8 CPUs; held by `long` (1 CPU)\n"
    assert combu("-f", file, "why", "s-40").stdout == "s-40 waits, so that `large` gets 8 CPUs\n"


def test_a_further_attempt_that_waits_for_slots_is_told_as_such(combu, write, begun):
    file = write("""
    [{ name: "flaky", image: "lab/x", cmd: "exit 1", cpus: 6, retries: { max: 1, backoff: { initial: 0 } } },
     { name: "holder", image: "lab/x", cmd: "sleep 600", cpus: 6 }]
    """)
    begun(file, "--wait", running=["flaky", "holder"])
    assert combu("-f", file, "why", "flaky").stdout == (
        "flaky waits for 6 CPUs; held by `holder` (6 CPUs); attempt 2, after exit code 1\n")
    [row] = [line for line in combu("-f", file, "ps", "--engine", SLOW).stdout.splitlines() if line.startswith("flaky")]
    assert row.split()[:2] == ["flaky", "ready"] and row.endswith("exit code 1; attempt 2 waits to be started")


def test_why_counts_no_services_for_parallel(combu, write, begun):
    file = write("""
    { parallel: 2, trials: [
      { name: "serv", image: "lab/x", cmd: "sleep 600", service: true },
      { name: "one", image: "lab/x", cmd: "sleep 600" },
      { name: "two", image: "lab/x", cmd: "sleep 600" }, { name: "three", image: "lab/x", cmd: "true" }] }
    """)
    begun(file, "--wait", running=["serv", "one", "two"])
    assert combu("-f", file, "why", "three").stdout == (
        "three waits: 2 attempts are alive, which is the limit (parallel)\n")


@pytest.mark.parametrize("deadline, cmd, words", [
    ("null", "true", " because no trial needed it any more"),
    ("'1h'", "true", " because no trial needed it any more"),
    ("1", "sleep 600", " after the run's deadline of 1.0 s had passed"),
])
def test_why_tells_why_a_service_was_stopped(combu, write, deadline, cmd, words):
    file = write("""
    { deadline: %s, trials: [{ name: "serv", image: "lab/x", cmd: "sleep 600", service: true },
                             { name: "one", image: "lab/x", cmd: "%s" }] }
    """ % (deadline, cmd))
    combu("-f", file, "--engine", SLOW, "run", "--wait")
    assert combu("-f", file, "why", "serv").stdout == f"serv was stopped{words}\n"


def test_a_service_that_is_not_tried_again_tells_so(combu, write):
    file = write("""
    [{ name: "serv", image: "lab/x", cmd: "exit 1", service: true, retries: { max: 5, backoff: { initial: "60s" } } },
     { name: "one", image: "lab/x", cmd: "sleep 1", depends: ["serv"] }]
    """)
    combu("-f", file, "--engine", SLOW, "run", "--wait")
    assert combu("-f", file, "why", "serv").stdout == (
        "serv was stopped: exit code 1; not retried: no trial needs this service any more\n")
