"""The test cluster itself: a real node, simulated nodes, and users with rights in one namespace."""

from pathlib import Path

import pytest
from clusters import pod, simulated_pod
from engines import wait_until

pytestmark = pytest.mark.kubernetes

MANIFESTS = sorted((Path(__file__).parents[1] / "golden/kubernetes").glob("*.yaml"))


def ended(user, name):
    """Returns the pod after its end."""

    def look():
        seen = user.get("pod", name)
        return seen if seen["status"]["phase"] in ("Succeeded", "Failed") else None

    return wait_until(look, f"the end of {name}")


def end_of(seen):
    """Returns (exit code, reason) of the pod's container."""
    state = seen["status"]["containerStatuses"][0]["state"]["terminated"]
    return state["exitCode"], state["reason"]


def test_a_pod_runs_on_the_real_node(user):
    user.create(pod("real", "echo hello; hostname; exit 3"))
    seen = ended(user, "real")
    assert seen["spec"]["nodeName"] == "node-1"
    assert end_of(seen) == (3, "Error")
    assert user.kubectl("logs", "real") == "hello\nreal\n"


def test_names_of_headless_services_resolve_in_pods(user):
    service = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"net": "lab"}}
    server = pod("server", "echo found | nc -l -p 80", hostname="loader", subdomain="lab")
    server["metadata"]["labels"] = {"net": "lab"}
    search = {"searches": [f"lab.{user.name}.svc.cluster.local"]}
    user.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "lab"}, "spec": service}, server)
    user.create(pod("client", "until nc loader 80; do sleep 0.1; done", dnsConfig=search))
    assert end_of(ended(user, "client")) == (0, "Completed")
    assert user.kubectl("logs", "client").endswith("found\n")


def test_simulated_pods_end_by_annotations_and_deadlines(user):
    user.create(
        simulated_pod("plain"),
        simulated_pod("killed", {"simulated.test/run-ms": "200", "simulated.test/exit-code": "137", "simulated.test/reason": "OOMKilled"}),
        simulated_pod("long", {"simulated.test/run-ms": "forever"}),
    )
    assert end_of(ended(user, "plain")) == (0, "Completed")
    assert end_of(ended(user, "killed")) == (137, "OOMKilled")
    assert user.kubectl("logs", "plain") == "simulated\n"
    wait_until(lambda: user.get("pod", "long")["status"]["phase"] == "Running", "the start of long")
    user.kubectl("patch", "pod", "long", "--patch", '{"spec": {"activeDeadlineSeconds": 1}}')
    assert ended(user, "long")["status"]["reason"] == "DeadlineExceeded"


def test_a_user_has_no_rights_outside_the_namespace(user):
    assert "cannot list resource" in user.kubectl("get", "nodes", code=1)
    assert "cannot list resource" in user.kubectl("get", "pods", "--namespace", "default", code=1)
    for verb, what in (
        ("create", "pods"),
        ("get", "pods/log"),
        ("create", "pods/exec"),
        ("create", "configmaps"),
        ("create", "services"),
        ("create", "networkpolicies"),
        ("watch", "events"),
    ):
        assert user.kubectl("auth", "can-i", verb, what) == "yes\n", (verb, what)


def test_a_killed_api_server_starts_again_with_its_objects(shared_cluster, user):
    user.create(simulated_pod("long", {"simulated.test/run-ms": "forever"}))
    shared_cluster.kill9("kube-apiserver")
    shared_cluster.start()
    assert user.get("pod", "long")["metadata"]["name"] == "long"


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_the_api_server_accepts_the_manifests_of_unit_tests(user, path):
    manifests = path.read_text(encoding="utf-8").replace('"namespace": "lab"', f'"namespace": "{user.name}"')
    created = user.kubectl("create", "--dry-run=server", "--validate=strict", "--filename", "-", stdin=manifests)
    assert len(created.splitlines()) == manifests.count("---\n")
