"""Faults of runs on a Kubernetes cluster."""

import base64
import http.server
import json
import signal
import ssl
import subprocess
import threading

import pytest
from clusters import Cluster, simulated_pod, simulated_trial
from engines import trial, wait_until

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


@pytest.fixture(scope="module")
def cluster_to_break():
    cluster = Cluster(kwok=6, silent_after=10)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.wipe()


@pytest.fixture
def own_cluster(cluster_to_break, witnesses):
    """A cluster with simulated nodes that a test may break, but must leave with at least three nodes."""
    witnesses.append(cluster_to_break)
    return cluster_to_break


def local(name, script, **fields):
    return trial(name, script, pull="never", **fields)


def long(name, **fields):
    """Returns a trial that runs on a simulated node until its Pod is deleted."""
    return simulated_trial(name, {"simulated.test/run-ms": "forever"}, **fields)


def annotate(user, pod, **annotations):
    """Sets annotations `simulated.test/…` of a Pod, which kwok.yaml describes."""
    texts = [f"simulated.test/{name.replace('_', '-')}={text}" for name, text in annotations.items()]
    admin(user, "annotate", "--overwrite", "pod", pod["metadata"]["name"], *texts)


def await_row(combu, name, accepts, what, seconds=60):
    def look():
        row = combu.ps().get(name)
        return row if row and accepts({**row, "reason": row.get("reason") or ""}) else None

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


def test_an_evicted_pod_and_a_deleted_pod_are_lost_hosts(combu, user):
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
    await_row(combu, "deleted", lambda row: row["attempt"] == 2 and row["state"] == "running", "the second attempt")
    assert "deleted, but not by combu" in combu("events", "deleted").stdout
    process.send_signal(signal.SIGINT)
    process.wait(60)


def test_kill_from_another_machine_is_no_lost_host(combu, user, tmp_path):
    """On another machine, `kill` has no record, and does not reach the process that watches the run."""
    depends = [{"trial": "waits", "condition": "started"}]
    combu.write([long("runs", retries=1), local("waits", "true", memory="4000g", retries=1), long("behind", depends=depends)])
    process = combu.start("run", "--wait")
    begun = {"runs": "running", "waits": "starting", "behind": "waiting"}
    wait_until(lambda: {name: row["state"] for name, row in combu.ps().items()} == begun, "the starts")
    far = tmp_path / "far"
    far.mkdir()
    combu("kill", HOME=str(far))
    assert process.wait(60) == 1
    rows = combu.ps()
    assert {name: (row["state"], row["attempt"]) for name, row in rows.items() if name != "behind"} == {"runs": ("stopped", 1), "waits": ("stopped", 1)}
    assert rows["behind"]["state"] == "blocked"
    assert user.pods() == {}


