"""Each GPU belongs to one container at a time. The fake GPUs of tests/engines/gpus show if two containers share one."""

import json
import signal
import subprocess
import threading
from datetime import datetime

import pytest
from engines import Combu, Engine, script, wait_until

pytestmark = pytest.mark.engine_version

GPUS = ("0", "1", "2", "3")

# Exits with 66 if another container uses the same GPU: it has made the folder `held` in the GPU's folder.
USE = (
    "for gpu in /run/gpu/*; do mkdir $gpu/held || exit 66; done; "
    "echo $(ls /run/gpu); {wait}; for gpu in /run/gpu/*; do rmdir $gpu/held; done"
)


@pytest.fixture(scope="module")
def gpu_engine(version, request):
    engine = Engine(version)
    if version == "29":
        engine.options = ["--cdi-spec-dir", f"{engine.dir}/gpus/cdi"]
    request.addfinalizer(engine.wipe)
    script("gpus", engine.dir, *GPUS)
    if version == "20":
        engine.first_in_path = f"{engine.dir}/gpus/bin"
    engine.start()
    engine.load_image("combu-test:latest")
    return engine


@pytest.fixture
def engine(gpu_engine):
    yield gpu_engine
    gpu_engine.remove_all()
    for gpu in GPUS:
        held = gpu_engine.dir / "gpus" / gpu / "held"
        if held.is_dir():
            held.rmdir()


@pytest.fixture
def person(program, tmp_path, engine):
    """A function that makes a user with a home folder and an experiment. The user's nvidia-smi lists the fake GPUs."""

    def make(name="somebody"):
        home = tmp_path / name
        home.mkdir()
        combu = Combu(program, home, engine)
        combu.env["PATH"] = f"{engine.dir}/gpus/bin:{combu.env['PATH']}"
        return combu

    return make


def trial(name, gpus, wait="sleep 0.2", **fields):
    return {"name": name, "image": "combu-test", "cmd": ["sh", "-c", USE.format(wait=wait)], "gpus": gpus, **fields}


def held(name, gpus):
    """Returns a trial that uses its GPUs until the test creates the file hold/go."""
    return trial(name, gpus, "until test -e /hold/go; do sleep 0.05; done", volumes=["./hold/:/hold"])


def run_at_once(combu, engine, *names):
    """Runs the experiment to its end. Fails unless the trials `names` run at the same time."""
    run = combu.start("run", "--wait")
    try:
        wait_until(lambda: engine.running() == set(names), "all of them", seconds=120)
        (combu.home / "hold/go").touch()
        _, err = run.communicate(timeout=60)
    finally:
        run.kill()
        run.communicate()
    assert run.returncode == 0, err


def numbers(container):
    """Returns the ids of the container's GPUs without the kind of device, from its label."""
    gpus = container["Config"]["Labels"]["combu.gpus"]
    return [gpu.rsplit("=", 1)[-1] for gpu in gpus.split(",") if gpu]


def when(text):
    return datetime.fromisoformat(text[:26].rstrip("Z") + "+00:00")


def assert_nobody_shared(engine):
    """Fails if two containers with the same GPU ran at the same time. Returns the number of uses of a GPU."""
    spans = {}
    for name, container in engine.containers().items():
        state = container["State"]
        for gpu in numbers(container):
            spans.setdefault(gpu, []).append((when(state["StartedAt"]), when(state["FinishedAt"]), name))
    for gpu, uses in spans.items():
        uses.sort()
        for (_, end, before), (start, _, after) in zip(uses, uses[1:]):
            assert end <= start, f"GPU {gpu}: {after} began at {start}, {before} ended at {end}"
    return sum(len(uses) for uses in spans.values())


