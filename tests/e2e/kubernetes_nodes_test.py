"""Runs on two real nodes: trials on both, a node that is silent, restarts or is lost in the middle of a run, and a node that rotates logs."""

import contextlib
import json
import shutil
import socket
import threading
from collections import Counter

import pytest
from clusters import Cluster
from conftest import ROOT
from engines import results_outputs_and_logs, trial, wait_until

pytestmark = pytest.mark.kubernetes


@pytest.fixture(scope="module")
def two_nodes():
    cluster = Cluster(nodes=2, silent_after=10, log_size=100000)
    try:
        cluster.start()
        cluster.load_image("combu-test:latest")
        yield cluster
    finally:
        cluster.wipe()


@pytest.fixture
def user(two_nodes, witnesses, request):
    """A user of a cluster with two real nodes, which a test may break."""
    witnesses.append(two_nodes)
    two_nodes.start()
    # A node that an earlier test has broken takes Pods only when its taints are gone.
    wait_until(lambda: all("taints" not in node["spec"] for node in json.loads(two_nodes.kubectl("get", "nodes", "--output", "json"))["items"]), "nodes without taints")
    name = request.node.name.replace("_", "-")[5:65].strip("-")
    yield two_nodes.new_namespace(name)
    two_nodes.kubectl("delete", "pods", "--all", "--namespace", name, "--now", "--wait=false")


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


@pytest.fixture
def gate(two_nodes):
    gate = Gate(two_nodes.address())
    yield gate
    gate.close()


class Gate:
    """A port of this machine. Trials that hold() run until the gate is closed, or does not answer because their node is cut off."""

    def __init__(self, address):
        self.address = (address, 0)
        self.server = None
        self.open()

    def open(self):
        self.server = socket.create_server(self.address)
        self.address = self.server.getsockname()
        threading.Thread(target=self._answer, args=[self.server], daemon=True).start()

    @staticmethod
    def _answer(server):
        with contextlib.suppress(OSError):  # the end of accept() when the gate is closed
            while True:
                server.accept()[0].close()

    def close(self):
        if self.server:
            self.server.shutdown(socket.SHUT_RDWR)
            self.server.close()
            self.server = None

    def hold(self):
        return "while nc {} {} < /dev/null 2> /dev/null; do sleep 0.2; done".format(*self.address)


