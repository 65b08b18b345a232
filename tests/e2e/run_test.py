"""Tests of run, kill, stop, logs, ps, wait and times on a real engine, checked through the engine's API."""

import json
import re
import signal
import subprocess

import pytest
from engines import wait_until

def sleeper(name, **fields):
    return {"name": name, "image": "combu-test", "cmd": "sleep 600", **fields}


def test_the_runs_id_replaces_the_placeholder_and_dependencies_start_first(combu, engine):
    combu.write(
        """
        local uuid = "UUID";
        [{ name: "solver-%d" % id, image: "combu-test", cmd: "sleep 600", env: { ID: uuid }, depends: ["loader"] } for id in [1, 2]] +
        [{ name: "loader", image: "combu-test", cmd: "sleep 600" }]
        """
    )
    combu("run")
    containers = engine.containers()
    identifiers = set()
    for name in ("solver-1", "solver-2"):
        (found,) = [variable for variable in containers[name]["Config"]["Env"] if variable.startswith("ID=")]
        identifiers.add(found.removeprefix("ID="))
        assert containers[name]["Created"] >= containers["loader"]["State"]["StartedAt"], name
    assert identifiers == {row["run"] for row in combu.ps().values()}
    assert re.fullmatch("[a-z0-9]{12}", identifiers.pop())


def test_containers_and_networks_have_combus_labels(combu, engine):
    combu.write({"experiment": "labelled", "trials": [sleeper("one", labels={"colour": "red"}, networks=["net"])]})
    combu("run", "--run-id", "first")
    labels = engine.containers()["one"]["Config"]["Labels"]
    assert labels["colour"] == "red"
    ours = {key: value for key, value in labels.items() if key != "colour"}
    assert {"labelled", "first", "one"} <= set(ours.values())
    assert "labelled" in engine.networks()["net"]["Labels"].values()


@pytest.mark.engine_version
def test_fields_of_a_trial_are_set_in_its_container(combu, engine, tmp_path):
    (tmp_path / "data").mkdir()
    combu.write(
        [
            sleeper(
                "one",
                env={"A": "1", "B": "two words"},
                workdir="/tmp",
                user="1000:1000",
                params={"lr": 0.5},
                ports=["127.0.0.1:18080:80"],
                volumes=["./data:/data:ro"],
                docker={"HostConfig": {"PidsLimit": 77}},
                stop_signal="SIGUSR1",
            )
        ]
    )
    combu("run")
    one = engine.containers()["one"]
    assert {"A=1", "B=two words", "COMBU_PARAM_LR=0.5"} <= set(one["Config"]["Env"])
    assert (one["Config"]["WorkingDir"], one["Config"]["User"]) == ("/tmp", "1000:1000")
    assert one["Config"]["StopSignal"] == "SIGUSR1"
    assert one["HostConfig"]["PortBindings"] == {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18080"}]}
    assert one["HostConfig"]["PidsLimit"] == 77
    assert one["HostConfig"]["Init"] is True
    mount = one["Mounts"][0]
    assert (mount["Source"], mount["Destination"], mount["RW"]) == (str(tmp_path / "data"), "/data", False)
    assert (tmp_path / "data").is_dir()


def test_a_second_run_is_refused_until_replaced(combu, engine):
    combu.write([sleeper("one"), sleeper("two")])
    combu("run", "--run-id", "first")
    before = {name: c["Id"] for name, c in engine.containers().items()}

    refused = combu("run", code=1)
    assert "kill" in refused.stderr and "--replace" in refused.stderr
    assert {name: c["Id"] for name, c in engine.containers().items()} == before

    combu("run", "--replace")
    after = {name: c["Id"] for name, c in engine.containers().items()}
    assert set(after) == {"one", "two"} and not set(after.values()) & set(before.values())


def test_a_run_that_is_starting_trials_is_not_replaced(combu, engine):
    combu.write([sleeper(f"t-{i:02}") for i in range(60)])
    first = combu.start("run", "--starts-in-flight", "1")
    try:
        wait_until(lambda: len(engine.names()) >= 3, "the first trials")
        refused = combu("run", "--replace", code=1)
        assert f"another combu (process {first.pid}) is still starting the trials" in refused.stderr and "kill" in refused.stderr
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=60)


