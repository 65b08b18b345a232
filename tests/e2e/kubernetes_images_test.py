"""Images of Pods in registries: entrypoints for workers, digests for the cache, and logins."""

import base64
import json
import signal

import pytest
from clusters import simulated_trial
from engines import wait_until

pytestmark = pytest.mark.kubernetes

ACCOUNT = "tester:s3cret"


@pytest.fixture
def combu(combu_on, user):
    return combu_on(user)


@pytest.fixture(scope="module")
def images(shared_cluster):
    """Two different images on the node, whose programs print `first` and `second`."""
    names = {}
    for word in ("first", "second"):
        names[word] = f"combu-{word}:latest"
        shared_cluster.load_image(names[word], cmd=f"echo {word}")
    return names


@pytest.fixture
def registry(shared_cluster, images):
    address = shared_cluster.start_registry()
    shared_cluster.push(images["first"], f"{address}/lab/x:1")
    yield address
    shared_cluster.stop_registry(address)


@pytest.fixture
def closed_registry(shared_cluster, images):
    """A registry that requires a login."""
    address = shared_cluster.start_registry(ACCOUNT)
    shared_cluster.push(images["first"], f"{address}/lab/x:1", ACCOUNT)
    yield address
    shared_cluster.stop_registry(address)


def admin(user, *arguments, **options):
    return user.cluster.kubectl("--namespace", user.name, *arguments, **options)


def docker_config(address, account=ACCOUNT):
    return json.dumps({"auths": {address: {"auth": base64.b64encode(account.encode()).decode()}}})


def write_docker_config(combu, address, **options):
    (combu.home / ".docker").mkdir(exist_ok=True)
    (combu.home / ".docker/config.json").write_text(docker_config(address, **options), encoding="utf-8")


def create_secret(user, address):
    data = {".dockerconfigjson": base64.b64encode(docker_config(address).encode()).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson", "data": data}
    admin(user, "create", "--filename", "-", stdin=json.dumps(secret))


def allow_secrets(user):
    admin(user, "create", "role", "secrets", "--verb=get", "--resource=secrets")
    admin(user, "create", "rolebinding", "secrets", "--role=secrets", f"--user=user-{user.name}")


def states(combu):
    return {name: row["state"] for name, row in combu.ps().items()}


def test_a_worker_runs_the_program_of_its_image(combu, registry):
    combu.write([{"name": "one", "image": f"{registry}/lab/x:1", "worker": True}, {"name": "two", "image": f"{registry}/lab/x:1", "cmd": "echo other", "worker": True}])
    combu("run", "--wait")
    assert combu("logs", "one").stdout == "first\n"
    assert combu("logs", "two").stdout == "other\n"


@pytest.mark.parametrize("worker", [False, True])
def test_an_equal_trial_is_skipped_until_the_image_changes(combu, user, registry, images, worker):
    image = f"{registry}/lab/x:1"
    combu.write([{"name": "one", "image": image, "pull": "always", "cache": True, "worker": worker}])
    combu("run", "--wait")
    assert states(combu) == {"one": "succeeded"}
    combu("kill")
    combu("run", "--wait")
    assert states(combu) == {"one": "skipped"}
    user.cluster.push(images["second"], image)
    combu("run", "--wait")
    assert states(combu) == {"one": "succeeded"}
    assert combu("logs", "one").stdout == "second\n"


def test_a_result_of_an_image_that_changes_before_the_start_is_never_reused(combu, user, registry, images):
    image = f"{registry}/lab/x:1"
    cached = {"name": "cached", "image": image, "cmd": "cat /etc/hostname", "pull": "always", "cache": True}
    gate = {"name": "gate", "image": image, "cmd": ["sh", "-c", "while :; do sleep 0.05; done"], "stop_grace": "1s"}
    combu.write([gate, {**cached, "depends": {"gate": {"condition": "finished"}}}])
    process = combu.start("run", "--wait")
    wait_until(lambda: states(combu).get("gate") == "running", "the running gate")
    user.cluster.push(images["second"], image)
    combu("stop", "gate")
    process.wait(60)
    assert states(combu)["cached"] == "succeeded"
    combu.write([cached])
    user.cluster.push(images["first"], image)
    combu("run", "--wait", "--replace")
    assert states(combu) == {"cached": "succeeded"}, "no earlier trial ran the first image"
    combu("run", "--wait", "--replace")
    assert states(combu) == {"cached": "skipped"}


def test_a_digest_that_no_process_has_watched_is_compared_later(combu, user, registry):
    combu.write([{"name": "one", "image": f"{registry}/lab/x:1", "cache": True}])
    process = combu.start("run", "--wait")
    wait_until(lambda: states(combu).get("one") in ("starting", "running", "succeeded"), "the start")
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: states(combu) == {"one": "succeeded"}, "the end of the trial")
    combu("run", "--wait", "--replace")
    assert states(combu) == {"one": "skipped"}


def test_a_login_in_dockers_configuration_is_used(combu, user, closed_registry):
    image = f"{closed_registry}/lab/x:1"
    create_secret(user, closed_registry)
    trial = {"name": "one", "image": image, "worker": True, "kubernetes": {"pod": {"imagePullSecrets": [{"name": "login"}]}}}
    combu.write([trial])
    refused = combu("run", "--wait", code=1)
    assert f"{image}: combu cannot read the entrypoint of the image: the registry {closed_registry} requires a login" in refused.stderr
    assert f"`docker login {closed_registry}`" in refused.stderr and "write `entrypoint`" in refused.stderr
    assert "nothing was started" in refused.stderr
    write_docker_config(combu, closed_registry, account="tester:wrong")
    refused = combu("run", "--wait", code=1)
    assert "refuses the credentials (status 401)" in refused.stderr and "wrong" not in refused.stderr
    write_docker_config(combu, closed_registry)
    combu("run", "--wait")
    assert combu("logs", "one").stdout == "first\n"


def test_the_secrets_of_pods_are_used_if_the_user_may_read_them(combu, user, closed_registry):
    image = f"{closed_registry}/lab/x:1"
    create_secret(user, closed_registry)
    allow_secrets(user)
    combu.write([{"name": "one", "image": image, "worker": True, "kubernetes": {"pod": {"imagePullSecrets": [{"name": "login"}]}}}])
    combu("run", "--wait")
    assert combu("logs", "one").stdout == "first\n"


def test_cache_without_a_readable_registry_runs_every_trial(combu, shared_cluster):
    address = shared_cluster.start_registry()
    shared_cluster.stop_registry(address)
    combu.write([{**simulated_trial("one"), "image": f"{address}/lab/x:1", "cache": True}])
    done = combu("run", "--wait")
    assert f"{address}/lab/x:1: combu cannot read the digest of the image: {address} cannot be reached" in done.stderr
    assert states(combu) == {"one": "succeeded"}


def test_an_image_for_another_platform_is_refused_before_the_start(combu, registry):
    combu.write([{"name": "one", "image": f"{registry}/lab/x:1", "platform": "linux/s390x", "worker": True}])
    refused = combu("run", "--wait", code=2)
    assert "the image is not for linux/s390x, but for linux/amd64; correct `platform`" in refused.stderr
    assert "nothing was started" in refused.stderr
