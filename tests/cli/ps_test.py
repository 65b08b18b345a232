"""Tests of `ps`: runs, their trials, and conditions."""

import contextlib
import json
import re
import sqlite3
import subprocess
import threading

import pytest
from conftest import COMBU, FAILING, SIMULATED, SLOW, run
from engine_server import EngineHandler, EngineServer

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
    assert mistyped.returncode == 2 and "`fialed` is not a state; the states are waiting, ready, " in mistyped.stderr
    assert names(ps(combu, file, "lr-1", "bare")) == ["lr-1", "bare"]
    [one] = ps(combu, file, "lr-2")
    assert one["params"] == {"lr": 0.002, "model": "net"}
    assert len(ps(combu, file, "lr-1*")) == 11
    unknown = combu("-f", file, "ps", "lr-21")
    assert (unknown.returncode, unknown.stderr.split(":")[1]) == (1, " lr-21")
    # The file is not read: its content is invalid.
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
    columns = ("experiment, file, folder, arguments, options, revision, revision_dirty, address, engine, is_simulated, "
               "user, machine, program, began_at, working_since, ended_at")
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
    # The simulated engine ended with its process.
    lines = combu("-f", file, "ps").stdout.splitlines()
    assert lines[0].endswith(", interrupted: 1 waiting, 1 stopped")
    assert lines[2].endswith(" its container no longer exists, and its end was not recorded")
    [row] = ps(combu, file, "--where", "state=stopped")
    assert (row["exit_code"], row["cause"]) == (None, "stopped")


def test_ps_answers_from_the_record_while_the_engine_is_away(combu, failing, record, tmp_path):
    run(combu, failing, "run", "--wait", "--run-id", "mine")
    record(f"UPDATE runs SET is_simulated = 0, address = 'unix://{tmp_path}/no.sock'")
    away = combu("-f", failing, "ps")
    assert away.returncode == 0 and away.stdout.count("\n") == 6
    assert away.stderr.startswith(f"only the record is shown, because the engine could not be asked: unix://{tmp_path}/no.sock: ")


class Containers(EngineServer):
    """Answers the requests of `ps` to a Docker Engine: the list of containers, and their usage."""

    def __init__(self, path, answers):
        self.answers = answers
        super().__init__(str(path), ContainersHandler)


class ContainersHandler(EngineHandler):
    def do_GET(self):
        answer = self.server.answers.get(self.resource)
        if answer is None:
            self.send_json({"message": "no such thing"}, 404)
        else:
            self.send_json(answer)


@pytest.fixture
def containers(tmp_path):
    """containers(answers) starts a server and returns its socket; the server ends after the test."""
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
    record(f"UPDATE runs SET is_simulated = 0, address = 'unix://{path}'")
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


@pytest.mark.parametrize("chosen", [["-f", "experiment.jsonnet"], []])
def test_ps_says_by_its_exit_code_that_the_record_could_not_be_read(combu, ladder, tmp_path, chosen):
    assert run(combu, ladder, "run", "--wait").returncode == 0
    path = tmp_path / ".local/state/combu/record.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    told = combu("--engine", SIMULATED, *chosen, "ps")
    assert told.returncode == 2
    assert "was made by a newer combu" in told.stderr and "on record" not in told.stderr


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
        2, 'combu: "attempt=1 and state=failed" is not a condition: conditions must be joined by &&\n')


def test_the_list_of_runs_takes_in_what_has_ended(combu, write):
    file = write('[{ name: "one", image: "lab/x", cmd: "sleep 600" }]')
    assert combu("-f", file, "--engine", SLOW, "run", "--run-id", "mine").returncode == 0
    # The simulated engine ended with its process.
    [row] = [json.loads(line) for line in combu("--engine", SLOW, "ps", "--json").stdout.splitlines()]
    assert (row["state"], row["counts"]) == ("ended", {"stopped": 1}) and row["ended_at"]
    assert combu("rm", "mine", "mine").stderr == "removed 1 run from the record\n"
