"""Workers in Pods of a real node: many attempts in few Pods, and what happens if a Pod, a process or the API server fails."""

import json
import signal
from datetime import datetime

import pytest
from engines import trial, wait_until

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


def short(name, script="echo done", worker=True, **fields):
    """Returns a trial with `worker` of the test image, which the real node has."""
    return trial(name, script, pull="never", entrypoint=[], worker=worker, **fields)


def many(count, script="echo done", **fields):
    return [short(f"t{i:03}", script, **fields) for i in range(count)]


def rows(combu):
    return list(combu.ps().values())


def states(combu):
    return {row["state"] for row in rows(combu)}


def attempts(combu):
    return {row["attempt"] for row in rows(combu)}


def admin(user, *arguments, **options):
    return user.cluster.kubectl("--namespace", user.name, *arguments, **options)


def ready_workers(user):
    """Returns {name of the worker: Pod} of the Pods that run."""
    return {name: pod for name, pod in user.pods().items() if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]}


def test_many_attempts_run_in_few_pods_with_files_and_metrics(combu, user):
    script = "read x < $COMBU_SCRATCH/in; echo \"{\\\"x\\\": $COMBU_PARAM_N}\"; echo $x-$COMBU_PARAM_N > $COMBU_SCRATCH/out; sleep 0.01"
    (combu.file.parent / "in").write_text("text\n", encoding="utf-8")
    fields = {"worker": {"count": 2, "concurrency": 4}, "inputs": ["./in:in"], "outputs": ["out"], "params_file": True, "metrics": "json"}
    combu.write({"experiment": "many", "trials": [short(f"t{i:03}", script, params={"n": i}, **fields) for i in range(100)]})
    process = combu.start("run", "--wait")
    pods = {}
    while process.poll() is None:
        pods.update(user.pods())
    assert process.returncode == 0, process.stderr.read()
    assert 1 <= len(pods) <= 2 and all(name.startswith("combu-worker-") for name in pods)
    assert states(combu) == {"succeeded"}
    results = [json.loads(line) for line in combu("results", "--json").stdout.splitlines()]
    assert sorted(row["metrics"]["x"]["last"] for row in results) == list(range(100))
    files = sorted(combu.file.parent.glob("results/many/*/t*/out"))
    assert [file.read_text(encoding="utf-8") for file in files] == [f"text-{i}\n" for i in range(100)]
    wait_until(lambda: user.pods() == {}, "the end of the workers")
    combu("kill")
    assert user.kubectl("get", "configmaps", "--selector", "combu.run", "--output", "name") == ""


def test_user_workdir_and_restricted_pods(combu, user):
    admin(user, "label", "namespace", user.name, "pod-security.kubernetes.io/enforce=restricted")
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "readOnlyRootFilesystem": True}
    combu.write([short("one", "id -u; pwd; touch $COMBU_SCRATCH/x && echo written", user="1234:1234", workdir="/usr", kubernetes={"container": {"securityContext": context}})])
    combu("run", "--wait")
    assert combu("logs", "one").stdout == "1234\n/usr\nwritten\n"


def test_workers_get_shared_inputs(combu, user):
    """Two trials share a worker and its inputs, as root and as a user who cannot write to the image."""
    (combu.file.parent / "in").write_text("text\n", encoding="utf-8")
    (combu.file.parent / "folder").mkdir()
    (combu.file.parent / "folder" / "x").write_text("inside\n", encoding="utf-8")
    fields = {"worker": {"count": 1}, "inputs": ["./in:/data/in", "./folder:/data/folder", "./in:mine"]}
    script = "id -u; cat /data/in /data/folder/x $COMBU_SCRATCH/mine"
    combu.write([short("root-1", script, **fields), short("root-2", script, **fields), short("other-1", script, **fields, user="1234"), short("other-2", script, **fields, user="1234")])
    combu("run", "--wait")
    for name, row in combu.ps().items():
        assert combu("logs", name).stdout == f"{0 if name.startswith('root') else 1234}\ntext\ninside\ntext\n"
        assert row["attempt"] == 1


