"""Objects in a shared bucket that combu cannot have written count as a cache miss, with a note."""

import http.server
import re
import sqlite3
import threading
from urllib.parse import unquote, urlsplit

import pytest

from conftest import SIMULATED

EXPERIMENT = """
{
  experiment: "lab",
  collect: { to: "s3://lab/a" },
  trials: [{ name: "learn", image: "lab/learn", cmd: "sh -c 'echo 1 > /out; echo loss=1'", outputs: ["/out"], cache: true%s }],
}
"""
METRICS = ', metrics: { stdout: "loss=(?P<loss>[0-9]+)" }'


class Server(http.server.ThreadingHTTPServer):
    """The bucket `lab` of an S3 server, with the operations that a run needs. Stores its objects by "/lab/KEY"."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Request)
        self.objects = {}
        self.env = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
                    "S3_ENDPOINT_URL": f"http://127.0.0.1:{self.server_port}"}

    def only(self, prefix):
        (key,) = [key for key in self.objects if key.startswith(prefix)]
        return key


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        target = urlsplit(self.path)
        key = unquote(target.path)
        objects = self.server.objects
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.command == "DELETE":
            objects.pop(key, None)
            return self.reply(204)
        if self.command == "POST" and target.query.startswith("uploads"):
            return self.reply(200, b"<R><UploadId>id</UploadId></R>")
        if self.command == "PUT":
            source = unquote(self.headers.get("x-amz-copy-source", ""))
            if self.headers.get("If-None-Match") == "*" and key in objects:
                return self.reply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            objects[key] = objects["/" + source.lstrip("/")] if source else body
            return self.reply(200, b"<CopyObjectResult/>" if source else b"")
        if key == "/lab/":
            prefix = "/lab/" + unquote(re.search("prefix=([^&]*)", target.query + "&prefix=")[1])
            rows = [f"<Contents><Key>{name[5:]}</Key><Size>{len(content)}</Size>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                    for name, content in sorted(objects.items()) if name.startswith(prefix)]
            return self.reply(200, f"<ListBucketResult>{''.join(rows)}</ListBucketResult>".encode())
        if key not in objects:
            return self.reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
        return self.reply(200, objects[key])

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def reply(self, status, body=b""):
        self.send_response_only(status)
        self.send_header("ETag", '"tag"')
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def run(combu, write, server, tmp_path):
    """run(person, run_id) runs the experiment with a separate record for each person, and returns stderr."""

    def run(person, run_id, metrics=METRICS):
        file = write(EXPERIMENT % metrics)
        home = tmp_path / person
        home.mkdir(exist_ok=True)
        env = {**server.env, "COMBU_HOME": str(home)}
        done = combu("-f", file, "--engine", SIMULATED, "--progress", "plain", "run", "--wait", "--run-id", run_id, env=env)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def stored(content):
    """Returns a zstd frame (RFC 8878) that holds the content uncompressed."""
    block = 1 << 17
    pieces = [content[at : at + block] for at in range(0, len(content), block)]
    heads = [(len(piece) << 3 | (at == len(pieces) - 1)).to_bytes(3, "little") for at, piece in enumerate(pieces)]
    frame = b"\x28\xb5\x2f\xfd\xc0\x38" + len(content).to_bytes(8, "little")
    return frame + b"".join(head + piece for head, piece in zip(heads, pieces))


def hostile_database(path):
    """Returns a database in which a view with endless rows replaces a table."""
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA application_id = 0x636d6274")
        database.execute("PRAGMA user_version = 3")
        database.execute(
            "CREATE VIEW attempts AS WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n) SELECT i number, "
            "'it' trial, 2147483647 attempt, 1 complete, 0 size, 0 dropped, 0 until, 0 at_until, 0 passed_over, 0 gaps FROM n"
        )
    database.close()
    return path.read_bytes()


def test_an_equal_trial_of_another_person_is_skipped(run):
    assert "1 succeeded" in run("one", "aaaaaaaaaaaa")
    assert "1 skipped" in run("two", "bbbbbbbbbbbb")


@pytest.mark.parametrize("marker", [b"lab/\x1b]0;owned\x07/learn\ntag", b"lab/aaaaaaaaaaaa/\x1b[2J\ntag", b"lab/aaaaaaaaaaaa/learn\n" + b"x" * 5000],
                         ids=["run", "trial", "large"])
def test_a_senseless_marker_is_refused(run, server, marker):
    run("one", "aaaaaaaaaaaa")
    key = server.only("/lab/a/.combu/done/")
    server.objects[key] = marker
    said = run("two", "bbbbbbbbbbbb")
    assert "1 succeeded" in said and "\x1b" not in said
    (note,) = [line for line in said.splitlines() if line.startswith(f"s3:/{key}: ")]
    assert "the marker of a cached trial is invalid" in note or "is larger than 2 KiB" in note
    assert note.endswith("; combu runs trial `learn`")
    assert server.objects[key] == b"lab/bbbbbbbbbbbb/learn\ntag"
    assert "1 skipped" in run("three", "cccccccccccc")


def test_hostile_telemetry_is_refused(run, server, tmp_path):
    run("one", "aaaaaaaaaaaa")
    key = server.only("/lab/a/.combu/told/")
    server.objects[key] = stored(hostile_database(tmp_path / "hostile.sqlite"))
    said = run("two", "bbbbbbbbbbbb")
    assert "1 succeeded" in said
    refused = "the telemetry of an equal trial is invalid: the database has the view `attempts`, which is not in combu's schema"
    assert f"s3:/{key}: {refused}; combu runs trial `learn`" in said.splitlines()


def test_hostile_logs_do_not_keep_outputs_from_being_used(run, server, tmp_path):
    run("one", "aaaaaaaaaaaa", metrics="")
    key = server.only("/lab/a/.combu/told/")
    server.objects[key] = stored(hostile_database(tmp_path / "hostile.sqlite"))
    said = run("two", "bbbbbbbbbbbb", metrics="")
    assert "1 skipped" in said
    assert "; trial `learn` is skipped without a log" in said
