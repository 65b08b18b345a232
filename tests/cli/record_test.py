"""What is on record, and the commands that read it."""

import contextlib
import http.server
import json
import os
import re
import socketserver
import sqlite3
import subprocess
import threading

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
    version, evaluator = combu("version", "--verbose").stdout.replace("evaluator: ", "").splitlines()
    assert row[3] and row[4] == f"{version} ({evaluator})"
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
    assert (without.returncode, without.stderr) == (1, "combu: experiment.jsonnet: no run of it is on record\n")


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
    assert not any("needs" in times[trial] for trial in ("one", "two")), "they wait for no other trial"
    lines = combu("-f", file, "times").stdout.splitlines()
    assert re.fullmatch(r"run [a-z0-9]{12}: 3 attempts in .+", lines[0])
    assert "evaluated before in " in lines[0] and "prepared in " in lines[0]
    assert [line[:20].strip() for line in lines[2:]] == [
        "waiting for others", "waiting for a place", "combu itself", "creating", "starting", "running"]
    for row in times.values():
        assert min(row[key] for key in ("place", "combu", "creating", "starting", "running")) >= 0
        assert 0.05 <= row["starting"] <= 0.2
    of_one = combu("-f", file, "times", "one").stdout.splitlines()
    assert len(of_one) == 2 and of_one[1].startswith("one ")
    assert dict(zip(of_one[0].split(), of_one[1].split()))["OTHERS"] == "-"
    assert combu("-f", file, "times", "nobody").returncode == 1


def test_the_wait_for_a_canary_is_no_wait_for_what_a_trial_depends_on(combu, write):
    file = write('{ canary: true, trials: [{ name: "t-%d" % i, image: "lab/x", cmd: "sleep 0.3" } for i in [1, 2]] }')
    combu("-f", file, "--engine", SLOW, "--progress", "quiet", "run", "--wait")
    first, second = map(json.loads, combu("-f", file, "times", "--json").stdout.splitlines())
    assert "needs" not in first and "needs" not in second
    assert second["place"] >= first["running"] > 0


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
    assert lines[0] == f"run mine (simulated) of {failing}, ended: 1 succeeded, 1 failed, 2 blocked"
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
    mistyped = combu("-f", file, "--engine", SIMULATED, "ps", "--where", "lrr<0.01")
    assert mistyped.returncode == 0 and "--where: no trial of run" in mistyped.stderr and "has `lrr`" in mistyped.stderr
    mistyped = combu("-f", file, "--engine", SIMULATED, "ps", "--where", "state=fialed")
    assert mistyped.returncode == 2 and "`fialed` is no state; waiting, ready, " in mistyped.stderr
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
    assert lines[0].endswith(", interrupted: 1 waiting, 1 stopped")
    assert lines[2].endswith(" its container is gone, and how it ended is not on record")
    [row] = ps(combu, file, "--where", "state=stopped")
    assert (row["exit_code"], row["cause"]) == (None, "stopped")


def test_ps_answers_from_the_record_while_the_engine_is_away(combu, failing, record, tmp_path):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record(f"UPDATE runs SET address = 'unix://{tmp_path}/no.sock'")
    away = combu("-f", failing, "ps")
    assert away.returncode == 0 and away.stdout.count("\n") == 6
    assert away.stderr.startswith(f"this is what is on record; the engine could not be asked: unix://{tmp_path}/no.sock: ")