def test_each_trial_gets_its_own_gpu(person, engine):
    combu = person()
    ones = [f"one-{i}" for i in range(3)]
    combu.write([held(name, 1) for name in ones] + [{"name": "none", "image": "combu-test", "cmd": "true"}])
    run_at_once(combu, engine, *ones)
    containers = engine.containers()
    assert {row["exit_code"] for row in combu.ps().values()} == {0}
    assert len({numbers(containers[name])[0] for name in ones}) == 3, "all at the same time"
    assert numbers(containers["none"]) == []
    assert combu("logs", "one-0").stdout.split() == numbers(containers["one-0"])


@pytest.mark.slow
def test_more_trials_than_gpus_wait_for_each_other(person, engine):
    combu = person()
    combu.write([trial(f"t-{i}", 1 + i % 2) for i in range(12)] + [trial("every", "all", priority=1)])
    combu("run", "--wait")
    assert {row["exit_code"] for row in combu.ps().values()} == {0}
    assert len(numbers(engine.containers()["every"])) == len(GPUS)
    assert assert_nobody_shared(engine) == 12 + 6 + len(GPUS)


@pytest.mark.slow
def test_many_runs_at_once_never_share_a_gpu(person, engine):
    people = [person(f"person-{i}") for i in range(8)]
    for i, combu in enumerate(people):
        combu.write([trial(f"p{i}-{k}", 1 + (k == 0), wait="sleep 0.1") for k in range(6)])
    runs = [combu.start("run", "--wait") for combu in people]
    for run in runs:
        _, err = run.communicate(timeout=240)
        assert run.returncode == 0, err
    for combu in people:
        assert [row["exit_code"] for row in combu.ps().values()] == [0] * 6
    assert assert_nobody_shared(engine) == 8 * 7


