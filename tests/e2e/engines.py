"""Engines that a test starts, asks and ends: a thin layer over tests/engines and the Docker Engine API."""

import base64
import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

SCRIPTS = Path(__file__).resolve().parents[1] / "engines"


def wait_until(condition, what, seconds=60):
    """The first true value of `condition()`; fails when there is none within `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def trial(name, script, **fields):
    """A trial that runs the shell's script in the test image."""
    return {"name": name, "image": "combu-test", "cmd": ["sh", "-c", script], **fields}


def trial_with_outputs(name, script, **fields):
    """The same, with the outputs /out unless `fields` says otherwise."""
    return trial(name, script, **{"outputs": ["/out"], **fields})


def script(name, *arguments, **env):
    done = subprocess.run(
        [SCRIPTS / name, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, f"{name} {arguments}: {done.stderr}{done.stdout}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Engine:
    def __init__(self, version, *options):
        self.version = version
        self.options = options
        self.first_in_path = ""  # where dockerd looks for programs before all other folders
        self.dir = Path(tempfile.mkdtemp(prefix="engine-", dir=os.environ.get("COMBU_TEST_DIR")))
        self.socket = self.dir / "docker.sock"
        self.host = f"unix://{self.socket}"
        self._mount_data("-t", "tmpfs", "tmpfs")  # dockerd waits for the disk each time that a state is written

    def _mount_data(self, *source):
        data = self.dir / "data"
        data.mkdir(exist_ok=True)
        subprocess.run(["mount", *source, data], check=True)

    def start(self):
        path = f"{self.first_in_path}:{os.environ['PATH']}" if self.first_in_path else os.environ["PATH"]
        script("engine", "start", self.dir, self.version, *self.options, PATH=path)

    def stop(self):
        script("engine", "stop", self.dir)

    def kill9(self):
        script("engine", "kill9", self.dir)

    def wipe(self):
        script("engine", "wipe", self.dir)

    def load_image(self, *names, cmd=None):
        for name in names or ("combu-test:latest",):
            script("image", self.dir, *(("--cmd", cmd) if cmd else ()), name)

    def use_small_disk(self, mebibytes):
        """Before start(): its data lies in a file system of this size."""
        disk = self.dir / "disk.img"
        with disk.open("wb") as file:
            file.truncate(mebibytes << 20)
        # dockerd gives up on fewer inodes than its own files need.
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "4096", disk], check=True)
        self._mount_data("-o", "loop", disk)

    # ---- Its API

    def ask(self, method, path, body=None, headers=None):
        """(status, answer): JSON where it is JSON, else text."""
        connection = UnixConnection(self.socket)
        try:
            connection.request(
                method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
            )
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        finally:
            connection.close()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, text

    def get(self, path):
        status, answer = self.ask("GET", path)
        assert status == 200, (path, status, answer)
        return answer

    def containers(self):
        """{name: inspection}, of all that exist."""
        listed = self.get("/containers/json?all=1")
        return {c["Names"][0][1:]: self.get(f"/containers/{c['Id']}/json") for c in listed}

    def names(self):
        return {c["Names"][0][1:] for c in self.get("/containers/json?all=1")}

    def running(self):
        return {c["Names"][0][1:] for c in self.get("/containers/json")}

    def networks(self):
        """{name: inspection}, without the engine's own."""
        return {n["Name"]: n for n in self.get("/networks") if n["Name"] not in ("bridge", "host", "none")}

    def account(self):
        """For a person who reads of a failure: the end of its log, and its containers' states."""
        lines = []
        log = self.dir / "dockerd.log"
        if log.exists():
            lines += log.read_text(encoding="utf-8", errors="replace").splitlines()[-100:]
        try:
            lines += [f"{name}: {json.dumps(one['State'])}" for name, one in self.containers().items()]
        except (OSError, AssertionError, http.client.HTTPException) as error:
            lines.append(f"it does not answer: {error!r}")
        return "\n".join(lines)

    def run_stranger(self, name, **fields):
        """A container that is not combu's."""
        status, answer = self.ask(
            "POST", f"/containers/create?name={name}", {"Image": "combu-test", "Cmd": ["sleep", "600"], **fields}
        )
        assert status == 201, answer
        status, answer = self.ask("POST", f"/containers/{name}/start")
        assert status == 204, answer

    def remove_all(self):
        for container in self.get("/containers/json?all=1"):
            status, answer = self.ask("DELETE", f"/containers/{container['Id']}?force=1&v=1")
            assert status in (204, 404), answer
        for network in self.networks().values():
            status, answer = self.ask("DELETE", f"/networks/{network['Id']}")
            if status == 403:  # its count of endpoints can go wrong (moby#42119): a restart mends that
                self.stop()
                self.start()
                status, answer = self.ask("DELETE", f"/networks/{network['Id']}")
            assert status in (204, 404), answer

    # ---- Registries in its network

    def push(self, image, name, tag, account=None):
        """Pushes a local image as NAME:TAG and forgets it here."""
        auth = {}
        if account:
            user, password = account.split(":")
            auth = {"username": user, "password": password}
        header = {"X-Registry-Auth": base64.urlsafe_b64encode(json.dumps(auth).encode()).decode()}
        assert self.ask("POST", f"/images/{image}/tag?repo={name}&tag={tag}")[0] == 201
        status, answer = self.ask("POST", f"/images/{name}/push?tag={tag}", headers=header)
        assert status == 200 and "error" not in str(answer), answer
        assert self.ask("DELETE", f"/images/{quote(name, safe='')}:{tag}")[0] == 200

    def start_registry(self, port, account=None):
        script("registry", "start", self.dir, port, *([account] if account else []))

    def stop_registry(self, port):
        script("registry", "stop", self.dir, port)


class Combu:
    """The program, run as a person with a home folder of their own would."""

    def __init__(self, program, home, engine):
        self.program = program
        self.home = home
        self.engine = engine
        self.file = home / "experiment.jsonnet"
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "DOCKER_HOST": engine.host}
        self.started = []

    def write(self, experiment):
        """Jsonnet text, or what becomes JSON."""
        text = experiment if isinstance(experiment, str) else json.dumps(experiment)
        self.file.write_text(text, encoding="utf-8")

    def _command(self, arguments, in_net):
        command = [str(self.program), "-f", str(self.file), *map(str, arguments)]
        return [str(SCRIPTS / "engine"), "in", str(self.engine.dir), *command] if in_net else command

    def __call__(self, *arguments, code=0, in_net=False, timeout=120, **env):
        """Runs it to its end, which must be the exit code `code` (None: any)."""
        done = subprocess.run(
            self._command(arguments, in_net),
            env={**self.env, **env},
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        done.stderr = re.sub(r"^evaluating .*…\n", "", done.stderr)  # said on a slow machine only
        if code is not None:
            assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments):
        """Starts it, and leaves it to the caller to end and await it."""
        self.started.append(
            subprocess.Popen(
                self._command(arguments, False),
                env=self.env,
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        return self.started[-1]

    def end_all(self):
        """What a test that failed has left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def account(self):
        """For a person who reads of a failure."""
        asked = [self("ps", code=None, timeout=30), self("events", code=None, timeout=30)]
        return "".join(done.stdout[-4000:] + done.stderr[-1000:] for done in asked)

    def ps(self):
        """{trial: row} of `ps --json`."""
        rows = [json.loads(line) for line in self("ps", "--json").stdout.splitlines()]
        return {row["trial"]: row for row in rows}


def docker_config(home, config):
    folder = home / ".docker"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
