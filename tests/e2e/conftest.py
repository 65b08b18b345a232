import os
import re
import secrets
import signal
from collections import Counter
from pathlib import Path

import pytest
from clusters import Cluster
from engines import Combu, Engine

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--engine", choices=("20", "29"), default="20", help="the Docker Engine's version")


# A test has the mark `engine_version` if it asserts something that the engine decides or reports, and that may differ
# between versions of the engine:
#  - error texts and status codes that combu interprets (pulls, names, ports, starts);
#  - events, exit codes and states when the engine stops, is killed or restarts, or when a user removes a container;
#  - reports of out-of-memory and health;
#  - image ids, inherited labels, building of images, and how the engine interprets a container's fields;
#  - log files; archives of long paths, unusual files, changing files and volumes;
#  - GPUs, listening addresses, and networks that are created or removed at the same time.
# Tests of combu's own logic have no mark. To run the marked tests on another version: --engine 29 -m engine_version.
MARKS = (
    "engine_version: its behaviour depends on the engine's version",
    "kubernetes: needs the programs of Kubernetes, which take six minutes to build",
    "minio: needs MinIO, which takes three minutes to build",
    "slow: takes more than eight seconds on two cores with two other files beside it; scripts/test leaves it to --all",
    "nightly: takes minutes; only scripts/test --nightly runs it",
)


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if config.pluginmanager.hasplugin("xdist"):
        from xdist.workermanage import NodeManager  # imported here because xdist need not be installed

        NodeManager.EXIT_TIMEOUT = 60  # seconds; a worker stops its engines before it exits, and dockerd may take 15 s for each
    # By default, SIGTERM ends pytest at once and leaves the engines running. This handler lets the fixtures stop them.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("ended by SIGTERM", returncode=143))


def pytest_unconfigure():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # at this point a worker has stopped its engines


@pytest.hookimpl(trylast=True)  # after -m has removed the deselected tests
def pytest_collection_modifyitems(items):
    """Puts the files with the most tests first, so that all workers finish at about the same time."""
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: -counts[item.path])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Adds the accounts of a failed test's engines and runs to its report."""
    report = (yield).get_result()
    if report.when != "call" or not report.failed:
        return
    for one in item.funcargs.get("witnesses", []):
        try:
            account = one.account()
        except Exception as error:  # an error here must not hide the test's failure
            account = f"could not be asked: {error}"
        report.sections.append((type(one).__name__, account))


@pytest.fixture(autouse=True)
def witnesses():
    """The list of engines and programs that the test uses. Each has a method account()."""
    return []


@pytest.fixture(scope="session")
def version(request):
    return request.config.getoption("--engine")


@pytest.fixture(scope="session")
def shared_engine(version):
    engine = Engine(version)
    try:
        engine.start()
        engine.load_image("combu-test:latest", "combu-demo:latest")
        yield engine
    finally:
        engine.wipe()


@pytest.fixture
def engine(shared_engine, witnesses):
    """The shared engine, with the test image and without containers."""
    witnesses.append(shared_engine)
    yield shared_engine
    shared_engine.remove_all()


@pytest.fixture
def new_engine(version, witnesses):
    """A function that makes an engine for this test only. The test starts the engine; the fixture removes it."""
    made = []

    def make(*options):
        made.append(Engine(version, *options))
        witnesses.append(made[-1])
        return made[-1]

    yield make
    for one in made:
        one.wipe()


@pytest.fixture(scope="session")
def shared_cluster():
    """A cluster with a real node, which has the test image, and two simulated nodes."""
    cluster = Cluster(nodes=1, kwok=2)
    try:
        cluster.start()
        cluster.load_image("combu-test:latest")
        yield cluster
    finally:
        cluster.wipe()


@pytest.fixture
def user(shared_cluster, witnesses, request):
    """A user of the shared cluster who has rights in one namespace only. The namespace belongs to this test."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[:40].strip("-")
    witnesses.append(shared_cluster)
    yield shared_cluster.new_namespace(f"{name}-{secrets.token_hex(3)}")
    shared_cluster.kubectl("delete", "pods", "--all", "--all-namespaces", "--now", "--wait=false")


@pytest.fixture(scope="session")
def program():
    path = Path(os.environ.get("COMBU_PROGRAM", ROOT / "build/release/combu"))
    assert path.is_file(), f"there is no {path}; build it first: cmake --build --preset release --target combu"
    return path


@pytest.fixture
def combu_on(program, tmp_path, witnesses):
    """A function: combu_on(engine) returns a Combu that uses this engine."""
    made = []

    def make(engine):
        made.append(Combu(program, tmp_path, engine))
        witnesses.append(made[-1])
        return made[-1]

    yield make
    for one in made:
        one.end_all()


@pytest.fixture
def combu(combu_on, engine):
    return combu_on(engine)
