import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from engines import Combu, Engine

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--engine", choices=("20", "29"), default="20", help="the Docker Engine's version")


# A test has the mark `engine_version` if it asserts on something that the engine itself decides or reports, and that has
# differed between versions or may differ: error texts and status codes that combu interprets (pulls, names, ports, starts);
# events, exit codes and states when the engine is stopped, killed or comes back, or when somebody removes a container;
# out-of-memory and health reports; identifiers of images, inherited labels, the building of images; what it makes of a
# container's fields; its log files; archives of long paths, odd files, changing files and volumes; GPUs; the addresses it
# listens on; networks made or removed at the same time. Tests of combu's own logic have no mark: they use what these test.
# Run the marked ones on another version of the engine: --engine 29 -m engine_version.
MARKS = (
    "engine_version: its behaviour depends on the engine's version",
    "minio: needs MinIO, which takes three minutes to build",
    "slow: takes more than eight seconds on two cores with two other files beside it; scripts/test leaves it to --all",
    "nightly: takes minutes; only scripts/test --nightly runs it",
)


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if config.pluginmanager.hasplugin("xdist"):
        from xdist.workermanage import NodeManager  # here, since it need not be installed

        NodeManager.EXIT_TIMEOUT = 60  # seconds: a worker ends its engines before it goes, and dockerd may take 15 s for one
    # So that whoever ends the tests also ends their engines: by default this signal leaves no time for it.
    signal.signal(signal.SIGTERM, lambda *_: pytest.exit("ended by SIGTERM", returncode=143))


def pytest_unconfigure():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a worker that has no more to do has no engine either


@pytest.hookimpl(trylast=True)  # after -m has left out the others
def pytest_collection_modifyitems(items):
    """The files with the most tests come first, so that workers which take file after file end at about the same time."""
    counts = Counter(item.path for item in items)
    items.sort(key=lambda item: -counts[item.path])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """What a failed test's engines and runs say of themselves stands beside its failure."""
    report = (yield).get_result()
    if report.when != "call" or not report.failed:
        return
    for one in item.funcargs.get("witnesses", []):
        try:
            account = one.account()
        except Exception as error:  # whatever it is, it is not what has failed
            account = f"could not be asked: {error}"
        report.sections.append((type(one).__name__, account))


@pytest.fixture(autouse=True)
def witnesses():
    """The engines and programs that the test has used, until it is over."""
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
    """An engine with the test image and nothing on it."""
    witnesses.append(shared_engine)
    yield shared_engine
    shared_engine.remove_all()


@pytest.fixture
def new_engine(version, witnesses):
    """Makes an engine of the test's own; the test starts it."""
    made = []

    def make(*options):
        made.append(Engine(version, *options))
        witnesses.append(made[-1])
        return made[-1]

    yield make
    for one in made:
        one.wipe()


@pytest.fixture(scope="session")
def program():
    path = Path(os.environ.get("COMBU_PROGRAM", ROOT / "build/release/combu"))
    assert path.is_file(), f"there is no {path}; build it first: cmake --build --preset release --target combu"
    return path


@pytest.fixture
def combu_on(program, tmp_path, witnesses):
    """The program with a given engine."""
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
