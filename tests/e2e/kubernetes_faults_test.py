"""Faults of runs on a Kubernetes cluster."""

import json
import signal

import pytest
from clusters import Cluster, simulated_trial
from engines import trial, wait_until

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


@pytest.fixture
def own_cluster(witnesses):
    """A cluster with simulated nodes that the test may break."""
    cluster = Cluster(kwok=3)
    witnesses.append(cluster)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.wipe()


def local(name, script, **fields):
    return trial(name, script, pull="never", **fields)


def long(name, **fields):
    """Returns a trial that runs on a simulated node until its Pod is deleted."""
    return simulated_trial(name, {"simulated.test/run-ms": "forever"}, **fields)


def await_row(combu, name, accepts, what, seconds=60):
    def look():
        row = combu.ps().get(name)
        return row if row and accepts({**row, "reason": row["reason"] or ""}) else None

    return wait_until(look, what, seconds=seconds)


def admin(user, *arguments, stdin=None):
    return user.cluster.kubectl("--namespace", user.name, *arguments, stdin=stdin)


def create(user, document):
    admin(user, "create", "--filename", "-", stdin=json.dumps(document))


# ---- Pending trials


def test_reasons_of_pending_trials_are_shown(combu):
    tainted = {"pod": {"nodeSelector": {"type": "kwok"}}}
    mounts = {"pod": {"volumes": [{"name": "c", "configMap": {"name": "absent"}}]}, "container": {"volumeMounts": [{"name": "c", "mountPath": "/c"}]}}
    gated = {"pod": {"schedulingGates": [{"name": "example.com/wait"}]}}
    combu.write(
        [
            local("big", "true", memory="4000g"),
            {"name": "tainted", "image": "combu-test", "kubernetes": tainted},
            trial("unpullable", "true", image="127.0.0.1:1/none:1"),
            local("unmounted", "true", kubernetes=mounts),
            local("gated", "true", kubernetes=gated),
        ]
    )
    combu("run")
    await_row(combu, "big", lambda row: "Insufficient memory" in row["reason"], "the reason of big")
    await_row(combu, "tainted", lambda row: "tolerations" in row["reason"], "the toleration")
    assert "write kubernetes: {pod: {tolerations: [" in combu("why", "tainted").stdout
    await_row(combu, "unpullable", lambda row: "127.0.0.1:1/none:1" in row["reason"], "the image of unpullable")
    await_row(combu, "unmounted", lambda row: 'configmap "absent" not found' in row["reason"], "the reason of unmounted")
    await_row(combu, "gated", lambda row: "gate" in row["reason"].lower(), "the reason of gated")
    assert {row["state"] for row in combu.ps().values()} == {"starting"}


def test_a_start_deadline_ends_a_pending_trial(combu, user):
    combu.write([local("big", "true", memory="4000g", start_deadline="2s")])
    combu("run", "--wait", code=1)
    assert combu.ps()["big"]["cause"] == "start_deadline"
    wait_until(lambda: user.pods() == {}, "the deletion of the Pod")


# ---- Ends


def test_causes_of_failed_attempts(combu):
    combu.write(
        [
            local("code", "exit 3"),
            local("memory", "exec dd if=/dev/zero of=/dev/null count=1 bs=268435456", memory="32m"),
            trial("absent", "true", image="combu-none:1", pull="never"),
            trial("invalid", "true", image="combu-test", pull="never", entrypoint=["/no/such/program"]),
        ]
    )
    combu("run", "--wait", code=1)
    rows = combu.ps()
    assert {name: row["cause"] for name, row in rows.items()} == {"code": "error", "memory": "oom", "absent": "start", "invalid": "start"}
    assert "combu-none:1" in rows["absent"]["reason"]
    assert "/no/such/program" in rows["invalid"]["reason"]


def test_an_evicted_pod_is_a_lost_host_and_a_deleted_pod_is_stopped(combu, user):
    combu.write([long("evicted", retries=1), long("deleted", retries=1)])
    process = combu.start("run", "--wait")
    wait_until(lambda: {row["state"] for row in combu.ps().values()} == {"running"}, "the starts")
    pods = user.pods()
    name = pods["evicted"]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": user.name}}
    path = f"/api/v1/namespaces/{user.name}/pods/{name}/eviction"
    user.cluster.kubectl("create", "--raw", path, "--filename", "-", stdin=json.dumps(eviction))
    await_row(combu, "evicted", lambda row: row["attempt"] == 2 and row["state"] == "running", "the second attempt")
    user.kubectl("delete", "pod", pods["deleted"]["metadata"]["name"])
    await_row(combu, "deleted", lambda row: row["state"] == "stopped", "the end of deleted")
    process.send_signal(signal.SIGINT)
    process.wait(60)


