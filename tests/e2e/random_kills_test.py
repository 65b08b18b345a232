"""combu and the engine are repeatedly killed at random moments. Nevertheless every trial ends exactly once."""

import os
import random
import signal
from collections import Counter
from subprocess import TimeoutExpired

import pytest
from resume_test import Lab, die, ids, unlike

DEATHS_MAX = 20
ROUNDS = int(os.environ.get("COMBU_KILL_ROUNDS", "20"))
CODES = {f"t-{i:03}": (0, 3)[i % 5 == 0] for i in range(150)}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_kills_of_combu_lose_no_trial(combu, engine, tmp_path, seed):
    moments = random.Random(seed)
    lab = Lab(combu, tmp_path / "lab")
    # With 0.25 of two CPUs each, eight trials run at once, so most trials are waiting when combu is killed.
    combu.write([lab.trial(name, code, f"0.{moments.randrange(5)}", cpus=0.25, networks=["none"]) for name, code in CODES.items()])

    deaths = 0
    while True:
        process = combu.start("run", *(["--resume"] if lab.has_run() else ["--wait"]), "--progress", "plain")
        try:
            _, err = process.communicate(timeout=moments.uniform(0.05, 1.5) if deaths < DEATHS_MAX else 120)
        except TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            deaths += 1
            assert deaths <= DEATHS_MAX, "it does not end by itself"
        else:
            break
    assert process.returncode == 1, err
    assert deaths > 0

    containers = engine.containers()
    assert {name: container["State"]["ExitCode"] for name, container in containers.items()} == CODES
    assert lab.states() == {name: ("failed" if code else "succeeded", 1, code) for name, code in CODES.items()}
    assert {name: lab.ends(name) for name in CODES} == {name: [containers[name]["Id"][:12]] for name in CODES}


ENGINE_ROUNDS = int(os.environ.get("COMBU_ENGINE_KILL_ROUNDS", "3"))
ENGINE_DEATHS_MAX = 12
FEWER = {name: code for name, code in CODES.items() if name < "t-080"}
NO_ENGINE = 3  # combu's exit code if it does not reach the engine


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(ENGINE_ROUNDS))
@pytest.mark.parametrize("options", [["--live-restore"], []], ids=["live-restore", "plain"])
def test_random_kills_of_combu_and_the_engine_lose_no_trial(combu_on, new_engine, tmp_path, seed, options):
    """Each trial runs as often as the record has attempts of it.

    A kill of the engine costs an attempt of each trial that it was starting. Without live-restore, it also costs an attempt of
    each running trial.
    """
    moments = random.Random(1000 + seed)
    engine = new_engine("--own-containerd", *options)
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    lab = Lab(combu, tmp_path / "lab")
    fields = {"cpus": 0.25, "networks": ["none"], "retries": {"max": ENGINE_DEATHS_MAX, "on": ["host_lost"], "backoff": {"initial": 0}}}
    combu.write([lab.trial(name, code, f"0.{moments.randrange(5)}", **fields) for name, code in FEWER.items()])

    def begin():
        return combu.start("run", *(["--resume"] if lab.has_run() else ["--wait"]), "--progress", "plain")

    deaths = []
    unsure = set()  # an engine killed during a start may not know that a container ran; combu then repeats the start
    process = begin()
    while True:
        try:
            _, err = process.communicate(timeout=moments.uniform(0.5, 3) if len(deaths) < ENGINE_DEATHS_MAX else 180)
        except TimeoutExpired:
            assert len(deaths) < ENGINE_DEATHS_MAX, "it does not end by itself"
        else:
            if process.returncode != NO_ENGINE or deaths[-1:] in ([], ["combu"]):
                break
            process = begin()  # the engine was killed before the run could begin
            continue
        deaths.append(moments.choice(("combu", "engine", "both")))
        if deaths[-1] != "combu":
            engine.kill9()
            unsure |= {name for name, it in lab.states().items() if it[0] == "starting"} if lab.has_run() else set()
        if deaths[-1] != "engine":
            die(process)
        if deaths[-1] != "combu":
            engine.start()
        if deaths[-1] != "engine":
            process = begin()
    assert process.returncode == 1, err
    assert len(set(deaths) - {"combu"}) > 0, deaths

    states = lab.states()
    wanted = {name: ("failed" if code else "succeeded", code) for name, code in FEWER.items()}
    assert unlike(wanted, {name: (state, code) for name, (state, _, code) in states.items()}) == {}
    attempts = Counter(name for name, _ in lab.attempts())
    assert unlike({name: attempt for name, (_, attempt, _) in states.items()}, attempts) == {}
    ends = {name: lab.ends(name) for name in FEWER}
    assert {name: (attempts[name], len(of)) for name, of in ends.items() if len(of) > attempts[name] and name not in unsure} == {}
    containers = ids(engine)
    assert unlike({name: containers[name][:12] for name in FEWER}, {name: of[-1] for name, of in ends.items()}) == {}
