"""How combu finds the engine's address, and how it pulls images from registries."""

import base64
import hashlib
import json
import stat

import pytest
from engines import docker_config
from run_test import sleeper


def add_context(home, name, host):
    meta = home / ".docker/contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    (meta / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": host}}}), encoding="utf-8")


def test_docker_context_selects_the_engine(combu, engine, tmp_path):
    add_context(tmp_path, "lab", engine.host)
    combu.write([sleeper("one")])
    combu("run", DOCKER_HOST="", DOCKER_CONTEXT="lab")
    assert engine.running() == {"one"}
    assert "nowhere" in combu("kill", code=2, DOCKER_HOST="", DOCKER_CONTEXT="nowhere").stderr


def test_the_current_context_of_dockers_configuration_selects_the_engine(combu, engine, tmp_path):
    add_context(tmp_path, "lab", engine.host)
    docker_config(tmp_path, {"currentContext": "lab"})
    combu.write([sleeper("one")])
    combu("run", DOCKER_HOST="")
    assert engine.running() == {"one"}


@pytest.mark.engine_version
def test_an_engine_is_reached_by_tcp_on_loopback(new_engine, combu_on):
    engine = new_engine("--host", "tcp://127.0.0.1:2375", "--tls=false")
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    combu.write([sleeper("one")])
    combu("run", in_net=True, DOCKER_HOST="tcp://127.0.0.1:2375")
    assert engine.running() == {"one"}
    combu("kill", in_net=True, DOCKER_HOST="tcp://127.0.0.1:2375")
    assert engine.names() == set()


@pytest.fixture
def registry(engine):
    """Starts a registry with a password and the image lab/solver:1. Yields the registry's address."""
    engine.start_registry(5001, "tester:s3cret")
    engine.push("combu-test:latest", "127.0.0.1:5001/lab/solver", "1", "tester:s3cret")
    yield "127.0.0.1:5001"
    engine.remove_all()
    engine.ask("DELETE", "/images/127.0.0.1:5001%2Flab%2Fsolver:1?force=1")
    engine.stop_registry(5001)


@pytest.mark.engine_version
def test_an_image_is_pulled_from_an_open_registry(combu, engine):
    engine.start_registry(5000)
    try:
        image = "127.0.0.1:5000/lab/open"
        engine.push("combu-test:latest", image, "1")
        combu.write([sleeper(f"t-{i}", image=f"{image}:1") for i in range(3)])
        combu("run")
        assert engine.running() == {"t-0", "t-1", "t-2"}
        combu.write([sleeper("one", image=f"{image}:2")])
        assert f"{image}:2" in combu("run", "--replace", code=1).stderr
    finally:
        engine.stop_registry(5000)


@pytest.mark.engine_version
def test_a_pull_uses_the_password_in_dockers_configuration(combu, engine, registry, tmp_path):
    docker_config(tmp_path, {"auths": {registry: {"auth": base64.b64encode(b"tester:s3cret").decode()}}})
    combu.write([sleeper("one", image=f"{registry}/lab/solver:1")])
    combu("run")
    assert engine.running() == {"one"}


@pytest.mark.engine_version
@pytest.mark.parametrize("auths", [{}, {"127.0.0.1:5001": {"auth": base64.b64encode(b"tester:wrong").decode()}}])
def test_a_pull_without_the_right_password_fails_the_run(combu, engine, registry, tmp_path, auths):
    docker_config(tmp_path, {"auths": auths})
    combu.write([sleeper("zero"), sleeper("one", image=f"{registry}/lab/solver:1")])
    failed = combu("run", code=1)
    assert f"{registry}/lab/solver:1" in failed.stderr
    assert engine.names() == set()


@pytest.mark.engine_version
@pytest.mark.parametrize("config", [{"credsStore": "test"}, {"credHelpers": {"127.0.0.1:5001": "test"}}])
def test_a_pull_uses_the_password_of_a_credential_helper(combu, engine, registry, tmp_path, config):
    helper = tmp_path / "bin/docker-credential-test"
    helper.parent.mkdir()
    helper.write_text(
        '#!/bin/sh\n[ "$1" = get ] && [ "$(cat)" = 127.0.0.1:5001 ] || exit 1\n'
        'echo \'{"ServerURL": "127.0.0.1:5001", "Username": "tester", "Secret": "s3cret"}\'\n',
        encoding="utf-8",
    )
    helper.chmod(helper.stat().st_mode | stat.S_IXUSR)
    docker_config(tmp_path, config)
    combu.write([sleeper("one", image=f"{registry}/lab/solver:1")])
    combu("run", PATH=f"{helper.parent}:{combu.env['PATH']}")
    assert engine.running() == {"one"}