def test_a_removed_node_is_a_lost_host(combu_on, own_cluster):
    user = own_cluster.new_namespace("removed")
    combu = combu_on(user)
    combu.write([long("one", retries=1)])
    process = combu.start("run", "--wait")
    await_row(combu, "one", lambda row: row["state"] == "running", "the start")
    own_cluster.kubectl("delete", "node", user.pods()["one"]["spec"]["nodeName"])
    # The control plane removes the Pods of a node 40 s after the node.
    await_row(combu, "one", lambda row: row["attempt"] == 2 and row["state"] == "running", "the second attempt", seconds=180)
    process.send_signal(signal.SIGINT)
    process.wait(60)


# ---- Refusals of the namespace


def test_a_quota_delays_starts(combu, user):
    create(user, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "2"}}})
    wait_until(lambda: "used" in admin(user, "get", "resourcequota", "few", "--output", "yaml"), "the quota")
    combu.write([simulated_trial(f"t{i}", {"simulated.test/run-ms": "300"}) for i in range(8)])
    done = combu("run", "--wait")
    assert "exceeded quota: few" in done.stderr
    assert {row["state"] for row in combu.ps().values()} == {"succeeded"}


def test_refusals_come_before_the_first_start(combu, user):
    create(user, {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "small"}, "spec": {"hard": {"limits.memory": "1Gi"}}})
    limits = {"type": "Container", "default": {"memory": "64Mi"}, "defaultRequest": {"memory": "64Mi"}}
    create(user, {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "range"}, "spec": {"limits": [limits]}})
    admin(user, "label", "namespace", user.name, "pod-security.kubernetes.io/enforce=restricted")
    combu.write([local("one", "true")])
    done = combu("run", code=1)
    assert 'violates PodSecurity "restricted' in done.stderr
    assert "write kubernetes: {container: {securityContext:" in done.stderr
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    fields = {"kubernetes": {"container": {"securityContext": context}}, "user": "1000:1000"}
    wait_until(lambda: "used" in admin(user, "get", "resourcequota", "small", "--output", "yaml"), "the quota")
    combu.write([local("large", "true", memory="2g", **fields)])
    assert "exceeded quota: small" in combu("run", code=1).stderr
    combu.write([local("one", "id -u", **fields)])
    done = combu("run", "--wait")
    assert "LimitRange adds" in done.stderr
    assert "limits.memory 64Mi" in done.stderr
    assert combu("logs", "one").stdout == "1000\n"


def test_missing_rights_are_named(combu, user):
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "few"}, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]}
    create(user, role)
    admin(user, "create", "serviceaccount", "weak")
    admin(user, "create", "rolebinding", "weak", "--role=few", f"--serviceaccount={user.name}:weak")
    token = admin(user, "create", "token", "weak").strip()
    config = json.loads(user.kubectl("config", "view", "--raw", "--output", "json"))
    config["users"][0]["user"] = {"token": token}
    weak = combu.home / "weak.kubeconfig"
    weak.write_text(json.dumps(config), encoding="utf-8")
    combu.write([local("one", "true")])
    done = combu("run", code=1, KUBECONFIG=str(weak))
    assert "you may not create pods" in done.stderr
    assert "you may not get pods/log" in done.stderr
    assert "you may not get pods " not in done.stderr
    assert "nothing was started" in done.stderr


def test_a_namespace_that_does_not_exist(combu, user):
    combu.write([local("one", "true")])
    combu.engine_options = ["--engine", "kubernetes:test/absent"]
    assert "absent" in combu("run", code=None).stderr


# ---- Two users


def test_two_experiments_of_one_name_in_one_namespace(combu, user):
    """The second run is refused while the first one lives, as on a Docker Engine; the labels tell their Pods apart."""
    combu.write({"experiment": "same", "trials": [long("one")]})
    combu("run")
    done = combu("run", code=None)
    assert done.returncode != 0
    assert len(user.pods()) == 1
    combu("run", "--replace")
    assert len(user.pods()) == 1


# ---- The API server


def test_a_killed_api_server_changes_nothing(combu_on, own_cluster):
    user = own_cluster.new_namespace("killed")
    combu = combu_on(user)
    combu.write([simulated_trial(f"t{i:03}", {"simulated.test/run-ms": "2000"}) for i in range(200)])
    process = combu.start("--progress", "plain", "run", "--wait")
    wait_until(lambda: sum(row["state"] == "succeeded" for row in combu.ps().values()) >= 20, "some ends", seconds=120)
    own_cluster.kill9("kube-apiserver")
    own_cluster.start()
    assert process.wait(240) == 0, process.stderr.read()
    rows = combu.ps()
    assert {row["state"] for row in rows.values()} == {"succeeded"}
    assert {row["attempt"] for row in rows.values()} == {1}