def test_a_run_that_waits_is_replaced_by_another(combu, engine):
    combu.write([sleeper("one")])
    first = combu.start("run", "--wait")
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    before = engine.containers()["one"]["Id"]
    refused = combu("run", code=1)
    assert "kill" in refused.stderr and "--replace" in refused.stderr
    assert engine.containers()["one"]["Id"] == before
    second = combu("run", "--replace")
    assert f"interrupted process {first.pid}, which owned run " in second.stderr
    assert engine.containers()["one"]["Id"] != before
    _, said = first.communicate(timeout=60)
    assert first.returncode == 130 and "interrupted by `combu run --replace`: " in said
    assert "was stopped: removed by `combu kill`" in combu("why", "--run", said.split("run ")[1].split(":")[0], "one").stdout


@pytest.mark.engine_version
def test_only_one_of_three_simultaneous_runs_of_a_file_starts(combu, engine):
    trials = [sleeper(f"t-{i}", networks=["at-once"]) for i in range(20)]
    combu.write(trials)
    runs = [combu.start("run") for _ in range(3)]
    said = [run.communicate(timeout=120)[1] for run in runs]
    assert sorted(run.returncode for run in runs) == [0, 1, 1], said
    assert len({c["Config"]["Labels"]["combu.run"] for c in engine.containers().values()}) == 1
    assert engine.running() == {trial["name"] for trial in trials}


def test_a_run_removes_the_ended_containers_of_an_earlier_run(combu, engine):
    combu.write([{"name": "one", "image": "combu-test", "cmd": "true"}])
    combu("run", "--wait")
    assert combu.ps()["one"]["state"] == "succeeded"
    first = engine.containers()["one"]["Id"]
    again = combu("run", "--wait")
    assert engine.containers()["one"]["Id"] != first
    assert "removed 1 old container" in again.stderr


def test_run_wait_exits_with_1_if_a_trial_failed(combu):
    combu.write([{"name": "good", "image": "combu-test", "cmd": "true"}])
    combu("run", "--wait")
    combu.write([{"name": "good", "image": "combu-test", "cmd": "true"}, {"name": "bad", "image": "combu-test", "cmd": "false"}])
    failed = combu("run", "--wait", code=1)
    assert "bad" in failed.stderr and "good" not in failed.stderr


@pytest.mark.engine_version
def test_a_trial_waits_for_its_conditions(combu, engine):
    combu.write(
        [
            {
                "name": "server",
                "image": "combu-test",
                "cmd": ["sh", "-c", "sleep 1; touch /up; exec sleep 600"],
                "service": True,
                "healthcheck": {"test": "test -e /up", "interval": "1s"},
            },
            {"name": "good", "image": "combu-test", "cmd": "sleep 1"},
            {"name": "bad", "image": "combu-test", "cmd": "false"},
            {
                "name": "last",
                "image": "combu-test",
                "cmd": "true",
                "depends": [
                    {"trial": "server", "condition": "healthy"},
                    {"trial": "good", "condition": "succeeded"},
                    {"trial": "bad", "condition": "finished"},
                ],
            },
            {"name": "never", "image": "combu-test", "cmd": "true", "depends": [{"trial": "bad", "condition": "succeeded"}]},
        ]
    )
    done = combu("run", "--wait", code=1)
    containers = engine.containers()
    assert set(containers) == {"server", "good", "bad", "last"}
    began = containers["last"]["State"]["StartedAt"]
    assert began > containers["good"]["State"]["FinishedAt"]
    assert began > containers["bad"]["State"]["FinishedAt"]
    assert containers["last"]["State"]["ExitCode"] == 0
    assert not containers["server"]["State"]["Running"]
    assert "never" in done.stderr and "bad" in done.stderr


@pytest.mark.engine_version
def test_a_trial_that_cannot_start_blocks_only_its_dependents(combu, engine):
    combu.write(
        [
            {"name": "broken", "image": "combu-test", "user": "nobody-here"},
            sleeper("after", depends=["broken"]),
            sleeper("apart"),
        ]
    )
    failed = combu("run", code=1)
    assert engine.running() == {"apart"}
    assert "broken" in failed.stderr and "after" in failed.stderr