def test_a_lost_pod_is_replaced_and_its_attempts_begin_again(combu, user):
    combu.write(many(4, "sleep 2; echo done", worker={"count": 1, "concurrency": 4}, retries=1))
    process = combu.start("run", "--wait")
    wait_until(lambda: sum(row["state"] == "running" for row in rows(combu)) == 4, "four running attempts")
    (worker,) = ready_workers(user).values()
    user.kubectl("delete", "pod", worker["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
    assert process.wait(60) == 0, process.stderr.read()
    assert (states(combu), attempts(combu)) == ({"succeeded"}, {2})


def test_attempts_go_on_without_combu_and_run_once(combu, user):
    combu.write(many(8, "sleep 1; echo once", worker={"count": 2, "concurrency": 2}))
    process = combu.start("run", "--wait")
    wait_until(lambda: any(row["state"] == "running" for row in rows(combu)), "a running attempt")
    process.send_signal(signal.SIGKILL)
    process.wait()
    combu("run", "--resume", "--wait")
    assert (states(combu), attempts(combu)) == ({"succeeded"}, {1})
    for i in range(8):
        assert combu("logs", f"t{i:03}").stdout == "once\n"


def test_a_worker_without_combu_ends_after_its_idle_time(combu, user):
    combu.write(many(1, "sleep 1", worker={"idle": "2s"}))
    process = combu.start("run", "--wait")
    wait_until(lambda: states(combu) == {"running"}, "the running attempt")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: [pod["status"]["phase"] for pod in user.pods().values()] == ["Succeeded"], "the end of the worker")
    combu("kill")
    assert user.pods() == {}


def test_a_worker_that_waits_for_a_node_is_explained_and_removed(combu, user):
    combu.write([short("huge", cpus=4000), short("small")])
    process = combu.start("--progress", "plain", "run", "--wait")
    wait_until(lambda: combu.ps().get("small", {}).get("state") == "succeeded", "the end of the other trial")
    shown = ""
    while "starting: huge: 0/" not in shown:
        shown = process.stderr.readline()
        assert shown, "the run has ended"
    combu("kill")
    assert user.pods() == {}
    assert "1 of 2 trials were started\n" in process.communicate(timeout=60)[1]


def test_a_start_deadline_ends_the_wait_for_a_worker(combu, user):
    combu.write([short("huge", cpus=4000, start_deadline="2s")])
    combu("run", "--wait", code=1)
    row = combu.ps()["huge"]
    assert (row["state"], row["cause"]) == ("failed", "start_deadline")
    events = [json.loads(line) for line in combu("events", "--json").stdout.splitlines()]
    at = {one["state"]: datetime.strptime(one["time"], "%Y-%m-%dT%H:%M:%S.%fZ") for one in events}
    assert 2 <= (at["failed"] - at["starting"]).total_seconds() < 10, events
    wait_until(lambda: user.pods() == {}, "the deletion of the worker")


def test_an_image_that_the_node_lacks(combu):
    combu.write([{**short("one"), "image": "absent:1"}])
    done = combu("run", "--wait", code=1)
    row = combu.ps()["one"]
    assert (row["state"], row["cause"]) == ("failed", "start")
    assert "absent:1" in done.stderr


def test_fewer_workers_than_wanted_fit_into_the_quota(combu, user):
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
    user.cluster.kubectl("--namespace", user.name, "create", "--filename", "-", stdin=json.dumps(quota))
    wait_until(lambda: "used" in admin(user, "get", "resourcequota", "few", "--output", "yaml"), "the quota")
    combu.write(many(20, "sleep 0.1", worker={"count": 4}))
    combu("run", "--wait")
    assert (states(combu), attempts(combu)) == ({"succeeded"}, {1})


def test_attempts_take_free_places_while_other_workers_wait_for_a_node(combu, user):
    """The node has two CPUs, so that one worker runs, and the Pods of the others wait."""
    combu.write(many(30, "sleep 0.05", cpus=1.5, worker={"count": 4}))
    process = combu.start("run", "--wait")
    ran = set()
    while process.poll() is None:
        ran |= set(ready_workers(user))
    assert process.returncode == 0, process.stderr.read()
    assert (states(combu), attempts(combu)) == ({"succeeded"}, {1})
    assert len(ran) < 10, "each Pod ran few attempts"
    wait_until(lambda: user.pods() == {}, "the deletion of the workers that never ran")


def test_the_right_to_exec_is_named_before_the_first_start(combu, user):
    everything_else = [
        {"apiGroups": ["", "networking.k8s.io", "metrics.k8s.io"], "resources": ["pods", "pods/log", "configmaps", "services", "events", "networkpolicies", "persistentvolumeclaims"], "verbs": ["*"]}
    ]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "no-exec"}, "rules": everything_else}
    user.cluster.kubectl("--namespace", user.name, "create", "--filename", "-", stdin=json.dumps(role))
    admin(user, "create", "serviceaccount", "weak")
    admin(user, "create", "rolebinding", "weak", "--role=no-exec", f"--serviceaccount={user.name}:weak")
    config = json.loads(user.kubectl("config", "view", "--raw", "--output", "json"))
    config["users"][0]["user"] = {"token": admin(user, "create", "token", "weak").strip()}
    weak = combu.home / "weak.kubeconfig"
    weak.write_text(json.dumps(config), encoding="utf-8")
    combu.write([short("one")])
    done = combu("run", code=1, KUBECONFIG=str(weak))
    assert "you may not create pods/exec" in done.stderr and "you may not get pods/exec" in done.stderr
    assert "nothing was started" in done.stderr
    combu.write([trial("one", "echo done", pull="never")])
    combu("run", "--wait", KUBECONFIG=str(weak))


def test_plan_shows_the_pods_of_workers(combu, user):
    combu.write(many(3) + [trial("other", "true", pull="never")])
    shown = combu("plan", "--manifest").stdout
    assert shown.count("kind: Pod") + shown.count('"kind": "Pod"') == 2
    assert "/combu/agent" in shown
    user.kubectl("create", "--dry-run=server", "--filename", "-", stdin=shown)


def test_a_killed_api_server_interrupts_no_attempt(combu, user):
    combu.write(many(40, "sleep 0.5; echo once", worker={"count": 2, "concurrency": 2}))
    process = combu.start("run", "--wait")
    wait_until(lambda: sum(row["state"] == "succeeded" for row in rows(combu)) >= 4, "some ends")
    user.cluster.kill9("kube-apiserver")
    user.cluster.start()
    assert process.wait(120) == 0, process.stderr.read()
    assert (states(combu), attempts(combu)) == ({"succeeded"}, {1})
    assert all(combu("logs", f"t{i:03}").stdout == "once\n" for i in (0, 20, 39))
