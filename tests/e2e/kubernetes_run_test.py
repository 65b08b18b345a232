"""Runs on a Kubernetes cluster: the main path, on a real node."""

import os
import random
import shutil
import signal
from subprocess import TimeoutExpired

import pytest
from clusters import simulated_trial
from engines import trial, wait_until

pytestmark = pytest.mark.kubernetes

ROUNDS = int(os.environ.get("COMBU_KUBERNETES_KILL_ROUNDS", "1"))


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


def local(name, script, **fields):
    """Returns a trial of the test image, which the real node has."""
    return trial(name, script, pull="never", **fields)


def run_of(combu):
    return next(iter(combu.ps().values()))["run"]


def states(combu):
    return {name: row["state"] for name, row in combu.ps().items()}


def test_trials_run_in_order_and_their_pods_are_deleted(combu, user):
    combu.write([local("first", "echo hello; echo $COMBU_PARAM_X", params={"x": "$(HOME)"}), local("second", "exit 3", depends=[{"trial": "first", "condition": "succeeded"}])])
    done = combu("run", "--wait", code=1)
    assert done.stderr.splitlines()[0].endswith(f"context test, namespace {user.name}")
    rows = combu.ps()
    assert rows["first"]["state"] == "succeeded"
    assert (rows["second"]["state"], rows["second"]["exit_code"]) == ("failed", 3)
    assert combu("logs", "first").stdout == "hello\n$(HOME)\n"
    wait_until(lambda: user.pods() == {}, "the deletion of the Pods")
    combu("kill")
    assert user.kubectl("get", "configmaps,services", "--selector", "combu.run", "--output", "name") == ""


def test_names_of_a_network_resolve(combu):
    fields = {"networks": "lab"}
    combu.write(
        [local("loader", "echo data | nc -l -p 8000; sleep 600", service=True, **fields)]
        + [local(f"solver-{i}", "until nc loader 8000; do sleep 0.1; done" if i == 1 else "ping -c 1 loader", depends="loader", **fields) for i in (1, 2)]
    )
    combu("run", "--wait")
    assert combu("logs", "solver-1").stdout.endswith("data\n")
    assert states(combu) == {"loader": "stopped", "solver-1": "succeeded", "solver-2": "succeeded"}


def test_run_returns_when_every_trial_is_accepted_and_kill_needs_only_labels(combu, user):
    combu.write([local("short", "exit 4"), local("long", "sleep 600"), simulated_trial("nowhere", cpus=4000)])
    combu("run")
    assert set(user.pods()) == {"short", "long", "nowhere"}
    wait_until(lambda: states(combu)["short"] == "failed", "the end of short")
    row = combu.ps()["nowhere"]
    assert row["state"] == "starting"
    assert "Insufficient cpu" in row["reason"]
    assert "Insufficient cpu" in combu("why", "nowhere").stdout
    combu.file.unlink()
    combu("kill", code=None)
    assert user.pods() == {}


def test_a_trial_is_stopped_with_its_grace_period(combu):
    combu.write([local("careful", "trap 'echo saved; exit 5' TERM; sleep 600 & wait", timeout="3s", stop_grace="20s")])
    combu("run", "--wait", code=1)
    row = combu.ps()["careful"]
    assert (row["state"], row["cause"], row["exit_code"]) == ("failed", "timeout", 5)
    assert combu("logs", "careful").stdout == "saved\n"


def test_a_killed_run_is_resumed_without_running_anything_twice(combu, user):
    combu.write([local(f"t{i}", f"sleep {i}; echo once") for i in range(8)])
    process = combu.start("run", "--wait")
    wait_until(lambda: len(user.pods()) >= 4, "some Pods")
    process.send_signal(signal.SIGKILL)
    process.wait()
    combu("run", "--resume", "--wait")
    assert set(states(combu).values()) == {"succeeded"}
    for i in range(8):
        assert combu("logs", f"t{i}").stdout == "once\n"
    assert {row["attempt"] for row in combu.ps().values()} == {1}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_random_kills_of_combu_lose_no_trial(combu, user, seed):
    """Every Pod stays after its end, so a trial that ran twice would have two Pods, or another Pod than before."""
    moments = random.Random(seed)

    def one(i):
        annotations = {"simulated.test/run-ms": str(moments.randrange(600)), "simulated.test/exit-code": "3" if i % 5 == 0 else "0"}
        depends = [{"trial": f"t{i - 10:02}", "condition": "finished"}] if i >= 10 else []
        return simulated_trial(f"t{i:02}", annotations, depends=depends)

    combu.write({"keep": "ended", "trials": [one(i) for i in range(40)]})
    uids = {}
    deaths = 0
    process = combu.start("run", "--wait")
    while process.poll() is None:
        wait_until(lambda: process.poll() is not None or set(user.pods()) > set(uids), "another Pod")
        try:
            process.wait(moments.uniform(0, 0.3))
        except TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            deaths += 1
        pods = {name: pod["metadata"]["uid"] for name, pod in user.pods().items()}
        assert pods == {**pods, **uids}
        uids = pods
        if process.returncode < 0:
            process = combu.start("run", "--resume", "--wait")
    assert process.returncode == 1
    assert deaths > 1
    assert {pod["metadata"]["labels"]["combu.attempt"] for pod in user.pods().values()} == {"1"}
    rows = {name: (row["state"], row["attempt"], row["exit_code"]) for name, row in combu.ps().items()}
    assert rows == {f"t{i:02}": ("failed", 1, 3) if i % 5 == 0 else ("succeeded", 1, 0) for i in range(40)}


