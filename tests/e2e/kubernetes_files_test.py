"""Files of Pods on a real node: inputs, outputs, params and metrics, and what happens if a Pod, a process or the API server fails."""

import hashlib
import json
import signal

import pytest
from engines import trial, wait_until

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


def job(name, script, **fields):
    """Returns a trial of the test image, which the real node has."""
    return trial(name, script, pull="never", entrypoint=[], **fields)


def admin(user, *arguments, **options):
    return user.cluster.kubectl("--namespace", user.name, *arguments, **options)


def collected(combu, place="results"):
    """Returns {path below the run's folder: content} of all collected files, without the manifests."""
    found = {}
    for file in combu.file.parent.glob(f"{place}/*/*/**/*"):
        if file.is_file() and not file.name.startswith("manifest"):
            found["/".join(file.relative_to(combu.file.parent / place).parts[2:])] = file.read_text(encoding="utf-8")
    return found


def states(combu):
    return {name: (row["state"], row["attempt"]) for name, row in combu.ps().items()}


def test_files_go_in_and_come_out(combu, user):
    folder = combu.file.parent
    (folder / "raw").mkdir()
    (folder / "raw" / "a").write_text("one\n", encoding="utf-8")
    (folder / "settings").write_text("fast\n", encoding="utf-8")
    combu.write(
        {
            "experiment": "files",
            "trials": [
                job("first", "cat /raw/a /etc/app/settings /combu/params.json; mkdir /out; cp /raw/a /out/b; ln -s b /out/link; printf end", inputs=["./raw:/raw", "./settings:/etc/app/settings"], outputs=["/out"], params={"n": 1}, params_file=True),
                *[job(f"then-{i}", f"cat /in/b > /result; echo {i} >> /result; echo warn >&2", inputs=["trial:first/out:/in"], outputs=["/result"], depends="first") for i in range(3)],
            ],
        }
    )
    combu("run", "--wait")
    assert set(states(combu).values()) == {("succeeded", 1)}
    assert collected(combu) == {"first/out/b": "one\n", "first/out/link": "one\n", **{f"then-{i}/result": f"one\n{i}\n" for i in range(3)}}
    assert combu("logs", "first").stdout == 'one\nfast\n{"n":1}end'
    done = combu("logs", "then-0")
    assert (done.stdout, done.stderr) == ("", "warn\n")
    wait_until(lambda: user.pods() == {}, "the deletion of the ended Pods")
    shown = json.loads(combu("show", "--json", "then-0").stdout)
    assert shown["inputs"][0]["digest"].startswith("sha256:")


def test_metrics_from_a_file_and_the_usage_of_the_program(combu):
    combu.write([job("one", "echo '{\"loss\": 0.5}' > /metrics.jsonl; sleep 1", metrics={"file": "/metrics.jsonl"})])
    combu("run", "--wait")
    (row,) = [json.loads(line) for line in combu("results", "--json").stdout.splitlines()]
    assert row["metrics"]["loss"]["last"] == 0.5
    assert combu.ps()["one"]["memory_peak"] > 0


def test_ends_of_the_program_are_as_without_files(combu):
    quick = {"outputs": ["/out"], "retries": 0}
    combu.write(
        {
            "collect": {"on": "always"},
            "trials": [
                job("code", "mkdir /out; echo partial > /out/x; echo failed >&2; exit 3", **quick),
                job("signal", "mkdir /out; kill -KILL $$", **quick),
                job("timeout", "mkdir /out; echo so-far > /out/x; sleep 100", timeout="1s", stop_grace="1s", **quick),
                job("absent", "true", **quick),
                {**job("program", "", **quick), "entrypoint": ["/no/program"], "cmd": []},
            ],
        }
    )
    combu("run", "--wait", code=1)
    ends = {name: (row["state"], row["cause"], row["exit_code"]) for name, row in combu.ps().items()}
    assert ends == {
        "code": ("failed", "error", 3),
        "signal": ("failed", "error", 137),
        "timeout": ("failed", "timeout", 143),
        "absent": ("failed", "outputs", 0),
        "program": ("failed", "start", None),
    }
    assert collected(combu) == {"code/out/x": "partial\n", "timeout/out/x": "so-far\n"}
    assert combu("logs", "code").stderr == "failed\n"
    assert "/no/program" in combu.ps()["program"]["reason"]


