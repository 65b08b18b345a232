"""The first example of docs/experiment.md runs, and is killed, unchanged on a Docker Engine and on a Kubernetes cluster."""

import json
import re

import pytest
from conftest import ROOT
from engines import wait_until

SOLVERS = {f"solver-{mode}-{id}" for mode in "ab" for id in range(1, 6)}
ENDING = {name for name in SOLVERS if name.startswith("solver-a-")}  # these solvers end by themselves

# The program `make` of the solvers' image.
MAKE = """#!/bin/sh
[ "$1" = simulation ] && [ $# = 3 ] || { echo "make: unexpected arguments $*" >&2; exit 2; }
until state=$(wget -q -O - http://loader:8080/state 2>/dev/null); do sleep 0.1; done
echo "$2 $3 state=$state"
[ "$3" = MODE=a ] || exec sleep 600
"""

# The default command of the loader's image. It serves the state after it has reached each solver by its name, so no solver ends
# before that.
LOADER = """#!/bin/sh
for mode in a b; do
  for id in 1 2 3 4 5; do
    until ping -c 1 -W 1 solver-$mode-$id >/dev/null 2>&1; do sleep 0.1; done
    echo "reached solver-$mode-$id"
  done
done
mkdir /data
echo 42 >/data/state
exec httpd -f -p 8080 -h /data
"""


class OnDocker:
    def __init__(self, engine):
        self.engine = engine
        self.load_image = engine.load_image

    def left(self):
        """Returns the names of all containers and networks."""
        return self.engine.names() | set(self.engine.networks())


class OnKubernetes:
    def __init__(self, user):
        self.engine = user
        self.load_image = user.cluster.load_image

    def left(self):
        """Returns the names of all objects that have a label of combu."""
        kinds = "pods,services,configmaps,networkpolicies.networking.k8s.io"
        return set(self.engine.kubectl("get", kinds, "--selector", "combu.run", "--output", "name").split())


@pytest.fixture(params=[pytest.param("docker", marks=pytest.mark.slow), pytest.param("kubernetes", marks=pytest.mark.kubernetes)])
def place(request):
    """Where the example runs. Only the engine that a case needs is started."""
    on = {"docker": (OnDocker, "engine"), "kubernetes": (OnKubernetes, "user")}
    kind, fixture = on[request.param]
    return kind(request.getfixturevalue(fixture))


def first_example():
    text = (ROOT / "docs/experiment.md").read_text(encoding="utf-8")
    return re.search(r"^```jsonnet\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


def load_image(place, folder, name, program, text, **options):
    folder.mkdir()
    (folder / program).write_text(text, encoding="utf-8")
    place.load_image(f"registry.example.com/lab/{name}:latest", programs=folder, **options)


def test_the_first_example_runs_and_is_killed(combu_on, place, tmp_path):
    load_image(place, tmp_path / "solver", "solver", "make", MAKE)
    load_image(place, tmp_path / "loader", "loader", "load", LOADER, cmd="load")
    combu = combu_on(place.engine)
    combu.write(first_example())
    combu("run")
    combu("wait", *ENDING)

    states = {name: row["state"] for name, row in combu.ps().items()}
    assert states == {name: "succeeded" if name in ENDING else "running" for name in SOLVERS | {"loader"}}
    for name in SOLVERS:
        _, mode, number = name.split("-")
        result = f"ID={number} MODE={mode} state=42\n"
        wait_until(lambda: combu("logs", name).stdout == result, f"the log of {name}")
    assert set(combu("logs", "loader").stdout.splitlines()) == {f"reached {name}" for name in SOLVERS}
    assert combu("why", "solver-a-1").stdout == "solver-a-1 has succeeded\n"
    assert combu("why", "loader").stdout.startswith("loader runs for ")

    assert place.left() != set()
    combu("kill")
    assert place.left() == set()
    rows = combu.ps()
    assert {name for name, row in rows.items() if row["state"] == "succeeded"} == ENDING
    results = [json.loads(line) for line in combu("results", "--json").stdout.splitlines()]
    assert {(row["trial"], row["state"], row["exit_code"], row["attempt"]) for row in results} == {
        (name, *(("succeeded", 0) if name in ENDING else ("stopped", None)), 1) for name in SOLVERS | {"loader"}
    }
    assert {row["reason"] for name, row in rows.items() if name not in ENDING} == {"removed by `combu kill`"}
    combu("kill")
