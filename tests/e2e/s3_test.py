"""Outputs are collected into a bucket on versitygw, which is as strict as Amazon S3, and on MinIO."""

import contextlib
import hashlib
import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import quote, unquote_plus
from xml.etree import ElementTree

import pytest
from engines import Combu, script, wait_until
from engines import trial_with_outputs as trial

KEY, SECRET = "tester", "tester-secret"  # as in tests/engines/s3


class Server:
    """An S3 server with the bucket `lab`."""

    def __init__(self, kind):
        self.kind = kind
        self.dir = Path(tempfile.mkdtemp(prefix="s3-", dir=os.environ.get("COMBU_TEST_DIR")))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "S3_ENDPOINT_URL": self.url}

    def start(self):
        script("s3", "start", self.kind, self.dir, self.port)

    def kill9(self):
        pid = int((self.dir / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self._answers(), "it is gone")

    def _answers(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def wipe(self):
        script("s3", "stop", self.dir)

    def ask(self, method, path, *options):
        """Sends a request below the bucket and returns the body of the answer. Fails on an HTTP error."""
        command = ["curl", "-sS", "-f", "-X", method, "--path-as-is", "--aws-sigv4", "aws:amz:us-east-1:s3"]
        command += ["-u", f"{KEY}:{SECRET}", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", *options]
        return subprocess.run([*command, f"{self.url}/lab{path}"], check=True, stdout=subprocess.PIPE, timeout=60).stdout

    def keys(self, prefix=""):
        listing = ElementTree.fromstring(self.ask("GET", f"?encoding-type=url&list-type=2&prefix={quote(prefix, safe='')}"))
        keys = [key.text for key in listing.iterfind("{*}Contents/{*}Key")]
        return [unquote_plus(key) for key in keys] if listing.findtext("{*}EncodingType") == "url" else keys

    def written(self, key):
        listing = ElementTree.fromstring(self.ask("GET", f"?list-type=2&prefix={quote(key, safe='')}"))
        return listing.findtext("{*}Contents/{*}LastModified")

    def uploads(self):
        return re.findall("<UploadId>", self.ask("GET", "?uploads=").decode())

    def get(self, key, *options):
        return self.ask("GET", "/" + quote(key, safe="/-._~"), *options)

    def fetch(self, prefix, folder):
        """Writes all objects whose keys begin with the prefix to files in the folder."""
        for key in self.keys(prefix):
            path = folder / key[len(prefix) :]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.get(key))


class Trouble(http.server.ThreadingHTTPServer):
    """A proxy before an S3 server that disturbs every third request of an upload, with each kind of fault in turn.

    Refuses uploads to keys that contain `refused`. `made` counts the faults of each kind.
    """

    daemon_threads = True
    KINDS = ("busy", "cut within", "answer lost")

    def __init__(self, server, kinds=KINDS, refused=""):
        super().__init__(("127.0.0.1", 0), TroubledRequest)
        self.server = server
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.made = {kind: 0 for kind in kinds}
        self.refused = refused
        self._count = 0
        self._lock = threading.Lock()

    def next_kind(self):
        with self._lock:
            self._count += 1
            if self._count % 3 or not self.made:
                return ""
            kind = list(self.made)[self._count // 3 % len(self.made)]
            self.made[kind] += 1
            return kind

    def handle_error(self, request, client_address):
        pass  # combu has closed a connection

    def __enter__(self):
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self._thread.join()
        self.server_close()


class TroubledRequest(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        size = int(self.headers.get("Content-Length", 0))
        # A request that begins an upload (?uploads=) is not disturbed: if combu did not get its id, the upload would stay
        # in the bucket.
        if self.command == "PUT" and self.server.refused and self.server.refused in self.path:
            self.rfile.read(size)
            return self.answer(403, [], b"<Error><Code>AccessDenied</Code><Message>not there</Message></Error>")
        kind = self.server.next_kind() if self.command in ("PUT", "POST") and not self.path.endswith("?uploads=") else ""
        body = self.rfile.read(size // 2 if kind == "cut within" else size)
        if kind == "cut within":
            return self.cut()
        if kind == "busy":
            return self.answer(503, [], b"<Error><Code>SlowDown</Code><Message>later</Message></Error>")
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.server.server.port, timeout=60)) as behind:
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("connection", "expect"):
                    behind.putheader(name, value)
            behind.endheaders(body)
            response = behind.getresponse()
            content = response.read()
        if kind == "answer lost":
            return self.cut()
        return self.answer(response.status, response.getheaders(), content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = pass_on

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, status, headers, content):
        self.send_response_only(status)
        own = ("connection", "transfer-encoding", *(() if self.command == "HEAD" else ("content-length",)))
        for name, value in headers:
            if name.lower() not in own:
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture(scope="module", params=["versitygw", pytest.param("minio", marks=pytest.mark.minio)])
def server(request):
    one = Server(request.param)
    try:
        one.start()
        one.ask("PUT", "")
        yield one
    finally:
        one.wipe()


@pytest.fixture
def lab_on(combu_on, server, request):
    """A function: lab_on(engine) returns a Combu with S3 keys.

    write_trials() writes an experiment with the test's name. place() returns the key prefix of its only run.
    """
    name = request.node.name.split("[")[0].replace("_", "-")

    def make(engine):
        combu = combu_on(engine)
        combu.env.update(server.env)

        def write(*trials, **fields):
            combu.write({"experiment": name, "collect": {"to": "s3://lab/of us", **fields}, "trials": list(trials)})

        def place():
            (run,) = {key.split("/")[2] for key in server.keys(f"of us/{name}/")}
            return f"of us/{name}/{run}/"

        combu.write_trials, combu.place = write, place
        return combu

    return make


@pytest.fixture
def lab(lab_on, engine):
    return lab_on(engine)


@pytest.fixture
def another(program, tmp_path):
    """A function that makes another user, who has the same experiment and access to the same bucket."""

    def make(lab):
        home = Path(tempfile.mkdtemp(dir=tmp_path))
        combu = Combu(program, home, lab.engine)
        combu.env.update({name: value for name, value in lab.env.items() if name.startswith(("AWS", "S3"))})
        combu.write(lab.file.read_text())
        return combu

    return make


def check_sums(folder):
    subprocess.run(["sha256sum", "--quiet", "--strict", "-c", "manifest.sha256"], cwd=folder, check=True)


@pytest.mark.slow
def test_outputs_are_collected_into_a_bucket(lab, server, tmp_path):
    text = """mkdir -p /out/sub /out/none; cd /out; echo alpha >sub/a; touch empty; chmod 640 sub/a; touch -d @1000000000 sub/a
              echo 1 >'with blank + & = % ~ ü'; printf 2 >'line
end'; ln -s sub/a latest; ln sub/a again; head -c 40000000 /dev/urandom >large; head -c 16777216 /dev/zero >part"""
    lab.write_trials(trial("one", text), *(trial(f"t-{i}", f"mkdir /out; echo {i} >/out/n") for i in range(12)))
    done = lab("run", "--wait")
    place = lab.place()
    assert f"outputs are in s3://lab/{place.rstrip('/')}" in done.stderr
    assert {row["state"] for row in lab.ps().values()} == {"succeeded"}
    home = tmp_path / "home"
    server.fetch(place, home)
    for name in ("one", *(f"t-{i}" for i in range(12))):
        check_sums(home / name)
    assert (home / "t-3/out/n").read_text() == "3\n"
    out = home / "one/out"
    assert {path.name for path in out.iterdir()} == {
        "sub", "empty", "with blank + & = % ~ ü", "line\nend", "again", "large", "part"
    }  # fmt: skip
    assert (out / "again").read_text() == (out / "sub/a").read_text() == "alpha\n"
    assert (out / "large").stat().st_size == 40000000
    head = server.get(place + "one/out/sub/a", "-i").decode().lower()
    assert "x-amz-meta-mode: 0640\r\n" in head and "x-amz-meta-mtime: 1000000000.000000000\r\n" in head
    entries = {e["path"]: e for e in map(json.loads, (home / "one/manifest.entries").read_text().splitlines())}
    assert entries["out/latest"]["target"] == "sub/a"
    assert entries["out/none"]["kind"] == "folder"
    assert {entries[path]["kind"] for path in ("out/again", "out/sub/a") if path in entries} == {"hard_link"}
    assert not server.uploads()


@pytest.mark.kubernetes
def test_outputs_of_pods_are_collected_into_a_bucket(lab_on, user, server, tmp_path):
    lab = lab_on(user)
    pod = {"pull": "never", "entrypoint": []}
    text = """mkdir /out; cd /out; echo $COMBU_PARAM_N >n; ln -s n latest; ln n again; mkdir none; head -c 40000000 /dev/urandom >large
              sha256sum large; touch -d @1000000000 n; test $COMBU_PARAM_N != 2"""
    lab.write_trials(*(trial(f"t-{n}", text, params={"n": n}, **pod) for n in range(3)), on="always")
    lab("run", "--wait", code=1)
    assert [row["state"] for row in lab.ps().values()] == ["succeeded", "succeeded", "failed"]
    home = tmp_path / "home"
    server.fetch(lab.place(), home)
    for n in range(3):
        folder = home / f"t-{n}"
        check_sums(folder)
        assert {path.name for path in (folder / "out").iterdir()} == {"n", "again", "large"}
        assert (folder / "out/again").read_text() == (folder / "out/n").read_text() == f"{n}\n"
        assert lab("logs", f"t-{n}").stdout.split()[0] == hashlib.sha256((folder / "out/large").read_bytes()).hexdigest()
        entries = {e["path"]: e for e in map(json.loads, (folder / "manifest.entries").read_text().splitlines())}
        assert (entries["out/latest"]["target"], entries["out/none"]["kind"]) == ("n", "folder")
    assert "x-amz-meta-mtime: 1000000000.000000000\r\n" in server.get(f"{lab.place()}t-0/out/n", "-i").decode().lower()
    assert not server.uploads()


def test_outputs_of_an_attempt_replace_earlier_outputs(lab, server, tmp_path):
    text = "mkdir /out; n=$(ls /seen | wc -l); echo $n >/out/n; touch /out/of-$n /seen/$n; [ $n = 1 ]"
    lab.write_trials(trial("one", text, retries=1, volumes=["./seen:/seen"]))
    lab("run", "--wait")
    server.fetch(lab.place(), tmp_path / "home")
    home = tmp_path / "home/one"
    check_sums(home)
    assert {path.name for path in (home / "out").iterdir()} == {"n", "of-1"}
    assert (home / "out/n").read_text() == "1\n"


def test_a_bucket_without_access_refuses_the_run(lab, server, engine):
    lab.write_trials(trial("one", "mkdir /out"))

    def refusal(code, **env):
        done = lab("run", code=code, **env)
        assert not engine.names()
        assert SECRET not in done.stderr
        line, last = [text for text in done.stderr.splitlines() if not text.endswith("…")]  # printed on a slow machine
        assert last.endswith("nothing was started")
        return line

    assert "does not know the access key from AWS_ACCESS_KEY_ID" in refusal(1, AWS_ACCESS_KEY_ID="nobody")
    assert "the secret key does not belong to the access key from AWS_ACCESS_KEY_ID" in refusal(1, AWS_SECRET_ACCESS_KEY="wrong")
    assert "no keys are given: set AWS_ACCESS_KEY_ID" in refusal(1, AWS_ACCESS_KEY_ID="")
    assert "http://127.0.0.1:1: Failed to connect" in refusal(3, S3_ENDPOINT_URL="http://127.0.0.1:1")
    lab.write_trials(trial("one", "mkdir /out"), to="s3://no-such-lab")
    assert "collect.to: s3://no-such-lab: there is no such bucket" in refusal(1)


def test_keys_can_come_from_an_aws_profile(lab, server):
    (lab.home / ".aws").mkdir()
    (lab.home / ".aws/credentials").write_text(f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    (lab.home / ".aws/config").write_text(f"[profile lab]\nendpoint_url = {server.url}\n")
    for name in server.env:
        del lab.env[name]
    lab.write_trials(trial("one", "mkdir /out; echo x >/out/a"))
    lab("run", "--wait", AWS_PROFILE="lab")
    assert server.get(lab.place() + "one/out/a") == b"x\n"


@pytest.mark.slow
def test_a_server_that_goes_away_is_waited_for(lab, server, tmp_path):
    lab.write_trials(*(trial(f"t-{i}", f"mkdir /out; head -c 30000000 /dev/urandom >/out/a; sleep 0.{i}") for i in range(6)))
    run = lab.start("run", "--wait")
    wait_until(lambda: server.keys("of us/test-a-server-that-goes-away"), "the first comes home")
    server.kill9()
    wait_until(lambda: any(row["state"] == "collecting" for row in lab.ps().values()), "one waits")
    server.start()
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    server.fetch(lab.place(), tmp_path / "home")
    for i in range(6):
        check_sums(tmp_path / f"home/t-{i}")


@pytest.mark.slow
def test_outputs_are_complete_despite_upload_faults(lab, server, tmp_path):
    text = "mkdir /out; cd /out; head -c 40000000 /dev/urandom >large; for i in $(seq 30); do head -c 70000 /dev/urandom >$i; done; sha256sum *"
    lab.write_trials(trial("one", text), trial("two", text))
    with Trouble(server) as trouble:
        lab("run", "--wait", S3_ENDPOINT_URL=trouble.url)
    assert all(trouble.made.values()), trouble.made
    server.fetch(lab.place(), tmp_path / "home")
    for name in ("one", "two"):
        check_sums(tmp_path / "home" / name)
        came = subprocess.run("sha256sum *", shell=True, cwd=tmp_path / "home" / name / "out", stdout=subprocess.PIPE, text=True, check=True).stdout
        assert came == lab("logs", name).stdout
        assert len(came.splitlines()) == 31
    assert not server.uploads()


@pytest.mark.parametrize("wrong, said", [("+3900s", "1h05m ahead of"), ("-7500s", "2h0[45]m behind")])
def test_a_wrong_clock_is_reported(lab, server, engine, wrong, said):
    (library,) = Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
    lab.write_trials(trial("one", "mkdir /out"))
    done = lab("run", "--wait", code=1, LD_PRELOAD=str(library), FAKETIME=wrong, FAKETIME_DONT_FAKE_MONOTONIC="1")
    assert re.search(rf"this machine's clock is {said} the server's, and signatures are valid for 15 minutes; set the clock", done.stderr), done.stderr
    assert not engine.names()


def test_outputs_survive_a_death_of_combu(lab, server, tmp_path):
    lab.write_trials(trial("one", "mkdir /out; for i in 1 2 3 4; do head -c 30000000 /dev/urandom >/out/$i; done"))
    run = lab.start("run", "--wait")
    wait_until(lambda: lab.ps().get("one", {}).get("state") == "collecting", "it is brought home")
    run.kill()
    run.communicate()
    assert not [key for key in server.keys("of us/test-outputs-survive") if key.endswith("manifest.sha256")]
    lab("run", "--resume")
    server.fetch(lab.place(), tmp_path / "home")
    check_sums(tmp_path / "home/one")


@pytest.mark.slow
def test_outputs_in_the_bucket_can_be_inputs(lab, server, tmp_path):
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    lab.env["TMPDIR"] = str(waiting)
    left = (
        "mkdir -p /out/sub /out/none; echo alpha >/out/sub/a; ln -s sub/a /out/latest; head -c 20000000 /dev/urandom >/out/large; "
        "printf '#!/bin/sh\\ncat /in/latest\\n' >/out/tool; chmod 750 /out/tool; sha256sum </out/large"
    )
    got = "/in/tool; sha256sum </in/large; cd /in; find . | sort | xargs; stat -c %a tool"
    inputs = ["trial:first/out:/in"]
    lab.write_trials(
        trial("first", left),
        *[trial(f"then-{i}", got, inputs=inputs, outputs=[]) for i in range(3)],
        trial("one", "cat /one; exit 1", inputs=["trial:first/out/sub/a:/one"], outputs=[]),
    )

    def said(name):
        return lab("logs", name).stdout

    lab("run", "--wait", code=1)
    for i in range(3):
        assert said(f"then-{i}") == "alpha\n" + said("first") + ". ./large ./latest ./none ./sub ./sub/a ./tool\n750\n"
    assert said("one") == "alpha\n"
    # A later combu process can read the input from the bucket, unless the object has changed.
    lab("retry", "one", "--wait", code=1)
    assert said("one") == "alpha\n" and lab.ps()["one"]["cause"] == "error"
    server.ask("PUT", "/" + quote(lab.place() + "first/out/sub/a"), "--data-binary", "beta")
    lab("retry", "one", "--wait", code=1)
    assert lab.ps()["one"]["cause"] == "start"
    assert "/first/out/sub/a: does not match its manifest: the file was changed after it was collected" in lab("why", "one").stdout
    assert not list(waiting.iterdir())


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a file system of 4 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_inputs_too_large_for_the_disk_fail_their_trial(lab, server, small_disk):
    def left(size):
        return f"mkdir /out; head -c {size} /dev/urandom >/out/a; sha256sum </out/a"

    def then(name, of, **fields):
        return trial(name, "sha256sum </in/a", inputs=[f"trial:{of}/out:/in"], outputs=[], **fields)

    lab.write_trials(
        trial("large", left(8 << 20)),
        trial("fits", left(3 << 20)),
        then("of-large", "large"),
        # The inputs of this trial fit only if combu has removed the incomplete inputs of `of-large`.
        then("of-fits", "fits", depends=[{"trial": "of-large", "condition": "finished"}]),
        trial("other", "true", outputs=[], depends=[{"trial": "of-large", "condition": "finished"}]),
    )
    done = lab("run", "--wait", code=1, TMPDIR=str(small_disk))
    rows = lab.ps()
    assert {name: row["state"] for name, row in rows.items()} == {
        "large": "succeeded", "fits": "succeeded", "of-large": "failed", "of-fits": "succeeded", "other": "succeeded"
    }  # fmt: skip
    assert rows["of-large"]["cause"] == "start"
    assert lab("logs", "of-fits").stdout == lab("logs", "fits").stdout
    why = lab("why", "of-large").stdout
    assert re.search(rf"{small_disk}/combu-\w+/\d+/out/a: cannot be written: No space left on device; set TMPDIR", why), why
    assert not list(small_disk.iterdir()), done.stderr


def test_what_a_trial_has_left_so_far_comes_to_the_bucket(lab, server, tmp_path):
    (tmp_path / "signal").mkdir()
    text = "mkdir /out; echo 1 >/out/a; until [ -e /signal/go ]; do sleep 0.05; done; echo 2 >/out/b; exit $(cat /signal/go)"
    volumes = [f"{tmp_path / 'signal'}:/signal"]
    lab.write_trials(trial("one", text, volumes=volumes), every="1s", on="success")

    def keys():
        return {key.split("/", 3)[3] for key in server.keys("of us/test-what-a-trial-has-left-so-far")}

    def end(code):
        run = lab.start("run", "--wait")
        wait_until(lambda: "one@so-far/manifest.sha256" in keys(), "some of it is there")
        (tmp_path / "signal/new").write_text(str(code))
        (tmp_path / "signal/new").rename(tmp_path / "signal/go")  # the trial reads the file as soon as it exists
        _, err = run.communicate(timeout=60)
        assert run.returncode == code, err

    lists = {f"manifest.{kind}" for kind in ("sha256", "entries")}
    end(1)
    assert keys() == {f"one@so-far/{name}" for name in lists | {"out/a"}}, "of one that has failed that is all"
    (tmp_path / "signal/go").unlink()
    for key in server.keys("of us/test-what-a-trial-has-left-so-far"):
        server.ask("DELETE", "/" + quote(key))
    end(0)
    assert keys() == {f"one/{name}" for name in lists | {"out/a", "out/b"}}
    server.fetch(lab.place(), tmp_path / "home")
    check_sums(tmp_path / "home/one")


def test_cache_lookup_does_not_download_inputs(lab, server, tmp_path):
    left = "mkdir -p /out/sub /out/none; echo alpha >/out/sub/a; ln -s sub /out/latest; ln /out/sub/a /out/again; echo x >/out/tool; chmod 750 /out/tool"
    got = "mkdir /got; cp -r /in/. /got"
    lab.write_trials(
        trial("first", left, cache=True),
        *[trial(f"then-{i}", got, inputs=["trial:first/out:/in"], outputs=["/got"], cache=True, env={"N": str(i)}) for i in range(3)],
        trial("sub", got, inputs=["trial:first/out/latest:/in"], outputs=["/got"], cache=True),
    )
    lab("run", "--wait")
    assert {row["state"] for row in lab.ps().values()} == {"succeeded"}
    lab("kill")
    lab.env["TMPDIR"] = str(tmp_path / "no-such-folder")
    lab("run", "--wait")
    assert {row["state"] for row in lab.ps().values()} == {"skipped"}


def test_temporary_files_of_a_killed_combu_are_removed(lab, server, tmp_path):
    waiting = tmp_path / "waiting"
    waiting.mkdir()
    lab.env["TMPDIR"] = str(waiting)
    lab.write_trials(
        trial("first", "mkdir /out; echo alpha >/out/a"),
        trial("then", "cat /in/a; sleep 1000", inputs=["trial:first/out:/in"], outputs=[]),
    )
    run = lab.start("run", "--wait")
    wait_until(lambda: lab.ps().get("then", {}).get("state") == "running", "it has its inputs")
    run.kill()
    run.communicate()
    (before,) = waiting.iterdir()
    lab("kill")
    lab.write_trials(trial("first", "mkdir /out; echo alpha >/out/a"), trial("then", "cat /in/a", inputs=["trial:first/out:/in"], outputs=[]))
    lab("run", "--wait")
    assert lab("logs", "then").stdout == "alpha\n"
    assert not list(waiting.iterdir()), before


def test_keys_are_not_stored(lab, engine):
    lab.write_trials(trial("one", "mkdir /out; env >/out/env"))
    lab("--trace", lab.home / "trace", "run", "--wait")
    assert SECRET not in json.dumps(engine.containers())
    for path in lab.home.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


@pytest.mark.slow
def test_trials_of_other_users_are_reused(lab, another, server, tmp_path):
    """A marker in the bucket tells combu that another user's trial succeeded, although this user's record lacks it."""
    text = "mkdir -p /out/sub; echo alpha >/out/sub/a; ln -s sub/a /out/latest; touch -d @1000000000 /out/sub/a"
    trials = [trial("one", text, cache=True), trial("two", text, cache=True, env={"LR": "2"}), trial("not", text)]

    def states(combu, run):
        combu("run", "--wait", "--run-id", run)
        combu("kill")
        return {name: row["state"] for name, row in combu.ps().items()}

    lab.write_trials(*trials)
    assert set(states(lab, "first").values()) == {"succeeded"}
    experiment = json.loads(lab.file.read_text())["experiment"]
    other = another(lab)
    assert states(other, "second") == {"one": "skipped", "two": "skipped", "not": "succeeded"}
    assert "equal to `one` of run first" in other("why", "one").stdout
    keys = {}
    for run in ("first", "second"):
        place = f"of us/{experiment}/{run}/"
        keys[run] = {key[len(place) :] for key in server.keys(place)}
        server.fetch(place, tmp_path / run)
        for one in ("one", "two"):
            check_sums(tmp_path / run / one)
    assert keys["first"] == keys["second"]
    # A marker whose outputs are gone counts as a miss. The next success overwrites it.
    markers = {key: server.get(key) for key in server.keys("of us/.combu/done/") if b"/first/one" in server.get(key)}
    assert len(markers) == 1
    for run in ("first", "second"):
        server.ask("DELETE", "/" + quote(f"of us/{experiment}/{run}/one/manifest.sha256"))
    assert states(other, "third") == {"one": "succeeded", "two": "skipped", "not": "succeeded"}
    assert {key: server.get(key).decode().splitlines()[0] for key in markers} == dict.fromkeys(markers, f"{experiment}/third/one")
    assert states(another(lab), "fourth") == {"one": "skipped", "two": "skipped", "not": "succeeded"}
    # A marker whose outputs were replaced, as by another attempt, also counts as a miss.
    manifest = f"of us/{experiment}/third/one/manifest.sha256"
    server.ask("PUT", "/" + quote(manifest), "--data-binary", server.get(manifest).decode() + "\n")
    assert states(another(lab), "fifth") == {"one": "succeeded", "two": "skipped", "not": "succeeded"}


def test_logs_and_metrics_of_other_users_are_reused(lab, another, server):
    text = "mkdir /out; echo alpha >/out/a; echo '{\"loss\": 0.5}'; echo done >&2"
    lab.write_trials(trial("one", text, cache=True, metrics="json"))
    lab("run", "--wait", "--run-id", "first")
    lab("kill")
    other = another(lab)
    other("run", "--wait", "--run-id", "second")
    other("kill")
    (row,) = map(json.loads, other("results", "--json").stdout.splitlines())
    assert (row["state"], row["metrics"]["loss"]["last"]) == ("skipped", 0.5)
    logs = other("logs", "one")
    assert (logs.stdout, logs.stderr) == ('{"loss": 0.5}\n', "done\n")
    # If the shared logs and metrics are gone, the trial must run again to get its metrics.
    for key in server.keys("of us/.combu/told/"):
        server.ask("DELETE", "/" + quote(key))
    third = another(lab)
    third("run", "--wait", "--run-id", "third")
    third("kill")
    assert third.ps()["one"]["state"] == "succeeded"


def test_resume_writes_missing_markers(lab, another, server, tmp_path):
    """If combu is killed between a trial's success and the write of its marker, `run --resume` writes the marker."""
    hold = tmp_path / "hold"
    hold.mkdir()
    lab.write_trials(
        trial("one", "mkdir /out; echo alpha >/out/a", cache=True, env={"OF": "goes-on"}),
        trial("held", "until [ -e /hold/go ]; do sleep 0.05; done", outputs=[], volumes=[f"{hold}:/hold"]),
    )
    before = set(server.keys("of us/.combu/done/"))
    run = lab.start("run", "--wait", "--run-id", "first")
    wait_until(lambda: set(server.keys("of us/.combu/done/")) - before, "the marker")
    (marker,) = set(server.keys("of us/.combu/done/")) - before
    run.kill()
    run.communicate()
    server.ask("DELETE", "/" + quote(marker))
    (hold / "go").touch()
    lab("run", "--resume", "--wait")
    assert server.get(marker).decode().splitlines()[0].endswith("/first/one")


def test_edited_outputs_in_the_bucket_are_not_reused(lab, server, tmp_path):
    text = "mkdir -p /out; echo alpha >/out/a; ln /out/a /out/again; echo large >/out/b"
    trials = [trial(f"t-{i}", text, cache=True, env={"N": str(i)}) for i in range(4)]
    lab.write_trials(*trials)
    experiment = json.loads(lab.file.read_text())["experiment"]

    def states(run):
        lab("run", "--wait", "--run-id", run)
        lab("kill")
        return [lab.ps()[f"t-{i}"]["state"] for i in range(4)]

    def put(run, path, text):
        place, name = f"of us/{experiment}/{run}/", path.split("/")[0]

        def is_later():  # some servers have timestamps in whole seconds
            server.ask("PUT", "/" + quote(place + path), "--data-binary", text)
            return server.written(place + path) > server.written(f"{place}{name}/manifest.sha256")

        wait_until(is_later, "the server's clock goes on")

    assert states("first") == ["succeeded"] * 4
    put("first", "t-0/out/a", "edited")
    put("first", "t-1/out/again", "edited")
    put("first", "t-2/out/b", "large\n")
    put("first", "t-2/out/notes", "mine")
    assert states("second") == ["succeeded", "succeeded", "skipped", "skipped"]
    assert states("third") == ["skipped"] * 4
    server.fetch(f"of us/{experiment}/third/", tmp_path / "third")
    for i in range(4):
        check_sums(tmp_path / f"third/t-{i}")
        assert {path.name: path.read_text() for path in (tmp_path / f"third/t-{i}/out").iterdir()} == {
            "a": "alpha\n", "again": "alpha\n", "b": "large\n"
        }  # fmt: skip


def test_markers_that_cannot_be_written_are_reported(lab, server):
    lab.write_trials(*(trial(f"t-{i}", "mkdir /out; echo alpha >/out/a", cache=True, env={"N": f"{i}, untold"}) for i in range(5)))
    with Trouble(server, kinds=(), refused="/.combu/done/") as trouble:
        done = lab("run", "--wait", "--run-id", "first", S3_ENDPOINT_URL=trouble.url)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("publishing ")]
    assert line.startswith("publishing 5 trials failed, so other runs may repeat equal trials: "), line
    assert line.endswith("the keys from AWS_ACCESS_KEY_ID do not allow s3:PutObject"), line


def test_two_simultaneous_successes_leave_one_marker(lab, another, server, tmp_path):
    (tmp_path / "hold").mkdir()
    text = "until [ -e /hold/go ]; do sleep 0.05; done; mkdir /out; echo 1 >/out/a"
    one = trial("one", text, cache=True, volumes=[f"{tmp_path / 'hold'}:/hold"])
    before = set(server.keys("of us/.combu/done/"))
    lab.write_trials(one)
    other = another(lab)
    # The second user's experiment has another name: otherwise combu would refuse the second run while
    # trials of the first are running.
    name = json.loads(lab.file.read_text())["experiment"]
    other.write(lab.file.read_text().replace(name, name + "-too").replace('"name": "one"', '"name": "two"'))
    runs = [lab.start("run", "--wait", "--run-id", "first"), other.start("run", "--wait", "--run-id", "second")]
    wait_until(lambda: [row["state"] for combu in (lab, other) for row in combu.ps().values()] == ["running", "running"], "both run")
    (tmp_path / "hold/go").touch()
    for run in runs:
        _, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
    (marker,) = set(server.keys("of us/.combu/done/")) - before
    assert re.fullmatch(r".*/(first/one|second/two)\n[0-9a-f-]+", server.get(marker).decode())