def test_restricted_pods_with_a_read_only_root(combu, user):
    admin(user, "label", "namespace", user.name, "pod-security.kubernetes.io/enforce=restricted")
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "readOnlyRootFilesystem": True}
    (combu.file.parent / "in").write_text("text\n", encoding="utf-8")
    combu.write([job("one", "id -u > /data/who; cat /data/in /combu/params.json >> /data/who", user="1234:1234", inputs=["./in:/data/in"], outputs=["/data/who"], params={"n": 1}, params_file=True, kubernetes={"container": {"securityContext": context}})])
    combu("run", "--wait")
    assert collected(combu) == {"one/data/who": '1234\ntext\n{"n":1}'}


def test_inputs_that_the_user_of_the_image_cannot_write(combu):
    (combu.file.parent / "in").write_text("text\n", encoding="utf-8")
    combu.write([job("one", "true", retries=0, inputs=["./in:/proc/combu-test/in"])])
    combu("run", "--wait", code=1)
    row = combu.ps()["one"]
    assert (row["state"], row["cause"]) == ("failed", "start")
    assert "proc/combu-test/in: No such file or directory" in row["reason"]


def test_partial_outputs_of_a_running_trial(combu, user):
    combu.write({"collect": {"every": "1s"}, "trials": [job("one", "mkdir /out; echo 1 > /out/x; until [ -e /stop ]; do sleep 0.1; done; echo 2 >> /out/x", outputs=["/out"])]})
    process = combu.start("run", "--wait")
    wait_until(lambda: collected(combu).get("one@so-far/out/x") == "1\n", "the partial outputs")
    user.kubectl("exec", user.pods()["one"]["metadata"]["name"], "--", "touch", "/stop")
    assert process.wait(60) == 0, process.stderr.read()
    assert collected(combu) == {"one/out/x": "1\n2\n"}


def test_a_run_that_does_not_wait_sends_the_inputs(combu, user):
    (combu.file.parent / "in").write_text("input\n", encoding="utf-8")
    combu.write([job(f"t{i}", "cat /data/in", inputs=["./in:/data/in"], retries=0) for i in range(3)])
    combu("run")
    combu("wait")
    assert set(states(combu).values()) == {("succeeded", 1)}
    assert combu("logs", "t1").stdout == "input\n"


def test_a_resumed_combu_sends_the_inputs(combu, user):
    """combu is killed before the Pod of the trial runs."""
    (combu.file.parent / "in").write_text("input\n", encoding="utf-8")
    combu.write([job("one", "cat /data/in", inputs=["./in:/data/in"], retries=0, kubernetes={"pod": {"schedulingGates": [{"name": "lab/held"}]}})])
    process = combu.start("run")
    wait_until(lambda: "one" in user.pods(), "the Pod")
    process.kill()
    process.wait()
    admin(user, "patch", "pod", user.pods()["one"]["metadata"]["name"], "--type", "json", "--patch", '[{"op": "remove", "path": "/spec/schedulingGates"}]')
    wait_until(lambda: user.pods()["one"]["status"]["phase"] == "Running", "the running Pod")
    assert combu.ps()["one"]["state"] == "starting"
    combu("run", "--resume", "--wait")
    assert states(combu) == {"one": ("succeeded", 1)}
    assert combu("logs", "one").stdout == "input\n"


def test_a_killed_combu_loses_no_output(combu, user):
    script = "mkdir /out; sleep 1; echo once; head -c 1000000 /dev/urandom > /out/x; sha256sum < /out/x"
    combu.write([job(f"t{i}", script, outputs=["/out"]) for i in range(4)])
    process = combu.start("run", "--wait")
    wait_until(lambda: any(row["state"] == "running" for row in combu.ps().values()), "a running trial")
    process.send_signal(signal.SIGKILL)
    process.wait()
    # The programs end without combu, and the containers keep their files.
    wait_until(lambda: all("  -" in user.kubectl("logs", pod["metadata"]["name"]) for pod in user.pods().values()), "the ends of the programs")
    combu("run", "--resume", "--wait")
    assert set(states(combu).values()) == {("succeeded", 1)}
    for i in range(4):
        (file,) = combu.file.parent.glob(f"results/*/*/t{i}/out/x")
        assert combu("logs", f"t{i}").stdout == f"once\n{hashlib.sha256(file.read_bytes()).hexdigest()}  -\n"


def test_a_killed_api_server_cuts_no_output(combu, user):
    combu.write([job("large", "mkdir /out; head -c 200000000 /dev/urandom > /out/x; sha256sum < /out/x", outputs=["/out"])])
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("large", {}).get("state") == "collecting", "the collection")
    user.cluster.kill9("kube-apiserver")
    user.cluster.start()
    assert process.wait(120) == 0, process.stderr.read()
    assert states(combu) == {"large": ("succeeded", 1)}
    (file,) = combu.file.parent.glob("results/*/*/large/out/x")
    assert combu("logs", "large").stdout == f"{hashlib.sha256(file.read_bytes()).hexdigest()}  -\n"