def test_a_preempted_pod_is_a_lost_host(combu, user):
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": user.name}, "value": 1000}
    create(user, urgent)
    combu.write([long("victim", cpus=600, retries=1)])
    process = combu.start("run", "--wait")
    await_row(combu, "victim", lambda row: row["state"] == "running", "the start")
    node = user.pods()["victim"]["spec"]["nodeName"]
    rival = simulated_pod("rival", {"simulated.test/run-ms": "forever"})
    rival["spec"] |= {"priorityClassName": user.name, "nodeSelector": {"kubernetes.io/hostname": node}}
    rival["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "600"}}
    create(user, rival)
    await_row(combu, "victim", lambda row: row["attempt"] == 2 and row["state"] == "running", "the second attempt")
    assert f"the pod was preempted on the node {node}" in combu("events").stdout
    second = user.pods()["victim"]
    assert second["spec"]["nodeName"] != node
    annotate(user, second, exit_code="3", run_ms="0")
    # The lost host has not counted as the only retry.
    third = await_row(combu, "victim", lambda row: row["attempt"] == 3 and row["state"] == "running", "the third attempt")
    annotate(user, user.pods()["victim"], run_ms="0")
    assert process.wait(60) == 0, third
    admin(user, "delete", "priorityclass", user.name)


def attempts_of(user, name):
    """Returns {attempt: Pod} of a trial."""
    pods = json.loads(user.kubectl("get", "pods", "--selector", f"combu.trial={name}", "--output", "json"))["items"]
    return {int(pod["metadata"]["labels"]["combu.attempt"]): pod for pod in pods}


def test_nodes_that_are_removed_or_silent(combu_on, own_cluster):
    """Trials on a node that is removed, on one that is silent until its Pods are given up, and on one that comes back before."""
    user = own_cluster.new_namespace("nodes")
    combu = combu_on(user)
    fields = {"cpus": 600, "retries": 1}  # each Pod has a node of its own
    silent = long("silent", stop_grace="1s", **fields)
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    silent["kubernetes"]["pod"]["tolerations"].append(unreachable)
    combu.write([long("removed", **fields), silent, long("back", **fields)])
    process = combu.start("run", "--wait")
    wait_until(lambda: {row["state"] for row in combu.ps().values()} == {"running"}, "the starts")
    nodes = {name: pod["spec"]["nodeName"] for name, pod in user.pods().items()}
    assert len(set(nodes.values())) == 3
    own_cluster.kubectl("delete", "node", nodes["removed"])
    own_cluster.silence_node(nodes["silent"])
    own_cluster.silence_node(nodes["back"])

    def is_noticed():
        conditions = attempts_of(user, "back")[1]["status"]["conditions"]
        return {(one["type"], one["status"]) for one in conditions} >= {("Ready", "False")}

    wait_until(is_noticed, "the silence of the node")
    assert combu.ps()["back"]["state"] == "running"
    own_cluster.end_silence(nodes["back"])
    annotate(user, attempts_of(user, "back")[1], run_ms="0")
    row = await_row(combu, "back", lambda row: row["state"] == "succeeded", "the end of back")
    assert row["attempt"] == 1

    # combu gives a Pod on a silent node up 30 s after its deletion.
    await_row(combu, "silent", lambda row: row["attempt"] == 2 and row["state"] == "running", "the second attempt")
    assert f"the node {nodes['silent']} does not answer" in combu("events").stdout
    assert set(attempts_of(user, "silent")) == {1, 2}
    own_cluster.end_silence(nodes["silent"])
    wait_until(lambda: set(attempts_of(user, "silent")) == {2}, "the removal of the first Pod")
    annotate(user, attempts_of(user, "silent")[2], run_ms="0")
    row = await_row(combu, "silent", lambda row: row["state"] == "succeeded", "the end of silent")
    assert row["attempt"] == 2

    # The control plane removes the Pods of a node 40 s after the node.
    await_row(combu, "removed", lambda row: row["attempt"] == 2 and row["state"] == "running", "the second attempt", seconds=180)
    annotate(user, attempts_of(user, "removed")[2], run_ms="0")
    assert process.wait(60) == 0


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


class Webhook:
    """An admission webhook for the Pods of a user. `review(request)` returns the refusal as text, or "" to admit the Pod."""

    def __init__(self, user, review):
        asked = threading.Event()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                asked.set()
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
                refusal = review(request)
                response = {"uid": request["uid"], "allowed": not refusal, "status": {"code": 403, "message": refusal}}
                body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        pki = user.cluster.dir / "pki"
        self.user = user
        self.asked = asked
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki / "server.crt", pki / "server.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.authority = base64.b64encode((pki / "ca.crt").read_bytes()).decode()

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        webhook = {
            "name": "policy.example.com",
            "clientConfig": {"url": f"https://127.0.0.1:{self.server.server_port}/", "caBundle": self.authority},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.user.name}},
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"],
        }
        configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
        create(self.user, {**configuration, "metadata": {"name": self.user.name}, "webhooks": [webhook]})
        probe = json.dumps(simulated_pod("probe"))

        def is_known():
            self.user.kubectl("create", "--dry-run=server", "--filename", "-", stdin=probe, code=None)
            return self.asked.is_set()

        wait_until(is_known, "the API server's knowledge of the webhook")

    def __exit__(self, *_):
        admin(self.user, "delete", "validatingwebhookconfiguration", self.user.name)
        self.server.shutdown()
        self.server.server_close()


