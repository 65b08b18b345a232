"""Secrets on a cluster: trials get the values, and no value is in anything but the run's Secret."""

import base64
import hashlib
import json

import pytest
from engines import command_lines, trial, wait_until

pytestmark = pytest.mark.kubernetes

# The values differ from test to test, because some tests look at all processes of the machine.
KINDS = "file", "env", "command", "cluster"


@pytest.fixture
def values(user):
    return {kind: f"hunter-{kind}-{user.name}" for kind in KINDS}


@pytest.fixture
def combu(combu_on, user, values):
    """combu in a folder with sources of all four kinds."""
    combu = combu_on(user)
    combu.env["SECRET_VALUE"] = values["env"]
    (combu.home / "of-file").write_text(values["file"], encoding="utf-8")
    (combu.home / "reversed").write_text(values["command"][::-1] + "\n", encoding="utf-8")
    admin(user, "create", "--filename", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "lab"}, "stringData": {"key.txt": values["cluster"]}}))
    return combu


def admin(user, *arguments, **options):
    return user.cluster.kubectl("--namespace", user.name, *arguments, **options)


SOURCES = {"file": {"file": "of-file"}, "env": {"env": "SECRET_VALUE"}, "command": {"command": "rev reversed"}, "cluster": {"kubernetes": {"secret": "lab", "key": "key.txt"}}}
USES = [use for kind in KINDS for use in ({"source": kind, "target": f"/etc/lab/{kind}"}, {"source": kind, "env": f"VALUE_{kind}"})]
# Prints "KIND HASH HASH" of the file and the variable.
SHOW = """for i in file env command cluster; do echo $i $(sha256sum < /etc/lab/$i | cut -d' ' -f1) $(eval 'printf %s "$VALUE_'$i'"' | sha256sum | cut -d' ' -f1); done"""


def local(name, script, **fields):
    return trial(name, script, pull="never", entrypoint=[], secrets=USES, **fields)


def experiment(*trials):
    return {"experiment": "lab", "secrets": SOURCES, "trials": trials}


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def shown(values):
    return "".join(f"{kind} {sha256(values[kind])} {sha256(values[kind])}\n" for kind in KINDS)


def expect_no_value(values, texts):
    """The trials print hashes of the values, so that only the values and their Base64 forms must not occur."""
    for place, text in texts:
        for value in values.values():
            assert value.encode() not in text and base64.b64encode(value.encode()) not in text, place


def objects(user):
    return admin(user, "get", "pods,configmaps,services,events,networkpolicies", "--output", "json").encode()


def files_of(combu):
    own = ("of-file", "reversed")
    return [(path, path.read_bytes()) for path in combu.home.rglob("*") if path.is_file() and path.name not in own]


def files_on_nodes(user):
    """Returns the files of the container runtimes that are on a disk, and not in memory."""
    disk = user.cluster.dir.stat().st_dev
    return [(path, path.read_bytes()) for path in user.cluster.dir.glob("node-*/containerd/**/*") if path.is_file() and not path.is_symlink() and path.stat().st_dev == disk]