@pytest.mark.slow
def test_a_hundred_trials_start_after_their_dependency(combu, engine):
    combu.write([sleeper(f"t-{i:03}", depends=["t-000"] if i else []) for i in range(100)])
    combu("run")
    assert len(engine.running()) == 100
    combu("kill")
    assert engine.names() == set()


@pytest.mark.engine_version
def test_stop_ends_trials_and_keeps_their_containers(combu, engine):
    combu.write([sleeper("one"), sleeper("two")])
    combu("run")
    combu("stop", "one")
    assert engine.running() == {"two"}
    combu("stop")
    assert engine.running() == set() and engine.names() == {"one", "two"}


def test_logs_separate_stdout_and_stderr_and_print_tails(combu):
    combu.write([{"name": "one", "image": "combu-test", "cmd": ["sh", "-c", "echo 1; echo 2; echo 3; echo oops >&2"]}])
    combu("run", "--wait")
    whole = combu("logs", "one")
    assert whole.stdout == "1\n2\n3\n" and "oops" in whole.stderr
    tail = combu("logs", "--tail", "2", "one")
    assert len((tail.stdout + tail.stderr).splitlines()) == 2
    lines = [json.loads(line) for line in combu("logs", "--json", "one").stdout.splitlines()]
    assert [line["line"] for line in lines if line["stream"] == "stdout"] == whole.stdout.splitlines()
    assert all(line["trial"] == "one" for line in lines)
    assert "nobody" in combu("logs", "nobody", code=1).stderr


@pytest.mark.slow
@pytest.mark.engine_version
def test_wait_reports_every_end(combu, engine):
    """wait also reports trials that end while it starts, when the engine's listing may be out of date."""
    for _ in range(4):
        combu.write([sleeper(f"long-{i}") for i in range(2)] + [
            {"name": f"short-{i:02}", "image": "combu-test", "cmd": ["sh", "-c", "sleep 0.3; exit 3"]} for i in range(10)])
        combu("run", "--replace")
        names = [f"short-{i:02}" for i in range(10)]
        ends = combu("wait", *names, code=1, timeout=60).stdout.splitlines()
        assert sorted(ends) == [f"{name}: failed: exit code 3" for name in names]


@pytest.mark.engine_version
def test_wait_reports_trials_that_could_not_be_started(combu):
    combu.write([{"name": "one", "image": "combu-test", "cmd": "true"},
                 {"name": "two", "image": "combu-test", "cmd": "true", "user": "nobody-knows"}])
    combu("run", code=1)
    waited = combu("wait", code=1)
    one, two = sorted(waited.stdout.splitlines())
    assert one == "one: succeeded" and two.startswith("two: failed: could not be started: ")


def test_run_without_wait_succeeds_if_trials_fail_after_their_start(combu):
    combu.write([{"name": f"t-{i}", "image": "combu-test", "cmd": "false"} for i in range(6)])
    for _ in range(3):
        combu("run")
        combu("wait", code=1)


@pytest.mark.engine_version
def test_wait_returns_when_all_trials_have_ended(combu, engine):
    combu.write([{"name": "one", "image": "combu-test", "cmd": "sleep 1"}])
    combu("run")
    assert combu("wait").stdout == "one: succeeded\n"
    # An engine reports the end of a container a moment before it removes it from the list of running containers.
    wait_until(lambda: engine.running() == set(), "its end in the listing")


@pytest.mark.slow
@pytest.mark.engine_version
def test_a_run_can_start_immediately_after_run_wait(combu):
    combu.write([{"name": f"one-{i}", "image": "combu-test", "cmd": "true"} for i in range(6)])
    for _ in range(5):
        combu("run", "--wait")


