"""The disk of the record is full."""

import contextlib
import sqlite3
import subprocess

import pytest
from engines import wait_until


@pytest.fixture
def small_disk(tmp_path, combu):
    """A folder for the record, on a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "tmpfs", folder], check=True)
    combu.env["COMBU_HOME"] = str(folder)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def lines_to(stream, words):
    """Returns the lines up to the first line that contains `words`, or all lines if none does."""
    lines = []
    for line in stream:
        lines.append(line)
        if words in line:
            break
    return lines


def fill(folder):
    with open(folder / "rubbish", "wb", buffering=0) as rubbish:
        try:
            while True:
                rubbish.write(b"x" * 4096)
        except OSError:
            pass


def trials(folder):
    """Returns two trials; the second depends on the first. A trial NAME runs while the file NAME.held is in `folder`."""

    def trial(name, **fields):
        script = f"while test -e /lab/{name}.held; do sleep 0.05; done"
        return {"name": name, "image": "combu-test", "cmd": ["sh", "-c", script], "volumes": [f"{folder}/:/lab"], **fields}

    return [trial("first"), trial("then", depends=[{"trial": "first", "condition": "succeeded"}])]


def test_run_refuses_to_begin_on_a_full_disk(combu, engine, small_disk, tmp_path):
    combu.write(trials(tmp_path / "lab"))
    fill(small_disk)
    refused = combu("run", "--wait", code=1)
    assert "record.sqlite" in refused.stderr
    assert engine.containers() == {}


def test_a_run_continues_on_a_full_disk_and_writes_missing_facts_later(combu, engine, small_disk, tmp_path):
    lab = tmp_path / "lab"
    lab.mkdir()
    for name in ("first", "then"):
        (lab / f"{name}.held").touch()
    combu.write(trials(lab))
    process = combu.start("run", "--wait", "--progress", "plain")
    wait_until(lambda: "first" in engine.running(), "the first trial to run")
    fill(small_disk)
    (lab / "first.held").unlink()
    lines = lines_to(process.stderr, "the record cannot be written")
    (small_disk / "rubbish").unlink()
    (lab / "then.held").unlink()
    rest = process.stderr.read()
    assert process.wait(timeout=60) == 0, lines + [rest]
    process.stderr.close()
    process.stdout.close()
    assert lines[-1].startswith("the run continues, but the record cannot be written: "), lines + [rest]
    assert "the record can be written again, and nothing is missing" in rest
    with sqlite3.connect(small_disk / "record.sqlite") as database:
        rows = database.execute("SELECT name, state, exit_code FROM states ORDER BY trial").fetchall()
    assert rows == [("first", "succeeded", 0), ("then", "succeeded", 0)]


@pytest.mark.slow
def test_logs_are_ingested_later_if_the_disk_is_full(combu, engine, small_disk, tmp_path):
    """While the disk is full, the trials write more than one batch of log lines. The engine keeps these lines."""
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "held").touch()
    wait = "while test -e /lab/held; do sleep 0.05; done"
    script = f"echo before; {wait}; yes '{'x' * 99}' | head -n 60000; echo '{{\"loss\": 1}}'; {wait.replace('held', 'kept')}"
    (lab / "kept").touch()
    combu.write([
        {"name": name, "image": "combu-test", "cmd": ["sh", "-c", script], "metrics": "json", "volumes": [f"{lab}:/lab"]}
        for name in ("one", "two")
    ])
    process = combu.start("run", "--wait", "--progress", "plain", "--run-id", "r1")
    kept = wait_until(lambda: next(iter((small_disk / "telemetry").glob("r1.sqlite")), None), "the database")

    def ask(query):
        with contextlib.suppress(sqlite3.OperationalError), contextlib.closing(sqlite3.connect(f"file:{kept}?mode=ro", uri=True)) as database:
            return database.execute(query).fetchall()

    wait_until(lambda: ask("SELECT count(*) FROM attempts WHERE size = 7") == [(2,)], "the first line of both")
    fill(small_disk)
    (lab / "held").unlink()
    lines = lines_to(process.stderr, "storing logs and metrics failed")
    assert lines[-1] == f"storing logs and metrics failed: {kept}: the disk is full; combu tries again\n"
    assert ask("SELECT count(*) FROM attempts WHERE complete") == [(0,)]
    (small_disk / "rubbish").unlink()
    (lab / "kept").unlink()
    rest = process.stderr.read()
    assert process.wait(timeout=60) == 0, lines + [rest]
    process.stderr.close()
    process.stdout.close()
    assert "storing logs and metrics failed" not in rest, "said once"
    assert "storing logs and metrics works again\n" in rest
    combu("kill")
    for name in ("one", "two"):
        assert combu("logs", name).stdout == "before\n" + ("x" * 99 + "\n") * 60000 + '{"loss": 1}\n'
    assert sorted(ask("SELECT trial, points, last FROM metrics")) == [("one", 1, 1.0), ("two", 1, 1.0)]


def test_kill_keeps_a_container_whose_log_cannot_be_stored(combu, engine, small_disk):
    combu.write([{"name": "one", "image": "combu-test", "cmd": ["sh", "-c", "echo precious"]}])
    combu("run")
    wait_until(lambda: engine.running() == set(), "the end")
    fill(small_disk)
    refused = combu("kill", code=1)
    assert "not removed: one: " in refused.stderr and "`kill --discard`" in refused.stderr, refused.stderr
    assert engine.names() == {"one"}
    (small_disk / "rubbish").unlink()
    combu("kill")
    assert combu("logs", "one").stdout == "precious\n"


def test_a_read_only_record_can_be_read(combu, engine, tmp_path):
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
