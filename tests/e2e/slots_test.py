"""CPUs and memory: reserved by trials, enforced by the engine, and shared with other runs."""

import json
import signal
import threading

import pytest
from engines import wait_until


def worker(name, seconds=600, **fields):
    return {"name": name, "image": "combu-test", "cmd": f"sleep {seconds}", **fields}


def cpus_of(engine):
    return engine.get("/info")["NCPU"]


@pytest.mark.engine_version
def test_slots_are_enforced_and_written_to_labels(combu, engine):
    combu.write([worker("one", cpus=0.5, memory="64m", shm_size="16m")])
    combu("run")
    one = engine.containers()["one"]
    assert (one["HostConfig"]["NanoCpus"], one["HostConfig"]["Memory"]) == (500_000_000, 64 << 20)
    assert one["HostConfig"]["MemorySwap"] == 64 << 20, "no swap on top of it"
    assert one["HostConfig"]["ShmSize"] == 16 << 20
    assert (one["Config"]["Labels"]["combu.cpus"], one["Config"]["Labels"]["combu.memory"]) == ("0.5", str(64 << 20))


@pytest.mark.engine_version
def test_the_smallest_share_of_a_cpu_can_be_started(combu, engine):
    combu.write([{"name": "one", "image": "combu-test", "cmd": "true", "cpus": 0.01}])
    combu("run", "--wait")
    combu.write([{"name": "one", "image": "combu-test", "cmd": "true", "cpus": 0.009}])
    assert "[0].cpus: must be at least 0.01 CPUs" in combu("run", code=2).stderr


def test_trials_that_need_more_cpus_than_the_machine_has_take_turns(combu, engine):
    share = cpus_of(engine) / 2
    combu.write([worker(f"t-{i:02}", seconds=0.2, cpus=share) for i in range(12)])
    alive = []
    over = threading.Event()

    def look():
        while not over.is_set():
            alive.append(len(engine.running()))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        combu("run", "--wait")
    finally:
        over.set()
        looking.join()
    assert {row["exit_code"] for row in combu.ps().values()} == {0}
    assert max(alive) == 2


def test_a_trial_waits_for_slots_of_another_run(combu_on, engine, tmp_path):
    first, second = combu_on(engine), combu_on(engine)
    first.write([worker("first", cpus=cpus_of(engine))])
    first("run")
    second.file = tmp_path / "second.jsonnet"
    second.write([worker("large", cpus=cpus_of(engine)), worker("free")])
    running = second.start("run", "--progress", "json")
    try:
        wait_until(lambda: "free" in engine.running(), "the trial that needs no slots")
        assert running.poll() is None and "large" not in engine.names()
        first("kill")
        _, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 0, err
    assert engine.running() == {"large", "free"}
    snapshots = [json.loads(line) for line in err.splitlines() if '"snapshot"' in line]
    assert cpus_of(engine) in [snapshot["held_by_others"]["cpus"] for snapshot in snapshots]
    assert snapshots[-1]["held"]["cpus"] == cpus_of(engine)


@pytest.mark.slow
def test_contending_runs_never_use_more_slots_than_the_engine_has(combu_on, engine, tmp_path):
    """Three combu processes see the same end at the same moment and compete for the slots."""
    people = []
    for name in ("a", "b", "c"):
        home = tmp_path / name
        home.mkdir()
        one = combu_on(engine)
        one.home, one.file, one.env = home, home / "experiment.jsonnet", {**one.env, "HOME": str(home)}
        one.write({"experiment": f"contend-{name}", "trials": [worker(f"{name}-{i}", seconds=0.5, cpus=cpus_of(engine)) for i in range(6)]})
        people.append(one)
    runs = [one.start("run", "--wait") for one in people]
    try:
        for run in runs:
            _, err = run.communicate(timeout=180)
            assert run.returncode == 0, err
    finally:
        for run in runs:
            run.kill()
            run.communicate()
    lives = sorted((one["State"]["StartedAt"], one["State"]["FinishedAt"], name) for name, one in engine.containers().items())
    assert len(lives) == 18
    for (_, before, one), (after, _, other) in zip(lives, lives[1:]):
        assert before <= after, f"{one} and {other} ran at once"


def test_services_leave_slots_for_the_trials_that_need_them(combu, engine):
    """If all services started at once, they would use all CPUs."""
    half = cpus_of(engine) / 2
    combu.write(
        [worker(f"db-{i}", cpus=half, service=True) for i in range(3)]
        + [worker(f"solver-{i}", seconds=0.2, cpus=half, depends=[f"db-{i}"]) for i in range(3)]
    )
    combu("run", "--wait")
    assert {name: row["state"] for name, row in combu.ps().items()} == {
        **{f"db-{i}": "stopped" for i in range(3)},
        **{f"solver-{i}": "succeeded" for i in range(3)},
    }


def test_impossible_slots_are_refused_before_the_first_start(combu, engine):
    combu.write([worker("small"), worker("huge", cpus=cpus_of(engine) + 1), worker("vast", memory="1000t")])
    refused = combu("run", code=2)
    assert "huge: needs" in refused.stderr and "vast: needs" in refused.stderr
    combu.write([worker("whole", cpus=cpus_of(engine))])
    assert "whole: needs" in combu("run", "--reserve", "0.5,64m", code=2).stderr
    assert engine.names() == set()


def test_parallel_limits_the_running_trials(combu, engine):
    combu.write({"parallel": 2, "trials": [worker(f"t-{i}") for i in range(4)]})
    running = combu.start("run")
    wait_until(lambda: len(engine.running()) == 2, "two trials")
    assert engine.ask("POST", "/containers/t-0/stop?t=0")[0] == 204
    wait_until(lambda: engine.running() == {"t-1", "t-2"}, "the third in place of the first")
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
    assert running.returncode == 130
    assert engine.names() == {"t-0", "t-1", "t-2"}


@pytest.mark.engine_version
def test_a_trial_that_exceeds_its_memory_is_killed(combu, engine):
    combu.write([{"name": "greedy", "image": "combu-test", "memory": "16m", "init": False,
                  "cmd": ["sh", "-c", "x=a; while true; do x=$x$x; done"]}])
    failed = combu("run", "--wait", code=1)
    assert "greedy" in failed.stderr
    assert engine.containers()["greedy"]["State"]["ExitCode"] == 137