def test_an_admission_webhook_refuses_pods(combu, user):
    def refuse_all(request):
        return f"the image {request['object']['spec']['containers'][0]['image']} is not signed"

    words = 'admission webhook "policy.example.com" denied the request: the image combu-test is not signed'
    combu.write([simulated_trial("one")])
    with Webhook(user, refuse_all):
        done = combu("run", code=1)
    assert f"one: {words}" in done.stderr
    assert "nothing was started" in done.stderr


def test_an_admission_webhook_refuses_and_does_not_answer_at_a_start(combu, user):
    """The webhook admits the Pods when combu asks before the first start."""
    ended = threading.Event()

    def review(request):
        if request.get("dryRun"):
            return ""
        trial = request["object"]["metadata"]["labels"].get("combu.trial")
        if trial == "unanswered":
            ended.wait(30)
        return "the budget of the team is spent" if trial == "refused" else ""

    combu.write([simulated_trial("good"), simulated_trial("refused"), simulated_trial("unanswered")])
    with Webhook(user, review):
        combu("run", "--wait", code=1)
        ended.set()
    rows = combu.ps()
    assert {name: row["cause"] for name, row in rows.items()} == {"good": None, "refused": "start", "unanswered": "start"}
    assert 'admission webhook "policy.example.com" denied the request: the budget of the team is spent' in rows["refused"]["reason"]
    assert 'failed calling webhook "policy.example.com"' in rows["unanswered"]["reason"]


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


# ---- Credentials


def test_a_credential_plugin_identifies_the_user(combu, user):
    """The kubeconfig has a plugin, as those of EKS, GKE and AKS have: one that works, one that fails, and one that prints junk."""
    config = json.loads(user.kubectl("config", "view", "--raw", "--output", "json"))
    account = config["users"][0]["user"]
    names = {"clientCertificateData": "client-certificate-data", "clientKeyData": "client-key-data"}
    status = {name: base64.b64decode(account[member]).decode() for name, member in names.items()}
    credential = combu.home / "credential.json"
    version = "client.authentication.k8s.io/v1"
    credential.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}), encoding="utf-8")
    plugin = combu.home / "login"
    config["users"][0]["user"] = {"exec": {"apiVersion": version, "command": "./login", "args": [str(credential)], "interactiveMode": "Never"}}
    kubeconfig = combu.home / "plugin.kubeconfig"
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    combu.env["KUBECONFIG"] = str(kubeconfig)
    combu.write([simulated_trial(f"t{i}") for i in range(10)])

    def install(script):
        plugin.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        plugin.chmod(0o755)

    for script, message in (("echo me", "did not print an ExecCredential object"), ("exit 3", "failed with exit code 3")):
        install(script)
        done = combu("run", code=None)
        assert done.returncode != 0
        assert "the credential plugin " in done.stderr
        assert f"{message}; type `kubectl --context test get pods` to see its messages" in done.stderr
    install(f'echo called >> {combu.home}/calls; exec cat "$1"')
    combu("run", "--wait")
    assert {row["state"] for row in combu.ps().values()} == {"succeeded"}
    assert (combu.home / "calls").read_text(encoding="utf-8") == "called\n" * 2  # once for each process


def test_an_expired_certificate_is_named(combu, user, tmp_path):
    pki = user.cluster.dir / "pki"
    key, request, certificate = (tmp_path / name for name in ("key", "request", "certificate"))
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    subprocess.run(["openssl", "req", "-new", *curve, "-subj", f"/CN={user.name}", "-keyout", key, "-out", request], check=True, capture_output=True)
    signed_by = ["-CA", pki / "ca.crt", "-CAkey", pki / "ca.key"]
    subprocess.run(["openssl", "x509", "-req", "-in", request, *signed_by, "-days", "-1", "-out", certificate], check=True, capture_output=True)
    config = json.loads(user.kubectl("config", "view", "--raw", "--output", "json"))
    config["users"][0]["user"] = {"client-certificate": str(certificate), "client-key": str(key)}
    kubeconfig = combu.home / "expired.kubeconfig"
    kubeconfig.write_text(json.dumps(config), encoding="utf-8")
    combu.env["KUBECONFIG"] = str(kubeconfig)
    combu.write([simulated_trial("one")])
    done = combu("run", code=None)
    assert done.returncode != 0
    assert "does not accept the credentials of user" in done.stderr
    assert "log in again" in done.stderr


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


