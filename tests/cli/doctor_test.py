"""`combu doctor` on engines that answer, and on engines that cannot be reached."""

import json
import re
import socket
import threading

import pytest
from conftest import SIMULATED
from engine_server import EngineHandler, EngineServer


class Engine(EngineHandler):
    """A Docker Engine on another machine."""

    def do_GET(self):  # noqa: N802
        if self.resource == "/version":
            self.send_json({"Version": "29.1", "ApiVersion": "1.41"})
        elif self.resource == "/info":
            self.send_json({"NCPU": 4, "MemTotal": 8 << 30, "Name": "elsewhere.example", "LiveRestoreEnabled": False})
        else:
            self.send_json("OK")


@pytest.fixture
def engine(tmp_path):
    with EngineServer(str(tmp_path / "engine.sock"), Engine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{tmp_path}/engine.sock"
        server.shutdown()


def split(result):
    """Returns the code and the output without the finding about the disk of the test's folder, which may be of any kind."""
    lines = result.stdout.splitlines(keepends=True)
    assert re.match(r"(ok     |warning|fault  ) disk: .* are free on the disk of .*/\.local/state/combu", lines[-1])
    code = 0 if lines[-1].startswith("fault") and result.returncode == 1 else result.returncode
    return code, "".join(lines[:-1])


def test_the_simulated_engine(combu):
    result = combu("--engine", SIMULATED, "doctor")
    assert split(result) == (0, "ok      engine: simulated engine at simulated:\n")
    assert result.stderr == ""


def test_an_engine_with_a_warning(combu, engine):
    code, text = split(combu("--engine", engine, "doctor"))
    assert (code, text) == (0, (
        f"ok      engine: Docker Engine 29.1 (API 1.41) at {engine} (from --engine)\n"
        "warning restart: a restart of the engine ends all running trials (live-restore is off); write `\"live-restore\": true` "
        "into /etc/docker/daemon.json, and run `sudo systemctl reload docker`\n"))


def test_findings_as_json(combu, engine):
    lines = [json.loads(line) for line in combu("--engine", engine, "doctor", "--json").stdout.splitlines()]
    assert [line["subject"] for line in lines] == ["engine", "restart", "disk"]
    assert all(list(line) == ["kind", "subject", "text", "remedy"] for line in lines)
    assert [line["kind"] for line in lines[:2]] == ["ok", "warning"]
    assert lines[0]["remedy"] == "" and "daemon.json" in lines[1]["remedy"]


def test_a_missing_socket(combu, tmp_path):
    result = combu("doctor", env={"DOCKER_HOST": f"unix://{tmp_path}/no.sock"})
    code, text = split(result)
    assert code == 3
    assert text.startswith(f"fault   socket: {tmp_path}/no.sock (from DOCKER_HOST) does not exist: no engine runs there; ")
    assert result.stderr == ""


def test_a_socket_without_a_process(combu, tmp_path):
    with socket.socket(socket.AF_UNIX) as unused:
        unused.bind(str(tmp_path / "old.sock"))
    code, text = split(combu("--engine", f"unix://{tmp_path}/old.sock", "doctor"))
    assert code == 3
    assert text.startswith(f"fault   socket: no process listens on {tmp_path}/old.sock (from --engine): ")


def test_an_engine_of_this_user_is_suggested(combu, tmp_path, engine):
    (tmp_path / "docker.sock").symlink_to(tmp_path / "engine.sock")
    environment = {"DOCKER_HOST": f"unix://{tmp_path}/no.sock", "XDG_RUNTIME_DIR": str(tmp_path)}
    _, text = split(combu("doctor", env=environment))
    assert re.search(r"; an engine listens at unix://\S+: use --engine unix://\S+, or set DOCKER_HOST=unix://", text)


def test_a_wrong_context_is_an_error(combu):
    result = combu("doctor", env={"DOCKER_CONTEXT": "absent"})
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("combu: context absent: ")


def test_a_state_folder_that_is_no_folder(combu, tmp_path):
    (tmp_path / "file").write_text("")
    result = combu("--engine", SIMULATED, "doctor", env={"COMBU_HOME": str(tmp_path / "file")})
    assert result.returncode == 1
    assert re.search(r"^fault   state: .*/file: cannot be created: .*COMBU_HOME$", result.stdout, re.M)


def test_doctor_reads_no_experiment(combu):
    result = combu("-f", "x.jsonnet", "doctor")
    assert (result.returncode, result.stderr) == (2, "combu: doctor: the command reads no experiment; leave out -f x.jsonnet\n")


def test_other_commands_mention_doctor(combu, tmp_path):
    assert "; run `combu doctor`, or choose another engine" in combu("--engine", f"unix://{tmp_path}/no.sock", "kill", "--experiment", "x").stderr