def secrets_of(user):
    """Returns {name: {key: value}} of the Secrets of runs."""
    found = json.loads(admin(user, "get", "secrets", "--selector", "combu.run", "--output", "json"))["items"]
    return {one["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in one.get("data", {}).items()} for one in found}


@pytest.mark.parametrize("worker", [False, True])
def test_trials_get_the_values_and_nothing_else_has_them(combu, user, values, worker):
    fields = {"worker": {"count": 1}} if worker else {}
    combu.write(experiment(local("one", f"{SHOW}; i=0; until [ -e /tmp/go ] || [ $((i += 1)) = 600 ]; do sleep 0.1; done", **fields), local("two", "exit 3", **fields)))
    process = combu.start("--trace", "trace", "run", "--wait")
    texts, stored, disks = [], {}, []
    while process.poll() is None:
        texts += [("objects", objects(user)), ("command lines", b"\n".join(command_lines()))]
        stored |= secrets_of(user)
        if b"/etc/lab/cluster" in texts[-2][1] and not disks:
            disks = files_on_nodes(user)
        if disks:
            for name in admin(user, "get", "pods", "--output", "name").split():
                admin(user, "exec", name, "--", "touch", "/tmp/go", code=None)
    out, err = process.communicate()
    assert process.returncode == 1, err
    assert combu.ps()["one"]["state"] == "succeeded", err
    assert combu("logs", "one").stdout == shown(values)
    assert list(stored.values()) == [{kind: values[kind] for kind in KINDS if kind != "cluster"}]
    texts += [("run", (out + err).encode())]
    for command in (["ps", "--json"], ["why"], ["show", "--json"], ["results", "--json"], ["plan", "--manifest"], ["events"]):
        done = combu(*command, code=None)
        texts.append((command, (done.stdout + done.stderr).encode()))
    expect_no_value(values, texts + disks + files_of(combu))
    combu("kill")
    assert secrets_of(user) == {}


def test_a_user_other_than_root_reads_files_in_a_restricted_pod(combu, user, values):
    admin(user, "label", "namespace", user.name, "pod-security.kubernetes.io/enforce=restricted")
    context = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, "readOnlyRootFilesystem": True}
    combu.write(experiment(local("one", f"{SHOW}; ls -ld /etc/lab/file | cut -c1-10; echo x > /etc/lab/file", user="1234:1234", kubernetes={"container": {"securityContext": context}})))
    combu("run", "--wait", code=1)
    logs = combu("logs", "one")
    assert logs.stdout == shown(values) + "-r--r--r--\n"
    assert "Read-only file system" in logs.stderr


def test_files_beside_a_secret_stay(combu, values):
    uses = [{"source": "file", "target": "/etc/token"}]
    combu.write({"secrets": SOURCES, "trials": [trial("one", "cat /etc/token | sha256sum | cut -d' ' -f1; test -e /etc/passwd && echo stays", pull="never", secrets=uses)]})
    combu("run", "--wait")
    assert combu("logs", "one").stdout == f"{sha256(values['file'])}\nstays\n"


def test_a_resumed_run_uses_the_new_value(combu, user, values):
    uses = [{"source": "file", "env": "VALUE"}]
    one = trial("one", "sleep 3; echo $VALUE | sha256sum", pull="never", entrypoint=[], secrets=uses)
    two = trial("two", "printf %s $VALUE | sha256sum | cut -d' ' -f1", pull="never", entrypoint=[], secrets=uses, depends=[{"trial": "one", "condition": "succeeded"}])
    combu.write({"secrets": SOURCES, "trials": [one, two]})
    process = combu.start("run", "--wait")
    wait_until(lambda: combu.ps().get("one", {}).get("state") == "running", "the first trial")
    process.kill()
    process.wait()
    (combu.home / "of-file").write_text("another-value", encoding="utf-8")
    combu("run", "--resume", "--wait")
    assert combu("logs", "two").stdout == f"{sha256('another-value')}\n"


def test_a_missing_secret_of_the_cluster_is_found_by_users_who_may_read_secrets(combu, user):
    combu.write({"secrets": {"gone": {"kubernetes": {"secret": "gone", "key": "k"}}}, "trials": [trial("one", "true", pull="never", secrets=["gone"])]})
    rule = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    meta = {"name": "readers"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"user-{user.name}"}
    for one in (
        {"kind": "Role", "metadata": meta, "rules": [rule]},
        {"kind": "RoleBinding", "metadata": meta, "roleRef": reference, "subjects": [subject]},
    ):
        admin(user, "create", "--filename", "-", stdin=json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", **one}))
    done = combu("run", "--wait", code=1)
    assert f"secrets.gone: the namespace {user.name} has no Secret gone; create it first" in done.stderr
    assert user.pods() == {}


def test_a_missing_right_is_named_before_the_first_start(combu, user):
    admin(user, "delete", "role", "combu")
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/log", "configmaps", "services", "events"], "verbs": ["*"]}]
    admin(user, "create", "--filename", "-", stdin=json.dumps({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "combu"}, "rules": rules}))
    combu.write(experiment(local("one", "true")))
    done = combu("run", "--wait", code=1)
    assert "you may not create secrets in the namespace" in done.stderr and "nothing was started" in done.stderr