@pytest.mark.slow
def test_runs_that_are_killed_and_resumed_never_share_a_gpu(person, engine):
    people = [person(f"person-{i}") for i in range(4)]
    for i, combu in enumerate(people):
        combu.write([trial(f"p{i}-{k}", 1, wait="sleep 0.1") for k in range(8)])
    stubborn = []

    def run_through_kills(combu):
        run = combu.start("run", "--wait")
        wait_until(combu.ps, "the run on record")
        for _ in range(3):
            try:
                run.communicate(timeout=1.5)
            except subprocess.TimeoutExpired:
                run.send_signal(signal.SIGKILL)
                run.communicate()
            run = combu.start("run", "--resume")
        _, err = run.communicate(timeout=240)
        if run.returncode not in (0, 1):
            stubborn.append((run.returncode, err))

    threads = [threading.Thread(target=run_through_kills, args=(combu,)) for combu in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert stubborn == []
    for combu in people:
        rows = combu.ps()
        assert len(rows) == 8
        assert {name: (row["state"], row["reason"]) for name, row in rows.items() if row["exit_code"] != 0} == {}
    assert assert_nobody_shared(engine) == 4 * 8


def test_gpus_are_selected_by_memory_and_kind(person, engine):
    combu = person()
    combu.write(
        [
            held("small", 1),
            held("large", {"memory": "40g"}),
            held("kind", {"kind": "h100"}),
            held("named", ["3"]),
        ]
    )
    run_at_once(combu, engine, "small", "large", "kind", "named")
    given = {name: numbers(container) for name, container in engine.containers().items()}
    assert given["small"] == ["2"], "the large ones are left to who needs them"
    assert {given["large"][0], given["kind"][0]} == {"0", "1"}
    assert given["named"] == ["3"]


def test_impossible_gpu_requests_are_refused_before_the_first_start(person, engine):
    combu = person()
    combu.write([trial("many", 5), trial("big", {"memory": "100g"}), trial("odd", ["9"]), trial("fine", 1)])
    done = combu("run", code=2)
    assert "many: needs 5 GPUs, but the engine has 4 GPUs" in done.stderr
    assert "big: needs 1 GPU with 100 GiB or more" in done.stderr and "odd: needs 1 GPU of 9" in done.stderr
    assert engine.names() == set()


def test_why_names_the_trial_that_holds_the_gpus(person, engine):
    first, second = person("first"), person("second")
    first.write([{"name": "holder", "image": "combu-test", "cmd": "sleep 600", "gpus": "all"}])
    first("run")
    second.write([trial("later", 2)])
    waiting = second.start("run", "--wait")
    try:
        why = wait_until(
            lambda: (text := second("why", "later", code=None).stdout) and "held by" in text and text, "a reason"
        )
        assert "waits for 2 GPUs; held by `holder`" in why and "GPU " in why
        first("kill")
        _, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 0, err
    finally:
        waiting.kill()
        waiting.communicate()


@pytest.mark.slow
def test_a_reserved_gpu_is_not_used(person, engine):
    combu = person()
    combu.write([trial(f"t-{i}", 1) for i in range(6)])
    combu("run", "--wait", "--reserve", "gpu=0,gpu=1,gpu=2")
    assert {numbers(container)[0] for container in engine.containers().values()} == {"3"}
    assert "--reserve: the engine has no GPU 7" in combu("run", "--reserve", "gpu=7", code=2).stderr


@pytest.mark.slow
def test_the_gpu_claim_of_a_dead_process_is_removed(person, engine):
    combu = person()
    combu.write([trial("tt", ["2"])])
    body = {
        "Image": "combu-test",
        "Cmd": ["true"],
        "Labels": {
            "combu.experiment": "dead",
            "combu.file": "/dead",
            "combu.run": "dead",
            "combu.trial": "dead",
            "combu.attempt": "1",
            "combu.gpus": "2" if engine.version == "20" else "nvidia.com/gpu=2",
        },
    }
    status, answer = engine.ask("POST", "/containers/create?name=dead", body)
    assert status == 201, answer
    combu("run", "--wait", timeout=180)
    assert combu.ps()["tt"]["exit_code"] == 0
    assert "dead" not in engine.names(), "it had not been started"


def test_gpus_of_an_engine_that_lists_none_come_from_config_json(person, engine):
    combu = person()
    combu.env["PATH"] = combu.env["PATH"].split(":", 1)[1]
    combu.write([trial("tt", {"kind": "4090"})])
    if engine.version == "20":
        assert "no GPU: the engine reports none, and combu's config.json lists none" in combu("run", code=2).stderr
    config = combu.home / ".config" / "combu"
    config.mkdir(parents=True)
    own = [{"id": "3", "kind": "RTX 4090", "memory": "24g"}]
    (config / "config.json").write_text(json.dumps({"engines": {engine.host: {"gpus": own}}}), encoding="utf-8")
    combu("run", "--wait")
    assert numbers(engine.containers()["tt"]) == ["3"]


def test_a_gpu_can_be_named_by_number_or_uuid(person, engine):
    names = ["1", "GPU-fake-1"]
    if engine.version == "29":
        names += ["nvidia.com/gpu=1", "nvidia.com/gpu=GPU-fake-1"]
    combu = person()
    combu.write([trial(f"t-{i}", [name]) for i, name in enumerate(names)])
    combu("run", "--wait", "--reserve", "gpu=GPU-fake-0")
    assert [numbers(container) for container in engine.containers().values()] == [["1"]] * len(names)


def test_unknown_gpu_uuids_are_refused(person, engine):
    """Only an engine with CDI lists GPUs by itself. Its list does not relate UUIDs to numbers."""
    combu = person()
    combu.env["PATH"] = combu.env["PATH"].split(":", 1)[1]
    combu.write([trial("tt", ["GPU-fake-1"])])
    lists_them = engine.version == "29"
    given = "whose UUIDs are not known" if lists_them else "no GPU: the engine reports none, and combu's config.json lists none"
    assert given in combu("run", code=2).stderr
    refused = combu("run", "--reserve", "gpu=GPU-fake-0", code=2).stderr
    assert ("the engine has no GPU GPU-fake-0; it has " if lists_them else "the engine has no GPU GPU-fake-0") in refused