def test_ps_filters_rows_and_shows_current_states(combu, engine):
    combu.write([sleeper("one"), {"name": "two", "image": "combu-test", "cmd": ["sh", "-c", "exit 3"]}])
    combu("run")
    combu("wait", "two", code=1)
    rows = combu("ps", "--json", "--where", "state=ended && exit_code!=0").stdout.splitlines()
    assert [json.loads(row)["trial"] for row in rows] == ["two"]
    assert combu("ps", "--json", "--where", "trial=o*").stdout.count("\n") == 1
    assert "is not a condition" in combu("ps", "--where", "state", code=2).stderr
    # The run has no owner: ps asks the engine which trials have ended.
    rows = combu.ps()
    assert (rows["two"]["state"], rows["two"]["exit_code"], rows["two"]["reason"]) == ("failed", 3, "exit code 3")
    assert rows["one"]["state"] == "running" and rows["one"]["seconds"] > 0
    assert {row["digest"][:7] for row in rows.values()} == {"sha256:"}
    assert json.loads(combu("ps", "--json", "two").stdout) == rows["two"]
    [run] = [json.loads(line) for line in subprocess.run([combu.program, "ps", "--json"], env=combu.env, check=True,
                                                         capture_output=True, text=True).stdout.splitlines()]
    assert (run["state"], run["counts"]) == ("left running", {"running": 1, "failed": 1})


def test_ps_shows_containers_that_are_not_in_the_record(combu, engine, tmp_path):
    combu.write([sleeper("one")])
    combu("run", "--run-id", "theirs", COMBU_HOME=str(tmp_path / "theirs"))
    assert [line.split()[1:4] for line in combu("ps").stdout.splitlines()] == [["RUN", "TRIAL", "STATE"], ["theirs", "one", "running"]]
    [run] = subprocess.run([combu.program, "ps"], env=combu.env, check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    assert "not on record" in run and "1 running" in run
    combu.write([{"name": "two", "image": "combu-test", "cmd": "true", "depends": []}])
    combu("kill")
    combu("run", "--wait", "--run-id", "mine")
    combu("run", "--replace", "--run-id", "again", COMBU_HOME=str(tmp_path / "theirs"))
    lines = combu("ps").stdout.splitlines()
    assert lines[0].startswith("run mine of ")
    assert "not on record:" in lines and lines[-1].split()[1:3] == ["again", "two"]


def test_stop_accepts_patterns_and_ps_shows_resource_usage(combu, engine):
    combu.write([sleeper("a-1"), sleeper("a-2"), sleeper("b-1")])
    combu("run")
    # A busy engine may answer too late; then the values are missing.
    one = wait_until(lambda: next((row for row in combu.ps().values() if row["trial"] == "a-1" and row["memory"]), None), "its use")
    assert one["memory"] > 0 and one["cpu_seconds"] >= 0 and one["memory_peak"] is None
    shown = re.compile(r"^a-1 +running +1 .* [KM]iB +\d+\.\d+ cores$", re.M)
    wait_until(lambda: shown.search(combu("ps", "a-1").stdout), "its use in the table")
    stopped = combu("stop", "--grace", "0s", "a-*", "no-*", code=1)
    assert "stopped 2 of 2\n" in stopped.stderr
    assert "combu: no-*: matches no trial that has a container; " in stopped.stderr
    wait_until(lambda: engine.running() == {"b-1"}, "the end of those that match")


@pytest.mark.engine_version
def test_ps_answers_while_the_engine_is_away(new_engine, combu_on):
    engine = new_engine()
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    combu.write([sleeper("one")])
    combu("run")
    engine.stop()
    away = combu("ps")
    assert "only the record is shown" in away.stderr and away.stdout.splitlines()[2].split()[:2] == ["one", "running"]
    engine.start()
    # The engine was shut down normally and has stopped the trial.
    wait_until(lambda: combu.ps()["one"]["state"] in ("failed", "stopped"), "the end of what ran")
    combu("kill")


def test_times_shows_the_durations_of_the_engine(combu):
    combu.write([{"name": f"t-{i}", "image": "combu-test", "cmd": "true"} for i in range(4)])
    combu("run", "--wait")
    rows = [json.loads(line) for line in combu("times", "--json").stdout.splitlines()]
    assert len(rows) == 4
    for row in rows:
        assert row["creating"] > 0 and row["starting"] > 0 and 0 <= row["combu"] < 1
