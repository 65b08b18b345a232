"""combu is killed at random moments, again and again, and still every trial comes to its end once."""

import os
import random
import signal
from subprocess import TimeoutExpired

import pytest
from resume_test import Lab

DEATHS_MAX = 20
ROUNDS = int(os.environ.get("COMBU_KILL_ROUNDS", "20"))
CODES = {f"t-{i:03}": (0, 3)[i % 5 == 0] for i in range(150)}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_kills_lose_nothing(combu, engine, tmp_path, seed):
    moments = random.Random(seed)
    lab = Lab(combu, tmp_path / "lab")
    # 0.25 of two CPUs: eight at once, so that most of the trials wait while combu dies.
    combu.write([lab.trial(name, code, f"0.{moments.randrange(5)}", cpus=0.25, networks=["none"]) for name, code in CODES.items()])

    deaths = 0
    while True:
        # A death may leave the record without a file, without tables, or without the run.
        is_recorded = (
            (combu.home / ".local/state/combu/record.sqlite").exists()
            and lab.query("SELECT 1 FROM sqlite_master WHERE name = 'runs'")
            and lab.query("SELECT 1 FROM runs")
        )
        process = combu.start("run", *(["--resume"] if is_recorded else ["--wait"]), "--progress", "plain")
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
