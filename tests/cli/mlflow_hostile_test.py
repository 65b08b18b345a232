"""An MLflow server whose answers are nested too deeply, have no end, or arrive byte by byte."""

import contextlib
import json
import resource
import socketserver
import threading

import pytest

RUN = """[{ name: "one", image: "lab/solver", metrics: "json", params: { lr: 1 },
           cmd: ["sh", "-c", "echo '{\\"loss\\": 1}'"] }]"""
DEEP = "[" * 500_000 + "]" * 500_000
KEPT = {"info": {"run_id": "r1", "status": "FINISHED"},
        "data": {"tags": [{"key": "combu.trial", "value": "one"}, {"key": "combu.attempt", "value": "1"}],
                 "metrics": [{"key": "loss"}]}}
RIGHT = {
    "experiments/get-by-name": {"experiment": {"experiment_id": "1"}},
    "runs/search": {"runs": [KEPT]},
    "metrics/get-history": {"metrics": [{"key": "loss", "value": 1, "timestamp": "7", "step": 0}]},
    "runs/log-batch": {},
    "runs/update": {},
}


def ok(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        with contextlib.suppress(ConnectionError):
            while line := self.rfile.readline():
                headers = {}
                while (header := self.rfile.readline().strip()):
                    name, _, value = header.partition(b": ")
                    headers[name.lower()] = value
                self.rfile.read(int(headers.get(b"content-length", 0)))
                call = line.split()[1].decode().partition("/api/2.0/mlflow/")[2].partition("?")[0]
                self.server.count += 1
                trouble = self.server.trouble.get(call)
                answer = trouble(self.server.count) if trouble else ok(RIGHT[call])
                if self.server.drips:
                    for at in range(len(answer)):
                        self.wfile.write(answer[at:at + 1])
                elif isinstance(answer, tuple):
                    begin, again = answer
                    self.wfile.write(begin)
                    while True:
                        self.wfile.write(again)
                else:
                    self.wfile.write(answer)


@pytest.fixture
def export(combu, write):
    """export(call, trouble) exports a run to a server whose answers to `call` are trouble(number)."""
    file = write(RUN)
    assert combu("-f", file, "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "run").returncode == 0

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))

    def go(call="", trouble=None, drips=False):
        with Server(("127.0.0.1", 0), Handler) as server:
            server.trouble, server.drips, server.count = {call: trouble} if trouble else {}, drips, 0
            threading.Thread(target=server.serve_forever, args=(0.01,)).start()
            try:
                address = f"http://127.0.0.1:{server.server_address[1]}"
                done = combu("export", "mlflow", "run", "--to", address, "--progress", "quiet", preexec_fn=limit)
            finally:
                server.shutdown()
        assert done.returncode in (0, 1), done.stderr
        return done.stderr.replace(address, "SERVER")

    return go


def test_answers_that_come_byte_by_byte_are_understood(export):
    assert export() == ""
    assert export(drips=True) == ""


@pytest.mark.parametrize("call", RIGHT)
def test_an_answer_nested_too_deep(export, call):
    for body in (DEEP, '{"runs": %s}' % DEEP, '{"data": %s}' % DEEP):
        said = export(call, lambda _, body=body: ok(body.encode()))
        assert said == (f"combu: SERVER: /api/2.0/mlflow/{call}: the answer is not a JSON object: "
                        "nested deeper than 512 levels; is this an MLflow server?\n")


@pytest.mark.parametrize("call", RIGHT)
def test_an_answer_without_an_end(export, call):
    text = b"x" * (1 << 20)
    for begin, again in ((b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", text),
                         (b"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + text + b"\r\n")):
        said = export(call, lambda _, answer=(begin, again): answer)
        assert said == f"combu: SERVER: the answer to /api/2.0/mlflow/{call} is larger than 64 MiB\n"


def test_headers_without_an_end(export):
    line = b"X-Header: " + b"x" * 1000 + b"\r\n"
    for answer in ((b"HTTP/1.1 200 OK\r\n", line), (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n")):
        said = export("runs/search", lambda _, answer=answer: answer)
        assert said == "combu: SERVER: the answer to /api/2.0/mlflow/runs/search has more than 256 KiB of headers\n"


@pytest.mark.parametrize("call, entries, pages", [("runs/search", "runs", 2500), ("metrics/get-history", "metrics", 400)])
def test_pages_without_an_end(export, call, entries, pages):
    wrong = "combu: SERVER: the answer is not from an MLflow server: "
    said = export(call, lambda _: ok({**RIGHT[call], "next_page_token": "same"}))
    assert said == f"{wrong}the pages of `{entries}` repeat without an end\n"
    said = export(call, lambda number: ok({"next_page_token": str(number)}))
    assert said == f"{wrong}`{entries}` has more than {pages} pages\n"
    said = export(call, lambda _: ok({"next_page_token": "x" * 5000}))
    assert said == f"{wrong}`next_page_token` is longer than 4 KiB\n"


def test_a_page_of_more_than_was_asked_for(export):
    said = export("runs/search", lambda _: ok({"runs": [KEPT] * 201}))
    assert said == "combu: SERVER: the answer is not from an MLflow server: a page has more than 200 `runs`\n"


def test_a_number_that_is_none(export):
    point = {"key": "loss", "value": 1, "timestamp": "seven", "step": 0}
    said = export("metrics/get-history", lambda _: ok({"metrics": [point]}))
    assert said == "combu: SERVER: the answer is not from an MLflow server: `timestamp` must be a whole number\n"
