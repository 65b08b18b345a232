"""combu reports all errors that it can detect before the first start, and starts nothing."""

import signal

import pytest
from engines import Combu, wait_until
from run_test import sleeper


def refused(combu, engine, experiment, *words, code=1):
    before = engine.names()
    combu.write(experiment)
    done = combu("run", code=code)
    for word in words:
        assert word in done.stderr, done.stderr
    assert engine.names() == before
    return done


@pytest.mark.engine_version
def test_a_name_in_use_by_another_container_is_refused(combu, engine):
    engine.run_stranger("one")
    refused(combu, engine, [sleeper("zero"), sleeper("one")], "one")


@pytest.mark.engine_version
def test_a_port_in_use_by_another_container_is_refused(combu, engine):
    engine.run_stranger(
        "stranger", ExposedPorts={"80/tcp": {}}, HostConfig={"PortBindings": {"80/tcp": [{"HostPort": "18081"}]}}
    )
    refused(combu, engine, [sleeper("zero"), sleeper("one", ports=["18081:80"])], "one", "18081", "stranger")


@pytest.mark.engine_version
def test_an_image_that_cannot_be_pulled_is_refused(combu, engine):
    refused(combu, engine, [sleeper("zero"), sleeper("one", image="no/such:image")], "no/such:image")
    refused(combu, engine, [sleeper("one", image="no/such:image", pull="never")], "no/such:image", "never")


def test_all_errors_of_the_file_are_reported_at_once(combu, engine):
    refused(
        combu,
        engine,
        [sleeper("one", imagee="x"), sleeper("two", ports=[{"host": 0, "container": 80}]), sleeper("two")],
        "[0]",
        "image",
        "[1].ports[0].host",
        "two",
        code=2,
    )


@pytest.mark.parametrize(
    "host, why",
    [
        ("unix:///no/such/docker.sock", "/no/such/docker.sock"),
        ("tcp://127.0.0.1:9", "127.0.0.1:9"),
    ],
)
def test_commands_fail_if_the_engine_does_not_answer(combu, host, why):
    combu.write([sleeper("one")])
    for verb in ("run", "kill", "ps"):
        assert why in combu(verb, code=3, DOCKER_HOST=host).stderr


def test_a_host_path_that_must_be_a_folder_and_is_a_file_is_refused(combu, engine, tmp_path):
    (tmp_path / "data").write_text("x", encoding="utf-8")
    refused(combu, engine, [sleeper("one", volumes=["./data/:/data"])], "data", code=2)


def test_a_refused_run_creates_no_folders_or_networks(combu, engine, tmp_path):
    combu.write([sleeper("one", image="nosuch:1", pull="never", networks=["left-over"], volumes=["./left-over/:/x"])])
    assert "nosuch:1" in combu("run", code=1).stderr
    assert not (tmp_path / "left-over").exists()
    assert "left-over" not in engine.networks()


@pytest.mark.engine_version
def test_errors_of_names_ports_and_host_paths_are_reported_together(combu, engine, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    engine.run_stranger("taken", ExposedPorts={"80/tcp": {}}, HostConfig={"PortBindings": {"80/tcp": [{"HostPort": "38480"}]}})
    combu.write([sleeper("taken"), sleeper("port", ports=["38480:80"]), sleeper("path", volumes=["./file/:/x"]), sleeper("below", volumes=["./file/below/:/x"])])
    told = combu("run", code=None).stderr
    for words in ("taken: the container name is in use", "port: host port 38480", "is a file, but the `/` at its end", "does not exist and cannot be created"):
        assert words in told
    assert engine.names() == {"taken"}


def test_another_users_run_between_two_attempts_is_not_replaced(combu, engine, tmp_path):
    """For a moment the other run has no running container, and this user's record does not have that run."""
    (tmp_path / "home").mkdir()
    other = Combu(combu.program, tmp_path / "home", engine)
    other.write({"experiment": "shared", "trials": [sleeper("one")]})
    other("run", "--run-id", "theirs")
    engine.ask("POST", "/containers/one/stop?t=0")
    wait_until(lambda: engine.running() == set(), "its end")
    combu.write({"experiment": "shared", "trials": [sleeper("one")]})
    trace = tmp_path / "trace"
    running = combu.start("run", "--trace", trace)
    try:
        wait_until(lambda: trace.exists() and " list " in trace.read_text(encoding="utf-8"), "the first look")
        running.send_signal(signal.SIGSTOP)  # the engine's start may take longer than the time between two of combu's listings
        engine.ask("POST", "/containers/one/start")
        running.send_signal(signal.SIGCONT)
        _, told = running.communicate(timeout=60)
        assert running.returncode == 1, told
        assert "an earlier run still has 1 running trial;" in told and told.splitlines()[-1] == "nothing was started"
        assert engine.containers()["one"]["Config"]["Labels"]["combu.run"] == "theirs"
        assert combu("run", "--resume", code=1).stderr.endswith(" has ended: 1 blocked\n")
    finally:
        running.kill()
        running.communicate()
