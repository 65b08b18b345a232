"""A container's log with a line of 500 MB: `logs` prints it and needs little memory."""

import os
import subprocess
import threading

import pytest
from conftest import COMBU
from engine_server import EngineHandler, EngineServer

MIB = 1 << 20
PARTS = 477
MEMORY_MAX = 150 * MIB
LABELS = {"combu.experiment": "exp", "combu.file": "/f", "combu.run": "run1", "combu.attempt": "1", "combu.service": "false"}


class LongLines(EngineHandler):
    """Two containers, `a` and `b`, each with a log of one line. The line of `b` has 1 MiB and one byte; its last character has
    two bytes."""

    def do_GET(self):
        path = self.resource
        if path.endswith("/logs"):
            return self.send_log(path.split("/")[2])
        if path == "/containers/json":
            return self.send_json([
                {"Id": name, "Names": [f"/{name}"], "Image": "lab/x", "State": "exited", "Status": "Exited (0) 3 minutes ago",
                 "Created": 1769860800, "Labels": {**LABELS, "combu.trial": name}} for name in "ab"])
        if path.startswith("/containers/"):
            name = path.split("/")[2]
            return self.send_json({
                "Id": name, "Name": f"/{name}", "Image": "sha256:01",
                "Config": {"Image": "lab/x", "Labels": {**LABELS, "combu.trial": name}, "Tty": self.server.has_terminal},
                "State": {"Status": "exited", "ExitCode": 0, "StartedAt": "2026-01-31T12:00:00Z", "FinishedAt": "2026-01-31T12:01:00Z"}})
        return self.send_json("OK")

    def send_log(self, name):
        parts = [b"x" * MIB] * PARTS if name == "a" else ["xé".encode(), "é".encode() * (MIB // 2 - 1)]
        size = sum(map(len, parts)) + 1
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if not self.server.has_terminal:
            self.send_chunk(b"\x01\0\0\0" + size.to_bytes(4, "big"))
        for part in parts:
            self.send_chunk(part)
        self.send_chunk(b"\n")
        self.send_chunk(b"")

    def send_chunk(self, data):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


@pytest.fixture
def engine(tmp_path, request):
    """The address of an engine that has these two containers, with or without a terminal."""
    server = EngineServer(str(tmp_path / "engine.sock"), LongLines)
    server.has_terminal = request.param == "terminal"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"unix://{tmp_path}/engine.sock"
    server.shutdown()
    server.server_close()


def logs(engine, folder, *arguments):
    """Returns the size of each printed line, by its beginning, and the peak memory in bytes."""
    process = subprocess.Popen([COMBU, "--engine", engine, "logs", "--run", "run1", *arguments], cwd=folder,
                               env={**os.environ, "HOME": str(folder)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    hung = threading.Timer(300, process.kill)
    hung.start()
    sizes = []
    with process.stdout:
        for line in process.stdout:
            sizes.append((line[:12], len(line)))
    _, status, used = os.wait4(process.pid, 0)
    hung.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return sizes, used.ru_maxrss << 10


@pytest.mark.parametrize("engine", ["frames"], indirect=True)
def test_a_line_behind_its_trials_name_is_printed_in_parts(engine, tmp_path):
    printed, memory = logs(engine, tmp_path)
    assert memory < MEMORY_MAX
    assert printed == [(b"a | xxxxxxxx", 5 + MIB)] * PARTS + [("b | xéééé".encode()[:12], 4 + MIB), (b"b | \xc3\xa9\n", 7)]


@pytest.mark.parametrize("engine", ["terminal"], indirect=True)
def test_a_line_as_json_is_printed_in_parts(engine, tmp_path):
    printed, memory = logs(engine, tmp_path, "--json", "a")
    assert memory < MEMORY_MAX
    assert printed == [(b'{"trial":"a"', len('{"trial":"a","stream":"stdout","line":""}\n') + MIB)] * PARTS