def test_a_run_is_resumed_on_another_machine(combu, combu_on, user, tmp_path):
    """The other machine has copies of the record, of the kubeconfig and of the experiment file, at other paths."""
    last = local("last", "echo once", depends=[{"trial": "t3", "condition": "succeeded"}])
    combu.write({"keep": "ended", "trials": [*(local(f"t{i}", f"sleep {i}; echo once") for i in range(4)), last]})
    process = combu.start("run", "--wait")
    wait_until(lambda: len(user.pods()) == 4, "the Pods")
    process.send_signal(signal.SIGKILL)
    process.wait()
    uids = {name: pod["metadata"]["uid"] for name, pod in user.pods().items()}
    other = combu_on(user)
    other.home = tmp_path / "other"
    shutil.copytree(combu.home / ".local", other.home / ".local", ignore=shutil.ignore_patterns("channels", "locks"))
    shutil.copy(user.kubeconfig, other.home / "kubeconfig")
    other.file = shutil.copy(combu.file, other.home)
    other.env |= {"HOME": str(other.home), "KUBECONFIG": str(other.home / "kubeconfig")}
    other("run", "--resume", run_of(combu), "--wait")
    other.file = combu.file  # the record names the run's file as on the first machine
    rows = other.ps()
    assert {(row["state"], row["attempt"]) for row in rows.values()} == {("succeeded", 1)}
    for name in rows:
        assert other("logs", name).stdout == "once\n"
    pods = {name: pod["metadata"]["uid"] for name, pod in user.pods().items()}
    assert pods == {**uids, "last": pods["last"]}


def test_a_ttl_ends_a_pod_without_an_owner(combu, user):
    combu.write({"ttl": "2s", "trials": [local("long", "trap 'echo saved; exit 5' TERM; sleep 600 & wait")]})
    combu("run")
    pod = wait_until(lambda: next((pod for pod in user.pods().values() if pod["status"]["phase"] == "Failed"), None), "the end of the Pod")
    assert pod["status"]["reason"] == "DeadlineExceeded"
    row = combu.ps()["long"]
    assert (row["state"], row["cause"], row["exit_code"]) == ("stopped", "stopped", 5)
    assert combu("logs", "long").stdout == "saved\n"


def test_kept_pods_are_those_that_have_ended(combu, user):
    """The kubelet would repeat some failed starts forever. combu deletes their Pods."""
    absent = {"container": {"envFrom": [{"configMapRef": {"name": "absent"}}]}}
    trials = [
        local("good", "true"),
        local("program", "true", entrypoint=["/no/such/program"]),
        trial("image", "true", image="combu-none:1", pull="never"),
        local("unset", "true", kubernetes=absent),
    ]
    combu.write({"keep": "ended", "trials": trials})
    combu("run", "--wait", code=1)
    assert {row["cause"] for name, row in combu.ps().items() if name != "good"} == {"start"}
    wait_until(lambda: set(user.pods()) == {"good", "program"}, "the deletion of the other Pods")


def test_names_that_are_no_labels(combu, user):
    names = ["x" * 200, "x" * 199 + "y", "Upper_Case", "upper_case", "end-", "a--b", "1.5"]
    combu.write([simulated_trial(name, {"simulated.test/run-ms": "forever"}) for name in names])
    combu("run")
    assert set(user.pods()) == set(names)
    wait_until(lambda: set(states(combu).values()) == {"running"}, "the starts")
    assert set(states(combu)) == set(names)
    for name in names:
        assert combu("logs", "--", name).stdout == "simulated\n"
    combu("stop", "--", names[0])
    assert {name for name, state in states(combu).items() if state == "stopped"} == {names[0]}
    combu("kill")
    assert user.pods() == {}


def test_many_short_trials_on_simulated_nodes(combu, user):
    failing = {"simulated.test/exit-code": "7"}
    combu.write({"trials": [simulated_trial(f"t{i:03}", failing if i % 10 == 0 else None) for i in range(200)], "defaults": {"retries": {"max": 1, "backoff": {"initial": "10ms"}}}})
    combu("run", "--wait", code=1, timeout=300)
    rows = combu.ps()
    assert sum(row["state"] == "succeeded" for row in rows.values()) == 180
    assert {rows[f"t{i:03}"]["attempt"] for i in range(0, 200, 10)} == {2}
    assert user.pods() == {}


def test_later_commands_find_the_cluster_by_the_record(combu, user):
    combu.write([local("one", "echo here; sleep 600")])
    combu("run")
    wait_until(lambda: states(combu)["one"] == "running", "the start of one")
    assert combu.ps()["one"]["reason"] == "on node-1"
    assert combu("logs", "one").stdout == "here\n"
    combu("stop", "one")
    combu.engine_options = []
    assert states(combu) == {"one": "stopped"}
