"""Fixtures that run the built program as a process. The program is $COMBU or, if unset, build/release/combu."""

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMBU = os.environ.get("COMBU", str(ROOT / "build/release/combu"))
SIMULATED = "simulated:?speed=0&start=0.01&trial=1"
SLOW = "simulated:?speed=1&start=0.01&gpus=1"


@pytest.fixture
def combu(tmp_path):
    """combu(arguments…) runs combu in tmp_path, without the caller's Docker settings, and returns the completed process.
    Without --engine, combu ignores runs on the simulated engine. So if the record has such a run, --engine is added, unless
    `as_typed`."""

    def has_simulated_run():
        record = tmp_path / ".local/state/combu/record.sqlite"
        if not record.exists():
            return False
        with contextlib.closing(sqlite3.connect(record, timeout=20)) as database:
            try:
                return bool(database.execute("SELECT 1 FROM runs WHERE address LIKE 'simulated:%'").fetchone())
            except sqlite3.DatabaseError:  # the test damaged the record
                return False

    def run(*arguments, env=None, as_typed=False, **options):
        asks = not as_typed and "--engine" not in arguments and not env and has_simulated_run()
        if asks:
            arguments = ("--engine", "simulated:", *arguments)
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("DOCKER_") and name not in ("JSONNET_PATH", "NO_COLOR")}
        clean.update(HOME=str(tmp_path), **(env or {}))
        options = {"capture_output": True, "text": True, "timeout": 60, "cwd": tmp_path, **options}
        done = subprocess.run([COMBU, *map(str, arguments)], env=clean, **options)
        if done.stderr and options["text"]:
            done.stderr = re.sub(r"^evaluating .*…\n", "", done.stderr)  # printed on a slow machine only
        if asks and options["text"] and options.get("capture_output"):
            done.stdout = done.stdout.replace("combu --engine simulated: ", "combu ")
            done.stderr = done.stderr.replace("combu --engine simulated: ", "combu ")
        return done

    return run


@pytest.fixture
def write(tmp_path):
    """write(text) writes experiment.jsonnet to the folder in which combu runs, and returns its path."""

    def make(text, name="experiment.jsonnet"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return make


LADDER = """
local uuid = "UUID";
[{ name: "solver-%d" % id, image: "lab/solver", cmd: "echo %s" % uuid, depends: ["loader"] } for id in std.range(1, 3)] +
[{ name: "loader", image: "lab/loader", cmd: "sleep 1" }]
"""


@pytest.fixture
def ladder(write):
    return write(LADDER)


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
    """record(query) returns rows of the record, or executes a change."""
    def rows(query):
        with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite")) as database, database:
            return database.execute(query).fetchall()

    return rows


def wait_until(condition, what="what the test waits for"):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, f"{what}: not within 30 s"
        time.sleep(0.02)


def run(combu, file, *arguments, **options):
    return combu("-f", file, "--engine", SIMULATED, "--progress", "plain", *arguments, **options)


@pytest.fixture
def begun(tmp_path):
    """begun(file, arguments…, running) runs the file until the trials `running` run, and returns the process, which is killed
    after the test."""
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


@pytest.fixture
def git(tmp_path):
    """git(arguments…) runs git in the folder in which combu runs, and returns its output."""

    def call(*arguments):
        return subprocess.run(["git", "-C", tmp_path, "-c", "user.name=n", "-c", "user.email=e", *arguments],
                              check=True, capture_output=True, text=True).stdout

    return call