def section(group, **fields):
    """Returns a section `kubernetes` for Pods of a group. They spread over all nodes that answer, and leave a node that does not."""
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor", "labelSelector": {"matchLabels": {"group": group}}}
    tolerations = [{"key": f"node.kubernetes.io/{state}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0} for state in ("not-ready", "unreachable")]
    return {"pod": {"topologySpreadConstraints": [spread], "tolerations": tolerations, "terminationGracePeriodSeconds": 1, **fields}, "metadata": {"labels": {"group": group}}}


def own(name, script, **fields):
    """Returns a trial with a Pod of its own. Four such Pods, and one worker for two attempts of warm(), fit on a node at once."""
    return trial(name, script, pull="never", cpus=0.45, retries=1, kubernetes=section("own"), **fields)


def warm(name, script, **fields):
    """Returns a trial in one of two workers, each of which runs two attempts at once."""
    worker = {"count": 2, "concurrency": 2, "idle": "5s"}
    return trial(name, script, pull="never", entrypoint=[], worker=worker, cpus=0.1, retries=1, kubernetes=section("warm"), **fields)


def folds(gate):
    """Returns 20 trials, and what each of them gives apart from times: five with Pods of their own, and 15 in workers.

    The first six trials end at once, the others hold.
    """
    trials, outcome = [], {}
    for n in range(20):
        make = warm if n % 4 else own
        result = f'echo "fold $COMBU_PARAM_N"; echo "{{\\"loss\\": $((COMBU_PARAM_N * 7 % 10))}}"'
        trials.append(make(f"fold-{n}", f"{gate.hold()}; {result}" if n >= 6 else result, params={"n": n}, metrics="json"))
        outcome[f"fold-{n}"] = ("succeeded", 0, n * 7 % 10, f'fold {n}\n{{"loss": {n * 7 % 10}}}\n')
    return trials, outcome


def outcome_of(combu):
    """Returns {trial: what the run gave apart from times and numbers of attempts}."""
    results = [json.loads(line) for line in combu("results", "--json").stdout.splitlines()]
    return {row["trial"]: (row["state"], row["exit_code"], row["metrics"]["loss"]["last"], combu("logs", row["trial"]).stdout) for row in results}


def ends_of(combu):
    """Returns (trial, attempt, exit code, cause) of all ends of attempts on the record."""
    events = [json.loads(line) for line in combu("events", "--json").stdout.splitlines()]
    return [(one["trial"], one["attempt"], one.get("exit_code"), one.get("cause")) for one in events if one["state"] == "ended"]


def pods_on(user, node):
    """Returns the names of trials and workers that have a Pod on the node."""
    pods = json.loads(user.kubectl("get", "pods", "--output", "json"))["items"]
    return sorted(pod["metadata"]["labels"]["combu.trial"] for pod in pods if pod["spec"].get("nodeName") == node)


def unfinished(combu):
    return {name: (row["state"], row["attempt"]) for name, row in combu.ps().items() if row["state"] != "succeeded"}


def is_middle(combu):
    """True if the six first trials have succeeded, and all Pods and places in workers have a trial that holds."""
    states = Counter(row["state"] for row in combu.ps().values())
    return states == {"succeeded": 6, "running": 7, "waiting": 7}


def runs_again(combu, count):
    """Returns the trials that run for the second time, if there are `count`, and else an empty set."""
    again = {name for name, state in unfinished(combu).items() if state == ("running", 2)}
    return again if len(again) == count else set()


def check_ends(combu, names, lost, with_code=()):
    """Checks that each trial succeeded once, and that exactly the trials in `lost` lost their first attempt.

    with_code: trials whose program had already ended when the attempt was lost.
    """
    events = [json.loads(line) for line in combu("events", "--json").stdout.splitlines()]
    assert sorted(one["trial"] for one in events if one["state"] == "succeeded") == sorted(names)
    ends = [(name, 1, 0 if name in with_code else None, "host_lost") for name in lost] + [(name, 2 if name in lost else 1, 0, None) for name in names]
    assert sorted(ends_of(combu), key=str) == sorted(ends, key=str)


def test_trials_spread_over_nodes_and_ps_shows_the_nodes(combu, user):
    combu.write([own(f"own-{n}", "sleep 600") for n in range(4)] + [warm(f"warm-{n}", "sleep 600") for n in range(4)])
    process = combu.start("run", "--wait")
    nodes = [("running", None)] * 4 + [("running", "on node-1")] * 2 + [("running", "on node-2")] * 2

    def is_spread():
        return Counter((row["state"], row["reason"]) for row in combu.ps().values()) == Counter(nodes)

    wait_until(is_spread, "two running trials with Pods on each node, and four in workers")
    assert [len(pods_on(user, f"node-{n}")) for n in (1, 2)] == [3, 3]
    combu("kill")
    process.wait(60)


def test_trials_on_two_nodes_reach_each_other_by_name(combu):
    def on(node):
        return {"networks": "lab", "pull": "never", "kubernetes": {"pod": {"nodeSelector": {"kubernetes.io/hostname": node}}}}

    combu.write(
        [
            trial("loader", "echo data | nc -l -p 8000; sleep 600", service=True, **on("node-1")),
            trial("solver", "until nc loader 8000; do sleep 0.1; done", depends="loader", **on("node-2")),
        ]
    )
    combu("run", "--wait")
    assert combu("logs", "solver").stdout.endswith("data\n")


def test_a_silent_node_changes_nothing_but_times(combu, user, gate):
    """The node is cut off, and its attempts succeed unseen. The node comes back while these trials run again on the other node."""
    trials, outcome = folds(gate)
    combu.write({"experiment": "folds", "trials": trials})
    process = combu.start("run", "--wait")
    wait_until(lambda: is_middle(combu), "the middle of the run")
    silent = set(pods_on(user, "node-2")) & set(unfinished(combu))
    user.cluster.cut("node-2")
    gate.close()
    wait_until(lambda: len(unfinished(combu)) == len(silent) + 2, "the end of all other trials")
    gate.open()
    # combu gives up Pods that are still there 30 s after the control plane has deleted them.
    lost = wait_until(lambda: runs_again(combu, len(silent) + 2), "the second attempts", seconds=120)
    user.cluster.start()
    wait_until(lambda: pods_on(user, "node-2") == [], "the removal of the first Pods")
    gate.close()
    assert process.wait(60) == 0, process.stderr.read()
    assert outcome_of(combu) == outcome
    check_ends(combu, outcome, lost)
    assert silent and silent < lost


def test_a_node_that_restarts_changes_nothing_but_times(combu, user, gate):
    trials, outcome = folds(gate)
    combu.write({"experiment": "folds", "trials": trials})
    process = combu.start("run", "--wait")
    wait_until(lambda: is_middle(combu), "the middle of the run")
    dead = set(pods_on(user, "node-2")) & set(unfinished(combu))
    user.cluster.kill9("node-2")
    user.cluster.start()
    lost = wait_until(lambda: runs_again(combu, len(dead) + 2), "the second attempts")
    gate.close()
    assert process.wait(60) == 0, process.stderr.read()
    assert outcome_of(combu) == outcome
    check_ends(combu, outcome, lost)
    assert dead and dead < lost
    wait_until(lambda: user.pods() == {}, "the removal of all Pods")


@pytest.fixture
def cross_validation(combu, gate, tmp_path):
    """A Combu with the example, whose folds hold, and with a trial `large` that has large outputs while the folds run."""
    programs = tmp_path / "programs"
    programs.mkdir()
    fold = (ROOT / "examples/image/bin/fold").read_text(encoding="utf-8")
    (programs / "fold").write_text(fold.replace("\n", f"\n{gate.hold()}\n", 1), encoding="utf-8")
    combu.engine.cluster.load_image("combu-demo:latest", programs=programs)
    folder = shutil.copytree(ROOT / "examples/cross-validation", tmp_path / "example", ignore=shutil.ignore_patterns("results"))
    large = {"name": "large", "cmd": ["sh", "-c", "head -c 200000000 /dev/zero > /large"], "outputs": ["/large"], "depends": [f"fold-{n}" for n in range(5)]}
    more = {"defaults": {"retries": 1, "kubernetes": section("folds")}, "trials": [large]}
    combu.file = folder / "nodes.jsonnet"
    combu.write(f"local more = {json.dumps(more)};\n(import 'experiment.jsonnet') + {{ defaults+: more.defaults, trials+: more.trials }}")
    return combu


def test_a_lost_node_changes_no_output_of_cross_validation(cross_validation, user, gate):
    """The folds run on one node, and then on two nodes, one of which is lost while folds run on it and outputs are collected."""
    combu = cross_validation
    gate.close()
    user.cluster.kubectl("cordon", "node-2")
    combu("run", "--wait")
    user.cluster.kubectl("uncordon", "node-2")
    on_one_node = results_outputs_and_logs(combu)

    gate.open()
    process = combu.start("run", "--wait", "--replace")
    held = [f"fold-{n}" for n in range(5)]
    middle = {**dict.fromkeys(held, ("running", 1)), "large": ("collecting", 1), "ensemble": ("waiting", 1)}
    wait_until(lambda: unfinished(combu) == middle, "the middle of the run")
    nodes = {node: set(pods_on(user, node)) & set(middle) for node in ("node-1", "node-2")}
    dead, lost = next((node, names) for node, names in nodes.items() if "large" in names)
    user.cluster.kill9(dead)
    assert [len(names) for names in nodes.values()] == [3, 3]
    again = dict.fromkeys(lost & set(held), ("running", 2))
    wait_until(lambda: again.items() <= unfinished(combu).items(), "the second attempts of the folds", seconds=120)
    gate.close()
    assert process.wait(60) == 0, process.stderr.read()
    assert results_outputs_and_logs(combu) == on_one_node
    check_ends(combu, {"preprocess", *middle}, lost, with_code={"large"})


def test_a_node_rotates_the_log_of_a_busy_trial(combu, user):
    """The API server no longer serves the beginning of the log. combu gets the log from the agent, and stores all of it."""
    script = "n=0; until test -e /stop; do seq $((n + 1)) $((n += 10000)); sleep 0.1; done; echo $n > /lines"
    combu.write([trial("busy", script, pull="never", entrypoint=[], outputs=["/lines"])])
    process = combu.start("run", "--wait")
    wait_until(lambda: list(user.cluster.dir.glob(f"node-*/logs/{user.name}_*/*/0.log.*")), "a rotated log")
    (pod,) = user.pods().values()
    user.kubectl("exec", pod["metadata"]["name"], "--", "touch", "/stop")
    assert process.wait(60) == 0, process.stderr.read()
    (lines,) = combu.file.parent.glob("results/*/*/busy/lines")
    assert combu("logs", "busy").stdout == "".join(f"{n + 1}\n" for n in range(int(lines.read_text())))
