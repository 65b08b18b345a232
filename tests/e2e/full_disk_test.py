"""The disk that the record is on is full."""

import sqlite3
import subprocess

import pytest
from engines import wait_until


@pytest.fixture
def small_disk(tmp_path, combu):
    """A folder for the record, on a disk of its own of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    combu.env["COMBU_HOME"] = str(folder)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(folder):
    with open(folder / "rubbish", "wb", buffering=0) as rubbish:
        try:
            while True:
                rubbish.write(b"x" * 4096)
        except OSError:
            pass


def trials(folder):
    """Each ends when it may, the second follows the first."""

    def trial(name, **fields):
        script = f"while test -e /lab/{name}.held; do sleep 0.05; done"
        return {"name": name, "image": "combu-test", "cmd": ["sh", "-c", script], "volumes": [f"{folder}/:/lab"], **fields}

    return [trial("first"), trial("then", depends=[{"trial": "first", "condition": "succeeded"}])]


def test_a_run_does_not_begin_on_a_full_disk(combu, engine, small_disk, tmp_path):
    combu.write(trials(tmp_path / "lab"))
    fill(small_disk)
    refused = combu("run", "--wait", code=1)
    assert "record.sqlite" in refused.stderr
    assert engine.containers() == {}


def test_a_run_goes_on_when_the_disk_is_full_and_what_is_missing_comes_later(combu, engine, small_disk, tmp_path):
    lab = tmp_path / "lab"
    lab.mkdir()
    for name in ("first", "then"):
        (lab / f"{name}.held").touch()
    combu.write(trials(lab))
    process = combu.start("run", "--wait", "--progress", "plain")
    wait_until(lambda: "first" in engine.running(), "the first trial to run")
    fill(small_disk)
    (lab / "first.held").unlink()
    lines = []
    for line in process.stderr:
        lines.append(line)
        if "not on record" in line:
            break
    (small_disk / "rubbish").unlink()
    (lab / "then.held").unlink()
    rest = process.stderr.read()
    assert process.wait(timeout=60) == 0, lines + [rest]
    process.stderr.close()
    process.stdout.close()
    assert lines[-1].startswith("the run goes on, but is not on record from here on: "), lines + [rest]
    assert "the record is written again, and nothing is missing" in rest
    with sqlite3.connect(small_disk / "record.sqlite") as database:
        rows = database.execute("SELECT name, state, exit_code FROM states ORDER BY trial").fetchall()
    assert rows == [("first", "succeeded", 0), ("then", "succeeded", 0)]


def test_a_record_that_cannot_be_written_is_read(combu, engine, tmp_path):
    combu.write([{"name": "bad", "image": "combu-test", "cmd": ["sh", "-c", "exit 3"]}])
    combu("run", "--wait", code=1)
    folder = tmp_path / ".local/state/combu"
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        for asked in (["ps"], ["why", "bad"], ["events"], ["times"]):
            assert combu(*asked).stdout
        assert "cannot be opened for reading and writing" in combu("run", code=1).stderr
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
