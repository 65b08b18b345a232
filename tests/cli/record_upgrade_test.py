"""A record of an earlier version of combu is upgraded, has the same content, and its run can be resumed. records/schema_7.sql
is a record of schema 7. Its run was interrupted while trials were retrying, collecting outputs, waiting and running. The other
files are the expected output for this record."""

import json
import pathlib
import re
import sqlite3

import pytest

RECORDS = pathlib.Path(__file__).parent / "records"
RUN = "old000000000"
SHOWN = ("trial", "state", "attempt", "cause", "exit_code", "reason")


@pytest.fixture
def said(tmp_path):
    """said(NAME) returns the content of a file, with the paths of this test's folder."""
    return lambda name: (RECORDS / name).read_text().replace("@LAB@", str(tmp_path))


@pytest.fixture
def record(tmp_path, said):
    path = tmp_path / ".local/state/combu/record.sqlite"
    path.parent.mkdir(parents=True, mode=0o700)
    path.touch(mode=0o600)
    database = sqlite3.connect(path)
    database.executescript(said("schema_7.sql"))
    database.close()
    (tmp_path / "experiment.jsonnet").write_text("[]")  # the record has the text of the run
    return path


def schema_of(record):
    with sqlite3.connect(record) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def test_it_reads_as_before(combu, record, said):
    assert schema_of(record) == 7
    whys = said("schema_7.why").splitlines()
    for line in whys:
        trial = line.split()[0]
        done = combu("why", "--run", RUN, trial)
        assert done.returncode == 0, done.stderr
        assert re.sub(r"runs for \w+ ?\w*", "runs for TIME", done.stdout.strip()) == line.replace("combu --engine simulated: ", "combu ")
    assert len(whys) == 16
    assert schema_of(record) > 7
    assert combu("events", "--run", RUN, "--json").stdout == said("schema_7.events")
    rows = [json.loads(line) for line in combu("ps", "--run", RUN, "--json").stdout.splitlines()]
    assert [{name: row[name] for name in SHOWN} for row in rows] == [json.loads(line) for line in said("schema_7.ps").splitlines()]


def test_no_reason_on_record_has_the_parts_of_its_text(combu, record):
    assert combu("ps", "--run", RUN).returncode == 0
    with sqlite3.connect(record) as database:
        reasons = [reason for reason, in database.execute(
            "SELECT reason FROM attempts WHERE reason IS NOT NULL UNION SELECT reason FROM trials WHERE reason IS NOT NULL")]
    assert "exit code 1" in reasons
    assert not [reason for reason in reasons if re.search(r"; attempt|after \d+ attempts|are not home", reason)]


def test_its_run_goes_on_to_its_end(combu, record, said, tmp_path):
    done = combu("--engine", "simulated:?speed=1&start=0.01&gpus=1", "--progress", "plain", "run", "--resume", RUN, "--wait")
    assert done.returncode == 1, done.stderr
    rows = {row["trial"]: row for row in map(json.loads, combu("ps", "--run", RUN, "--json").stdout.splitlines())}
    assert {row["state"] for row in rows.values()} == {"succeeded", "skipped", "failed", "blocked", "stopped"}, rows
    assert rows["retrying"]["reason"] == rows["again"]["reason"] == "exit code 1, after 2 attempts"
    assert rows["spent"]["reason"] == "exit code 2, after 2 attempts"