def test_one_name_and_file_of_two_users_in_two_namespaces(tmp_path, shared_cluster, user, combu_on):
    """Both users have the file at the same path, as on two machines. Each sees and kills only the own Pods."""
    other = shared_cluster.new_namespace(f"{user.name[:50]}-2")
    first = combu_on(user)
    second = combu_on(other)
    home = tmp_path / "other"
    home.mkdir()
    second.env["HOME"] = str(home)
    first.write({"experiment": "same", "trials": [long("one"), long("two")]})
    first("run")
    second("run")
    uids = {pod["metadata"]["uid"] for pod in user.pods().values()}
    assert len(uids) == len(other.pods()) == 2
    wait_until(lambda: {row["state"] for row in second.ps().values()} == {"running"}, "the starts of the second user")
    second("stop", "one")
    assert second.ps()["one"]["state"] == "stopped"
    second("kill")
    assert other.pods() == {}
    assert {pod["metadata"]["uid"] for pod in user.pods().values()} == uids
    assert {row["state"] for row in first.ps().values()} == {"running"}
    second("run")
    first("kill")
    assert user.pods() == {}
    assert set(other.pods()) == {"one", "two"}


def test_one_name_and_file_of_two_users_in_one_namespace(tmp_path, user, combu_on):
    first = combu_on(user)
    second = combu_on(user)
    home = tmp_path / "other"
    home.mkdir()
    second.env["HOME"] = str(home)
    first.write({"experiment": "same", "trials": [long("one")]})
    first("run")
    uid = user.pods()["one"]["metadata"]["uid"]
    done = second("run", code=None)
    assert done.returncode != 0, done.stderr
    assert user.pods()["one"]["metadata"]["uid"] == uid


# ---- The API server


def test_a_stopped_combu_survives_a_compaction(combu_on, own_cluster):
    """While combu is stopped, all Pods end, etcd forgets the versions that combu knows, and the watch ends regularly."""
    user = own_cluster.new_namespace("compacted")
    combu = combu_on(user)
    combu.write([long(f"t{i:02}") for i in range(20)])
    trace = combu.home / "trace"
    process = combu.start("--trace", trace, "run", "--wait")
    wait_until(lambda: len(user.pods()) == 20 and {row["state"] for row in combu.ps().values()} == {"running"}, "the starts")
    process.send_signal(signal.SIGSTOP)
    pods = user.pods()
    version = max(int(pod["metadata"]["resourceVersion"]) for pod in pods.values())
    admin(user, "annotate", "--overwrite", "pods", "--all", "simulated.test/run-ms=0")
    wait_until(lambda: {pod["status"]["phase"] for pod in user.pods().values()} == {"Succeeded"}, "the ends of the Pods")
    own_cluster.compact()
    own_cluster.terminate("kube-apiserver")
    own_cluster.start()
    watch = f"/api/v1/namespaces/{user.name}/pods?watch=1&timeoutSeconds=1&resourceVersion={version}"
    assert '"code":410' in user.kubectl("get", "--raw", watch)
    process.send_signal(signal.SIGCONT)
    assert process.wait(60) == 0, process.stderr.read()
    rows = combu.ps().values()
    assert {(row["state"], row["attempt"]) for row in rows} == {("succeeded", 1)}
    # The watch went on: it was told that its version is too old, and began again.
    ends = [line.split()[4] for line in trace.read_text().splitlines() if line.split()[1] == "watch"]
    assert ends == ["ok"]


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