def test_a_pod_that_is_lost_with_its_outputs_runs_again(combu, user):
    combu.write([job("large", "mkdir /out; head -c 200000000 /dev/zero > /out/x; echo once", outputs=["/out"], retries=1)])
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("large", {}).get("state") == "collecting", "the collection")
    (pod,) = user.pods().values()
    user.kubectl("delete", "pod", pod["metadata"]["name"], "--grace-period=0", "--force", "--wait=false")
    assert process.wait(120) == 0, process.stderr.read()
    assert states(combu) == {"large": ("succeeded", 2)}
    (file,) = combu.file.parent.glob("results/*/*/large/out/x")
    assert file.stat().st_size == 200000000


@pytest.mark.parametrize("keep", [None, "volume"])
def test_a_container_that_dies_loses_its_outputs_without_a_volume(combu, user, keep):
    script = "mkdir -p /out; head -c 1000000 /dev/zero > /out/x; echo begun; sleep 100"
    combu.write({"keep": keep, "trials": [job("one", script, outputs=["/out"], retries=0)]})
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "running", "the running trial")
    (pod,) = user.pods().values()
    wait_until(lambda: user.kubectl("logs", pod["metadata"]["name"]) == "begun\n", "the log")
    user.cluster.kill_container(pod)
    assert process.wait(60) == 1
    row = combu.ps()["one"]
    assert (row["state"], row["exit_code"]) == ("failed", 137)
    assert combu("logs", "one").stdout == "begun\n"
    assert collected(combu) == ({"one/out/x": "\0" * 1000000} if keep else {})
    assert ("its outputs are lost: the container has ended before their collection; see `hold` and `keep: \"volume\"`" in combu("why", "one").stdout) == (keep is None)
    wait_until(lambda: user.pods() == {}, "the deletion of the ended Pod")


@pytest.mark.parametrize("is_late", [False, True])
def test_a_resumed_combu_collects_kept_outputs_before_the_end_of_their_hold(combu, user, is_late):
    combu.write({"keep": "volume", "hold": "1s" if is_late else "10m", "trials": [job("one", "echo kept > /out/x; echo begun; sleep 100", outputs=["/out"], retries=0)]})
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "running", "the running trial")
    (pod,) = user.pods().values()
    wait_until(lambda: user.kubectl("logs", pod["metadata"]["name"]) == "begun\n", "the log")
    process.send_signal(signal.SIGKILL)
    process.wait()
    user.cluster.kill_container(pod)

    def is_awaited(status):
        return status["phase"] == "Succeeded" if is_late else status["containerStatuses"][0]["restartCount"] == 1

    wait_until(lambda: is_awaited(user.pods()["one"]["status"]), "the restarted container")
    combu("run", "--resume", "--wait", code=1)
    row = combu.ps()["one"]
    assert (row["state"], row["exit_code"]) == ("failed", 137)
    assert collected(combu) == ({} if is_late else {"one/out/x": "kept\n"})
    assert ("its outputs are lost: the container has ended before their collection" in combu("why", "one").stdout) == is_late


def test_a_kept_volume_changes_no_other_end(combu, user):
    quick = {"outputs": ["/out"], "retries": 0}
    combu.write({"keep": "volume", "trials": [job("good", "echo 1 > /out/x", **quick), job("bad", "echo 2 > /out/x; exit 3", **quick), {**job("absent", "", **quick), "cmd": ["/no/program"]}]})
    combu("run", "--wait", code=1)
    rows = combu.ps()
    assert {name: (row["state"], row["exit_code"]) for name, row in rows.items()} == {"good": ("succeeded", 0), "bad": ("failed", 3), "absent": ("failed", None)}
    assert "/no/program" in rows["absent"]["reason"]
    assert collected(combu) == {"good/out/x": "1\n", "bad/out/x": "2\n"}


def test_outputs_are_lost_after_the_hold(combu, user):
    combu.write({"hold": "1s", "trials": [job("one", "mkdir /out; sleep 1", outputs=["/out"], retries=0)]})
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "running", "the running trial")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: user.pods()["one"]["status"]["phase"] == "Succeeded", "the end of the hold")
    combu("run", "--resume", "--wait", code=1)
    row = combu.ps()["one"]
    assert (row["state"], row["cause"]) == ("failed", "outputs")
    assert "lost" in combu("why", "one").stdout


