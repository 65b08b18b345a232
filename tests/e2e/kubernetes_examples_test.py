"""The examples run unchanged on a Docker Engine and on a cluster, and give the same outputs, logs and results."""

import shutil

import pytest
from conftest import ROOT
from engines import Combu, results_outputs_and_logs

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def demo_image(shared_cluster):
    shared_cluster.load_image("combu-demo:latest")


@pytest.fixture
def copies(demo_image, program, engine, user, tmp_path, witnesses):
    """A function: copies(name) returns a Combu on an engine, and one on a cluster, with a copy of the example each."""

    def copy(name):
        made = []
        for place, kind in ((engine, "docker"), (user, "kubernetes")):
            folder = shutil.copytree(ROOT / "examples" / name, tmp_path / kind, ignore=shutil.ignore_patterns("results"))
            made.append(Combu(program, folder, place))
        witnesses.extend(made)
        return made

    return copy


@pytest.mark.parametrize(("name", "options"), [("cross-validation", []), ("grid", []), ("short", ["--tla-code", "seeds=30"])])
def test_an_example_gives_the_same_on_an_engine_and_on_a_cluster(copies, name, options):
    both = copies(name)
    try:
        for process in [combu.start(*options, "run", "--wait") for combu in both]:
            assert process.wait(120) == 0, process.stderr.read()
        on_engine, on_cluster = map(results_outputs_and_logs, both)
        assert on_cluster == on_engine
    finally:
        for combu in both:
            combu.end_all()