class Containers(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers what `ps` asks of a Docker Engine: which containers there are, and what they use."""

    daemon_threads = True

    def __init__(self, path, answers):
        self.answers = answers
        super().__init__(str(path), ContainersHandler)


class ContainersHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        answer = self.server.answers.get(re.sub(r"^/v[\d.]+/", "/", self.path.split("?")[0]))
        body = json.dumps({"message": "no such thing"} if answer is None else answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Api-Version", "1.41")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def containers(tmp_path):
    """containers(answers) answers at the socket that it gives, until the test is over."""
    servers = []

    def serve(answers):
        path = tmp_path / f"engine-{len(servers)}.sock"
        servers.append(Containers(path, {"/_ping": "OK", **answers}))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return path

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def test_ps_shows_what_runs_uses(combu, write, begun, record, containers):
    file = write("""
    [{ name: "one", image: "lab/x", cmd: "sleep 600" }, { name: "two", image: "lab/x", cmd: "sleep 600" },
     { name: "three", image: "lab/x", cmd: "true", depends: [{ trial: "two", condition: "succeeded" }] }]
    """)
    process = begun(file, "--run-id", "mine", running=["one", "two"])
    process.kill()
    process.wait()
    labels = {"combu.experiment": str(file), "combu.file": str(file), "combu.run": "mine", "combu.attempt": "1",
              "combu.service": "false"}
    listed = [{"Id": f"id-{name}", "Names": [f"/{name}"], "Image": "lab/x", "State": "running", "Status": "Up 3 minutes",
               "Created": 1769860800, "Labels": {**labels, "combu.trial": name}} for name in ("one", "two")]
    inspected = {f"/containers/id-{name}/json":
                 {"Id": f"id-{name}", "Name": f"/{name}", "Image": "sha256:01", "Config": {"Image": "lab/x", "Labels": {}},
                  "State": {"Status": "running", "ExitCode": 0, "StartedAt": "2026-01-31T12:00:00Z"}} for name in ("one", "two")}
    use = {"memory_stats": {"usage": 313 << 20, "stats": {"inactive_file": 1 << 20}},
           "cpu_stats": {"cpu_usage": {"total_usage": 1500 * 10**9}}}
    path = containers({"/containers/json": listed, **inspected, "/containers/id-one/stats": use})
    record(f"UPDATE runs SET address = 'unix://{path}'")
    record("UPDATE attempts SET ran_at = ran_at - 1000 * 1000000")  # a thousand seconds ago
    shown = combu("-f", file, "ps")
    assert (shown.returncode, shown.stderr) == (0, "")
    lines = shown.stdout.splitlines()
    assert re.fullmatch(r"one +running +1 +16m\d\ds +312 MiB +1\.[345] cores", lines[2]), lines
    assert re.fullmatch(r"two +running +1 +16m\d\ds +- +-", lines[3]), "the engine does not tell"
    assert re.fullmatch(r"three +waiting +1 +- +- +-", lines[4])
    one, two, three = ps(combu, file)
    assert (one["memory"], one["memory_peak"], one["cpu_seconds"]) == (312 << 20, None, 1500)
    assert two["memory"] is two["cpu_seconds"] is three["memory"] is None
    assert [row["memory"] for row in ps(combu, file, "--limit", "1")] == [312 << 20]


def test_ps_shows_what_has_ended_used(combu, write, record):
    file = write('[{ name: "one", image: "lab/x", cmd: "true" }]')
    assert run(combu, file, "run", "--wait").returncode == 0
    record("UPDATE attempts SET memory_peak = 1610612736, cpu_time = 90 * 1000000")
    assert re.search(r"^one +succeeded +1 +\S+ \S+ +1\.5 GiB +1m30s$", combu("-f", file, "ps").stdout, re.M)
    [one] = ps(combu, file)
    assert (one["memory"], one["memory_peak"], one["cpu_seconds"]) == (None, 1610612736, 90)


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
    wrong = run(combu, failing, "retry", "state=failed")
    assert (wrong.returncode, wrong.stderr) == (
        2, "combu: retry state=failed: matches no trial: none has a param `state`, and only params, `trial` and `image` count here\n")


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


def states(record):
    return dict(record("SELECT name, state || ' ' || attempt FROM states"))


def test_a_retry_of_what_was_blocked_brings_what_it_needs(combu, failing, record):
    """Through others that were blocked, too."""
    run(combu, failing, "run", "--wait")
    again = run(combu, failing, "retry", "last", "--wait")
    assert "3 trials are tried again" in again.stderr
    assert states(record) == {"good": "succeeded 1", "bad": "failed 2", "after": "blocked 1", "last": "blocked 1"}


def test_a_retry_by_name_leaves_the_rest_that_was_not_started(combu, write, record):
    trials = ", ".join(f'{{ name: "{name}", image: "lab/x", cmd: "sh -c \'exit {code}\'" }}'
                       for name, code in (("bad", 3), ("one", 0), ("two", 0)))
    file = write(f"{{ max_failures: 1, parallel: 1, trials: [{trials}] }}")
    run(combu, file, "run", "--wait")
    assert states(record) == {"bad": "failed 1", "one": "blocked 1", "two": "blocked 1"}
    run(combu, file, "retry", "one", "--wait")
    assert states(record) == {"bad": "failed 1", "one": "succeeded 1", "two": "blocked 1"}


def test_an_env_file_that_is_gone_is_in_the_way_of_starts_only(combu, write, record, tmp_path):
    file = write("""
[{ name: "one", image: "lab/x", cmd: "sleep 1000", env_file: "e.env" },
 { name: "two", image: "lab/x", cmd: "true", env_file: "e.env", depends: [{ trial: "one", condition: "finished" }] }]
""")
    (tmp_path / "e.env").write_text("A=1\n")
    engine = "simulated:?speed=1&start=0.01"
    process = subprocess.Popen([COMBU, "-f", file, "--engine", engine, "--progress", "json", "run", "--wait", "--run-id", "mine"],
                               env={"HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert any('"snapshot"' in line and json.loads(line)["counts"]["running"] == 1 for line in process.stderr)
    finally:
        process.kill()
        process.communicate()
    (tmp_path / "e.env").unlink()
    resumed = combu("-f", file, "--engine", engine, "run", "--resume")
    assert resumed.returncode == 2 and "[1].env_file: cannot read" in resumed.stderr
    assert states(record) == {"one": "stopped 1", "two": "waiting 1"}  # it is gone with its engine
    for command in (("ps",), ("why", "two")):
        looked = combu("-f", file, "--engine", engine, *command)
        assert (looked.returncode, looked.stderr) == (0, "")
    retried = combu("-f", file, "--engine", engine, "retry")
    assert retried.returncode == 2 and ".env_file: cannot read" in retried.stderr
    assert states(record) == {"one": "stopped 1", "two": "waiting 1"}
    (tmp_path / "e.env").write_text("A=2\n")
    assert combu("-f", file, "--engine", engine, "run", "--resume").returncode == 1
    assert states(record) == {"one": "stopped 1", "two": "succeeded 1"}


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


def test_rm_keeps_what_is_not_over(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "left")
    # As one looks that was interrupted before its last start.
    assert record("UPDATE trials SET over = NULL, over_at = NULL, reason = NULL WHERE name = 'last' RETURNING name") == [("last",)]
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


@pytest.mark.parametrize("chosen", [["-f", "experiment.jsonnet"], []])
def test_ps_says_by_its_exit_code_that_the_record_could_not_be_read(combu, ladder, tmp_path, chosen):
    assert run(combu, ladder, "run", "--wait").returncode == 0
    path = tmp_path / ".local/state/combu/record.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    told = combu("--engine", SIMULATED, *chosen, "ps")
    assert told.returncode == 2
    assert "was made by a newer combu" in told.stderr and "on record" not in told.stderr


def test_a_wait_for_another_writer_is_told(combu, failing, tmp_path):
    assert run(combu, failing, "run", "--wait").returncode == 1
    path = tmp_path / ".local/state/combu/record.sqlite"
    waiting = [COMBU, "-f", failing, "--engine", SIMULATED, "--progress", "plain", "run", "--wait"]
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        process = subprocess.Popen(waiting, env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        try:
            assert any("another process is writing to the record: waiting for it" in line for line in process.stderr)
            database.execute("COMMIT")
            process.communicate(timeout=60)
            assert process.returncode == 1
        finally:
            process.kill()


def test_a_trial_that_waits_is_told_as_such(combu, failing, write, record):
    """Also where others of its run are there no more."""
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record("UPDATE trials SET over = NULL, over_at = NULL, reason = NULL WHERE trial NOT IN (SELECT trial FROM attempts) RETURNING 1")
    [waiting, *_] = [name for name, in record("SELECT name FROM states WHERE state = 'waiting'")]
    for verb in ("logs", "stop", "wait"):
        told = run(combu, failing, verb, waiting)
        assert told.returncode == 1
        assert f"there is no container of it yet: it is waiting in run mine; `combu why {waiting} --run mine` says for what" in told.stderr
    [over, *_] = [name for name, in record("SELECT name FROM states WHERE state = 'failed'")]
    assert "it is failed in run mine, and its container has been removed" in run(combu, failing, "stop", over).stderr


def test_who_begins_anew_is_told_of_the_run_that_is_interrupted(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record("UPDATE trials SET over = NULL, over_at = NULL, reason = NULL WHERE trial NOT IN (SELECT trial FROM attempts) RETURNING 1")
    record("UPDATE runs SET ended_at = NULL RETURNING 1")
    told = run(combu, failing, "run", "--wait").stderr
    assert re.search("run mine is interrupted: `combu .*run --resume mine` goes on with it; this one begins anew", told)
    assert "is interrupted" not in run(combu, failing, "run", "--wait").stderr


def test_a_param_that_is_called_like_a_field(combu, write):
    file = write("""
    [{ name: "s-a-%d" % i, image: "lab/x", cmd: "true", params: { image: "m%d" % i, id: i } } for i in std.range(0, 2)]
    """)
    run(combu, file, "run", "--wait")
    assert "s-a-1 " in combu("-f", file, "ps", "--where", "params.image=m1 && image=lab/x").stdout
    assert "s-a-2" not in combu("-f", file, "ps", "--where", "params.id<2").stdout
    only = run(combu, file, "run", "--wait", "--run-id", "one", "--only", "params.image=m2", "--only", "s-a-[!12]")
    assert only.returncode == 0, only.stderr
    assert [json.loads(line)["trial"] for line in combu("ps", "--run", "one", "--json").stdout.splitlines()] == [
        "s-a-0", "s-a-2"]
    assert run(combu, file, "retry", "--run", "one", "params.id=0", "--wait").returncode == 0
    assert "s-a-0  succeeded  2" in combu("ps", "--run", "one").stdout


def test_a_condition_that_is_none_is_refused(combu, failing):
    run(combu, failing, "run", "--wait")
    refused = combu("-f", failing, "ps", "--where", "attempt=1 and state=failed")
    assert (refused.returncode, refused.stderr) == (
        2, 'combu: "attempt=1 and state=failed" is no condition: conditions are joined by &&\n')


SLOW = "simulated:?speed=1&start=0.01&gpus=1"


@pytest.fixture
def begun(tmp_path):
    """begun(file, arguments…, running) runs it as far as these trials run, and gives the process; it is killed in the end."""
    processes = []

    def begin(file, *arguments, running):
        process = subprocess.Popen([COMBU, "-f", file, "--engine", SLOW, "--progress", "json", "run", *arguments],
                                   env={"HOME": str(tmp_path)}, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        processes.append(process)
        missing = set(running)
        events = map(json.loads, process.stderr)
        while missing:
            event = next(events)
            if event["event"] == "fact" and event["state"] == "running":
                missing.discard(event["trial"])
        assert any(event["event"] == "snapshot" for event in events)
        return process

    yield begin
    for process in processes:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.mark.parametrize("fields, options", [("", ["--wait"]), ("retries: 1", []), ("timeout: '1h'", [])])
def test_a_run_that_somebody_has_to_stay_for_is_interrupted(combu, write, begun, record, tmp_path, fields, options):
    file = write('[{ name: "one", image: "lab/x", cmd: "sleep 600", %s }]' % fields)
    process = begun(file, "--run-id", "mine", *options, running=["one"])
    process.kill()
    process.wait()
    record(f"UPDATE runs SET address = 'unix://{tmp_path}/no.sock'")
    assert combu("-f", file, "ps").stdout.splitlines()[0].endswith(", interrupted: 1 running")
    assert combu("-f", file, "why", "one").stdout.endswith(
        "; nobody is at work on the run: `combu run --resume mine` goes on with it\n")


def test_a_run_that_nobody_has_to_stay_for_is_left_running(combu, write, record, tmp_path):
    file = write("""
    [{ name: "one", image: "lab/x", cmd: "sleep 600" }, { name: "two", image: "lab/x", cmd: "true", retries: 1 }]
    """)
    assert combu("-f", file, "--engine", SLOW, "run").returncode == 0
    record(f"UPDATE runs SET address = 'unix://{tmp_path}/no.sock'")
    assert combu("-f", file, "ps").stdout.splitlines()[0].endswith(", left running: 1 running, 1 succeeded")
    assert "nobody is at work" not in combu("-f", file, "why", "one").stdout


def test_the_list_of_runs_takes_in_what_has_ended(combu, write):
    file = write('[{ name: "one", image: "lab/x", cmd: "sleep 600" }]')
    assert combu("-f", file, "--engine", SLOW, "run", "--run-id", "mine").returncode == 0
    # A simulated engine goes away with its process.
    [row] = [json.loads(line) for line in combu("--engine", SLOW, "ps", "--json").stdout.splitlines()]
    assert (row["state"], row["counts"]) == ("ended", {"stopped": 1}) and row["ended_at"]
    assert combu("rm", "mine", "mine").stderr == "removed 1 run from the record\n"


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
        "three waits for a place: 2 attempts are alive, as many as may (parallel)\n")


@pytest.mark.parametrize("deadline, cmd, words", [
    ("null", "true", ", since its work was done"),
    ("'1h'", "true", ", since its work was done"),
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
        "serv was stopped: exit code 1; not tried again: its work was done\n")


@pytest.mark.parametrize("arguments", [["prune", "--before", "30"], ["logs", "--since", "30", "a"]])
def test_a_moment_has_a_unit(combu, failing, arguments):
    refused = combu("-f", failing, "--engine", SIMULATED, *arguments)
    assert (refused.returncode, refused.stderr) == (
        2, f"combu: {arguments[1]}: 30 what? 30d, 30h, 30m or 30s\n")


def test_what_does_not_exist_is_told(combu, failing, record):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    for arguments, words in [(["--run", "nosuch"], "combu: run nosuch: nothing of it is on record or on this engine"),
                             (["--experiment", "nosuch"], "combu: nosuch: nothing of it is on record or on this engine")]:
        nothing = combu("--engine", SIMULATED, "ps", *arguments)
        assert nothing.returncode == 1 and nothing.stderr.startswith(words)
    some = combu("-f", failing, "ps", "good", "nosuch", "neither-*")
    assert (some.returncode, some.stderr) == (1, "combu: nosuch, neither-*: are no trials of run mine\n")
    assert "good " in some.stdout
    none = combu("-f", failing, "ps", "good", "--where", "state=failed")
    assert (none.returncode, none.stderr) == (0, "")
    record("DELETE FROM attempts WHERE trial = 0")
    record("UPDATE trials SET over = NULL, over_at = NULL WHERE trial = 0")
    silent = combu("-f", failing, "events", "good")
    assert (silent.returncode, silent.stdout, silent.stderr) == (0, "", "")
    unknown = combu("-f", failing, "events", "nosuch")
    assert (unknown.returncode, unknown.stderr) == (1, "combu: nosuch: is no trial of run mine\n")


ECHO = """
[{ name: "one", image: "lab/x", cmd: "echo WORD" }]
"""


def test_kept_logs_are_found_without_the_file(combu, write):
    """In the newest run in which the trial has run; one that is not started in a later one has nothing to say there."""
    for number, word in enumerate(["first", "second"]):
        run(combu, write(ECHO.replace("WORD", word)), "run", "--wait", "--run-id", f"r{number}")
    blocked = """[{ name: "gate", image: "lab/x", cmd: "false" },
                  { name: "one", image: "lab/x", cmd: "true", depends: [{ trial: "gate", condition: "succeeded" }] }]"""
    run(combu, write(blocked), "run", "--wait", "--run-id", "r2")
    log = combu("--engine", SIMULATED, "logs", "one")
    assert (log.returncode, log.stdout, log.stderr) == (0, "second\n", "")
    write(ECHO.replace("WORD", "other"), "other/experiment.jsonnet")
    run(combu, "other/experiment.jsonnet", "run", "--wait", "--run-id", "r3")
    several = combu("--engine", SIMULATED, "logs", "one")
    assert several.returncode == 2 and "one: is of several experiments (" in several.stderr, several.stderr
    assert combu("--engine", SIMULATED, "logs", "nosuch").returncode == 1


TALKING = """
[{ name: "talk-%d" % i, image: "lab/x", cmd: "sh -c 'echo out %d; echo err %d >&2'" % [i, i] } for i in [2, 1, 3]] +
[{ name: "other", image: "lab/x", cmd: "echo other" }]
"""


@pytest.fixture
def talking_logs(combu, write):
    """talking_logs(arguments…) is (exit code, output, errors) of `logs` after a run of TALKING."""
    file = write(TALKING)
    assert run(combu, file, "run", "--wait", "--run-id", "mine").returncode == 0

    def logs(*arguments):
        done = combu("-f", file, "--engine", SIMULATED, "logs", *arguments)
        return done.returncode, done.stdout, done.stderr

    return logs


def test_logs_of_several_trials_stand_behind_their_names(combu, talking_logs):
    """In the experiment's order, whatever the order of the names."""
    several = (0, "talk-2 | out 2\ntalk-1 | out 1\nother | other\n", "talk-2 | err 2\ntalk-1 | err 1\n")
    assert talking_logs("other", "talk-[12]") == talking_logs("-f", "other", "talk-2", "talk-1") == several
    named = combu("--engine", SIMULATED, "logs", "--run", "mine", "other", "talk-[12]")
    assert (named.returncode, named.stdout, named.stderr) == several
    lines = [json.loads(line) for line in talking_logs("--json", "talk-*", "--tail", "1")[1].splitlines()]
    assert {line["trial"] for line in lines} == {"talk-1", "talk-2", "talk-3"}
    assert talking_logs("--attempt", "1", "talk-*")[0] == 2


def test_the_log_of_one_trial_is_raw_also_by_a_pattern(talking_logs):
    assert talking_logs("talk-3") == talking_logs("talk-3*") == talking_logs("talk-[3-9]", "talk-3") == (0, "out 3\n", "err 3\n")
    assert talking_logs("talk-3", "nosuch", "neither-*") == (
        1, "out 3\n", "err 3\ncombu: nosuch, neither-*: are no trials of run mine\n")
    assert talking_logs("no-*") == (1, "", "combu: no-*: is no trial of run mine\n")


def test_stop_names_each_pattern_that_matches_no_container(combu, write):
    file = write(TALKING)
    assert run(combu, file, "run", "--wait", "--run-id", "mine").returncode == 0
    # A simulated engine goes away with its process.
    told = run(combu, file, "stop", "talk-*", "other*", "no-*")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr.splitlines() == [
        "combu: talk-*: there is no container of the 3 trials that it matches; `combu ps --run mine 'talk-*'` shows their states",
        "combu: other: there is no container of it: it is succeeded in run mine, and its container has been removed",
        "combu: no-*: nothing of the experiment is on this engine"]


def test_logs_of_a_run_that_there_is_not(combu, write):
    run(combu, write(ECHO), "run", "--wait", "--run-id", "mine")
    for trial in ([], ["one"]):
        log = combu("--engine", SIMULATED, "logs", "--run", "nope", *trial)
        assert (log.returncode, log.stdout) == (1, "")
        assert log.stderr.startswith("combu: run nope: nothing of it is on record or on this engine"), log.stderr
        assert "mine" not in log.stderr


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
    ("8", "one: wants 0.1 CPUs, but the engine has no CPUs, 16 GiB of memory to give"),
    ("1,1", "--reserve: CPUs are given twice; memory has a unit: 1GiB"),
    ("1GiB,2GiB", "--reserve: memory is given twice"),
    ("gpu=0,gpu=0", "--reserve: the GPU 0 is given twice"),
    ("gpu=7", "--reserve: the engine has no GPU 7; it has 0, whose UUIDs are not known"),
    ("some", '--reserve: "some" is neither CPUs (2) nor memory (4GiB) nor a GPU (gpu=0)'),
])
def test_what_cannot_be_reserved_is_told(combu, write, reserve, words):
    file = write('[{ name: "one", image: "lab/x", cmd: "true", cpus: 0.1, gpus: %d }]' % ("gpu" in reserve))
    refused = combu("-f", file, "--engine", SLOW, "run", "--wait", "--reserve", reserve)
    assert refused.returncode == 2 and words in refused.stderr
