"""The built program as a process. Its path: $COMBU, else build/release/combu."""

import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMBU = os.environ.get("COMBU", str(ROOT / "build/release/combu"))
SIMULATED = "simulated:?speed=0&start=0.01&trial=1"


@pytest.fixture
def combu(tmp_path):
    """combu(arguments…) runs it in a new folder, without the caller's Docker settings."""

    def run(*arguments, env=None, **options):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("DOCKER_") and name not in ("JSONNET_PATH", "NO_COLOR")}
        clean.update(HOME=str(tmp_path), **(env or {}))
        options = {"capture_output": True, "text": True, "timeout": 60, "cwd": tmp_path, **options}
        done = subprocess.run([COMBU, *map(str, arguments)], env=clean, **options)
        if done.stderr and options["text"]:
            done.stderr = re.sub(r"^evaluating .*…\n", "", done.stderr)  # said on a slow machine only
        return done

    return run


@pytest.fixture
def write(tmp_path):
    """write(text) makes experiment.jsonnet of it in the folder that combu runs in."""

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