def test_kept_pods_end_with_the_code_of_the_program(combu, user):
    combu.write({"keep": "ended", "trials": [job("one", "mkdir /out; exit 0", outputs=["/out"]), job("two", "exit 4", outputs=["/out"], retries=0)]})
    combu("run", "--wait", code=1)
    wait_until(lambda: {name: pod["status"]["phase"] for name, pod in user.pods().items()} == {"one": "Succeeded", "two": "Failed"}, "the ends of the Pods")
    assert user.pods()["two"]["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_the_right_to_exec_is_named_before_the_first_start(combu, user):
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/log", "configmaps", "services", "events"], "verbs": ["*"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "no-exec"}, "rules": rules}
    admin(user, "create", "--filename", "-", stdin=json.dumps(role))
    admin(user, "create", "serviceaccount", "weak")
    admin(user, "create", "rolebinding", "weak", "--role=no-exec", f"--serviceaccount={user.name}:weak")
    config = json.loads(user.kubectl("config", "view", "--raw", "--output", "json"))
    config["users"][0]["user"] = {"token": admin(user, "create", "token", "weak").strip()}
    weak = combu.home / "weak.kubeconfig"
    weak.write_text(json.dumps(config), encoding="utf-8")
    combu.write([job("one", "true", outputs=["/out"])])
    done = combu("run", code=1, KUBECONFIG=str(weak))
    assert "you may not create pods/exec" in done.stderr and "nothing was started" in done.stderr


def test_plan_shows_the_agent(combu, user):
    combu.write([job("one", "true", outputs=["/out"])])
    shown = combu("plan", "--manifest").stdout
    assert "supervise" in shown and "hold=3600" in shown
    user.kubectl("create", "--dry-run=server", "--filename", "-", stdin=shown)


def test_a_config_map_that_is_deleted_under_a_run(combu, user):
    """The program of the agent is gone for later Pods, and combu creates it again."""
    combu.write({"parallel": 1, "trials": [job(f"t{i}", "mkdir /out; sleep 1", outputs=["/out"]) for i in range(3)]})
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("t0", {}).get("state") == "running", "the first trial")
    for name in user.kubectl("get", "configmaps", "--output", "name").split():
        if "-program-" in name:
            user.kubectl("delete", name)
    assert process.wait(60) == 0, process.stderr.read()
    assert set(states(combu).values()) == {("succeeded", 1)}


def test_full_disks(combu):
    """The disk of the outputs, of the agent's folder, or of the inputs is full."""

    def small(name, path):
        return {"pod": {"volumes": [{"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}]}, "container": {"volumeMounts": [{"name": name, "mountPath": path}]}}

    (combu.file.parent / "large").write_bytes(bytes(2000000))
    agents_folder = "/combu/attempts/w"
    fill = "head -c 2000000 /dev/zero"
    quick = {"outputs": ["/out"], "retries": 0}
    combu.write(
        {
            "collect": {"on": "always"},
            "trials": [
                job("outputs", f"{fill} > /out/x; code=$?; echo so-far; exit $code", kubernetes=small("out", "/out"), **quick),
                job("agent", f"{fill} > {agents_folder}/x; seq 100000; mkdir /out; echo done > /out/x", kubernetes=small("combu-attempts", agents_folder), **quick),
                job("inputs", "true", inputs=["./large:/in/large"], kubernetes=small("in", "/in"), **quick),
            ],
        }
    )
    done = combu("run", "--wait", code=1)
    ends = {name: (row["state"], row["cause"], row["exit_code"]) for name, row in combu.ps().items()}
    assert ends == {"outputs": ("failed", "error", 1), "agent": ("succeeded", None, 0), "inputs": ("failed", "start", None)}
    assert {path: len(content) for path, content in collected(combu).items()} == {"outputs/out/x": 1 << 20, "agent/out/x": 5}
    assert combu("why", "inputs").stdout == "inputs failed: could not be started: the inputs cannot be unpacked: in/large: No space left on device\n"
    assert combu("logs", "outputs").stdout == "so-far\n"
    assert "agent: a part of the log is missing, with the metrics in it: the agent could not store it; free space" in done.stderr
    log = combu("logs", "agent")
    assert log.stdout.endswith("\n99999\n100000\n") and "a part of the log is missing" in log.stderr


def test_a_trial_that_attacks_the_agent(combu):
    """The trial sends SIGKILL to the agent, and replaces its socket and its folder. The agent goes on."""
    folder = "/combu/attempts/w/agent"
    script = f"kill -KILL 1; rm {folder}/socket; touch {folder}/socket; rm -r {folder}; touch {folder}; mkdir /out; echo done > /out/x"
    combu.write([job("one", script, outputs=["/out"], retries=0)])
    combu("run", "--wait")
    assert collected(combu) == {"one/out/x": "done\n"}
    assert states(combu) == {"one": ("succeeded", 1)}
