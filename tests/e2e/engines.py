"""Test engines and the program combu: a thin layer over the scripts of tests/engines and the Docker Engine API."""

import base64
import hashlib
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
    """Returns the first true value of `condition()`. Fails if there is none within `seconds`."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def trial(name, script, **fields):
    """Returns a trial that runs a shell script in the test image."""
    return {"name": name, "image": "combu-test", "cmd": ["sh", "-c", script], **fields}


def trial_with_outputs(name, script, **fields):
    """Returns a trial as trial(), with the outputs /out unless `fields` has other outputs."""
    return trial(name, script, **{"outputs": ["/out"], **fields})


def command_lines():
    """Yields the command lines of all processes of this machine."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:  # the process has ended
            pass


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


def image_options(programs=None, cmd=None):
    """Returns options of the script `image`: a folder with further programs, and the default command."""
    return [*(["--programs", programs] if programs else []), *(["--cmd", cmd] if cmd else [])]


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
        self.first_in_path = ""  # a folder that is put first in dockerd's PATH
        self.dir = Path(tempfile.mkdtemp(prefix="engine-", dir=os.environ.get("COMBU_TEST_DIR")))
        self.socket = self.dir / "docker.sock"
        self.host = f"unix://{self.socket}"
        self._mount_data("-t", "tmpfs", "tmpfs")  # in memory: dockerd waits for the disk at each write of a state

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

    def load_image(self, *names, **options):
        """Builds the test image under each name; image_options() describes the options."""
        for name in names or ("combu-test:latest",):
            script("image", self.dir, *image_options(**options), name)

    def use_small_disk(self, mebibytes):
        """Puts the engine's data on a file system of this size. Call it before start()."""
        disk = self.dir / "disk.img"
        with disk.open("wb") as file:
            file.truncate(mebibytes << 20)
        # dockerd does not start if the file system has too few inodes for its own files.
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-N", "4096", disk], check=True)
        self._mount_data("-o", "loop", disk)

    # ---- The engine's API

    def ask(self, method, path, body=None, headers=None):
        """Returns (status, answer). The answer is parsed if it is JSON, and a string otherwise."""
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
        """Returns {name: inspection} of all containers, including ended ones."""
        listed = self.get("/containers/json?all=1")
        return {c["Names"][0][1:]: self.get(f"/containers/{c['Id']}/json") for c in listed}

    def names(self):
        return {c["Names"][0][1:] for c in self.get("/containers/json?all=1")}

    def running(self):
        return {c["Names"][0][1:] for c in self.get("/containers/json")}

    def networks(self):
        """Returns {name: network} without the networks that every engine has."""
        return {n["Name"]: n for n in self.get("/networks") if n["Name"] not in ("bridge", "host", "none")}

    def account(self):
        """Returns a text for the report of a failed test: the end of dockerd's log, and the containers' states."""
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
        """Starts a container that does not belong to combu."""
        status, answer = self.ask(
            "POST", f"/containers/create?name={name}", {"Image": "combu-test", "Cmd": ["sleep", "600"], **fields}
        )
        assert status == 201, answer
        status, answer = self.ask("POST", f"/containers/{name}/start")
        assert status == 204, answer

    def combu_environment(self):
        """Returns the variables by which combu finds the engine."""
        return {"DOCKER_HOST": self.host}

    def combu_options(self):
        """Returns the options by which combu finds the engine."""
        return []

    def remove_all(self):
        for container in self.get("/containers/json?all=1"):
            status, answer = self.ask("DELETE", f"/containers/{container['Id']}?force=1&v=1")
            assert status in (204, 404), answer
        for network in self.networks().values():
            status, answer = self.ask("DELETE", f"/networks/{network['Id']}")
            if status == 403:  # the engine can miscount a network's endpoints (moby#42119); a restart corrects the count
                self.stop()
                self.start()
                status, answer = self.ask("DELETE", f"/networks/{network['Id']}")
            assert status in (204, 404), answer

    # ---- Registries in the engine's network

    def push(self, image, name, tag, account=None):
        """Pushes a local image as NAME:TAG to a registry, and removes this tag from the engine."""
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
    """Runs the program combu as a user with the home folder `home`."""

    def __init__(self, program, home, engine):
        self.program = program
        self.home = home
        self.engine = engine
        self.engine_options = engine.combu_options()
        self.file = home / "experiment.jsonnet"
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], **engine.combu_environment()}
        self.started = []

    def write(self, experiment):
        """Writes the experiment file. `experiment` is Jsonnet text, or an object that is written as JSON."""
        text = experiment if isinstance(experiment, str) else json.dumps(experiment)
        self.file.write_text(text, encoding="utf-8")

    def _command(self, arguments, in_net):
        command = [str(self.program), *self.engine_options, "-f", str(self.file), *map(str, arguments)]
        return [str(SCRIPTS / "engine"), "in", str(self.engine.dir), *command] if in_net else command

    def __call__(self, *arguments, code=0, in_net=False, timeout=120, **env):
        """Runs combu to its end and returns the process. Fails unless the exit code is `code` (None: any)."""
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
        done.stderr = re.sub(r"^evaluating .*…\n", "", done.stderr)  # combu prints this line only on a slow machine
        if code is not None:
            assert done.returncode == code, f"{arguments}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def start(self, *arguments):
        """Starts combu and returns the process. The caller has to end and await the process."""
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
        """Kills the processes that a failed test has left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()

    def account(self):
        """Returns a text for the report of a failed test: the output of `ps` and `events`."""
        asked = [self("ps", code=None, timeout=30), self("events", code=None, timeout=30)]
        return "".join(done.stdout[-4000:] + done.stderr[-1000:] for done in asked)

    def ps(self):
        """Returns {trial: row} of `ps --json`."""
        rows = [json.loads(line) for line in self("ps", "--json").stdout.splitlines()]
        return {row["trial"]: row for row in rows}


def results_outputs_and_logs(combu):
    """Returns all that the last run gave: results, outputs and logs, without times, hosts, ids and numbers of attempts."""
    results = {}
    for row in map(json.loads, combu("results", "--json").stdout.splitlines()):
        del row["seconds"], row["attempt"]
        run = row.pop("run")
        results[row["trial"]] = row
    outputs = {}
    for file in combu.file.parent.glob(f"results/*/{run}/**/*"):
        if file.is_file() and file.name != "manifest.sha256":  # the order of its lines is that of the folders
            outputs["/".join(file.relative_to(combu.file.parent / "results").parts[2:])] = hashlib.sha256(file.read_bytes()).hexdigest()
    return results, outputs, {name: combu("logs", name).stdout for name in results}


def docker_config(home, config):
    folder = home / ".docker"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
