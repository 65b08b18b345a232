"""Logs and metrics remain after the containers: combu ingests them while a trial runs, at its end, and before its removal."""

import contextlib
import json
import os
import signal
import sqlite3

import pytest
from engines import trial, wait_until


def telemetry(combu, query):
    (path,) = (combu.home / ".local/state/combu/telemetry").glob("*.sqlite")
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=20)) as database:
        return database.execute(query).fetchall()


def test_logs_remain_after_the_containers_are_removed(combu, engine):
    combu.write([trial("one", "echo out; echo err >&2; seq 3"), trial("two", "echo second; exit 3")])
    combu("run", "--wait", code=1)
    before = combu("logs", "one")
    combu("kill")
    assert engine.names() == set()
    after = combu("logs", "one")
    assert (after.stdout, after.stderr) == (before.stdout, before.stderr) == ("out\n1\n2\n3\n", "err\n")
    assert combu("logs", "--tail", "1", "two").stdout == "second\n"
    assert [json.loads(line) for line in combu("logs", "two", "--json").stdout.splitlines()] == [
        {"trial": "two", "stream": "stdout", "line": "second"}
    ]
    whole = combu("logs")
    assert sorted(whole.stdout.splitlines()) == ["one | 1", "one | 2", "one | 3", "one | out", "two | second"]
    assert whole.stderr == "one | err\n"
    engine.stop()
    assert combu("logs", "one").stdout == "out\n1\n2\n3\n", "no engine is needed for what is kept"
    engine.start()


def test_complete_logs_are_printed_without_the_engine(combu, engine):
    """A blocked trial has no log, so nothing of it is missing."""
    combu.write([
        trial("bad", "echo first; exit 3"),
        trial("good", "echo second"),
        trial("after", "echo never", depends=[{"trial": "bad", "condition": "succeeded"}]),
    ])
    combu("run", "--wait", code=1)
    live = combu("logs", "-f")
    engine.stop()
    try:
        for asked in (["logs"], ["logs", "-f"]):
            whole = combu(*asked)
            assert sorted(whole.stdout.splitlines()) == ["bad | first", "good | second"]
        assert sorted(whole.stdout.splitlines()) == sorted(live.stdout.splitlines())
        blocked = combu("logs", "after", code=1)
        assert blocked.stderr.startswith("combu: after: has no container: the trial is blocked in run ")
    finally:
        engine.start()


def test_following_prints_ended_and_running_trials(combu, engine, tmp_path):
    """The container of one trial is gone; the other trial is running."""
    wait = "while [ ! -e /hold/go ]; do sleep 0.1; done"
    combu.write([trial("done", "echo done"), trial("runs", f"echo begin; {wait}; echo end", volumes=[f"{tmp_path}/hold:/hold"])])
    run = combu.start("run", "--wait")
    wait_until(lambda: "done" in combu("logs", "done", code=None).stdout, "the first one's log")
    wait_until(lambda: telemetry(combu, "SELECT complete FROM attempts WHERE trial = 'done'") == [(1,)], "it is kept")
    assert engine.ask("DELETE", "/containers/done")[0] == 204
    follow = combu.start("logs", "-f")
    assert {follow.stdout.readline() for _ in range(2)} == {"done | done\n", "runs | begin\n"}
    (tmp_path / "hold/go").touch()
    rest, err = follow.communicate(timeout=60)
    assert (rest, err, follow.returncode) == ("runs | end\n", "", 0)
    run.communicate(timeout=60)


@pytest.mark.engine_version
def test_logs_print_the_ingested_part_if_the_container_is_gone(combu, engine):
    combu.write([trial("gone", "echo first; sleep 600"), trial("runs", "echo second; sleep 600")])
    combu("run")
    wait_until(lambda: combu("logs", "gone", code=None).stdout == "first\n", "its log")
    wait_until(lambda: combu("results") and telemetry(combu, "SELECT size FROM attempts WHERE trial = 'gone'") == [(6,)], "a part is kept")
    assert engine.ask("DELETE", "/containers/gone?force=1")[0] == 204
    whole = combu("logs")
    assert sorted(whole.stdout.splitlines()) == ["gone | first", "runs | second"]
    assert whole.stderr == "combu: gone: the end of the log is missing: the container was removed before combu read it\n"
    assert combu("logs", "gone").stderr == whole.stderr


def test_kill_ingests_the_logs_of_trials_without_an_owner(combu, engine):
    combu.write([trial("ended", "echo precious"), trial("runs", "echo so far; sleep 600")])
    combu("run")
    wait_until(lambda: engine.running() == {"runs"}, "one has ended")
    wait_until(lambda: combu("logs", "runs").stdout == "so far\n", "the other has spoken")
    combu("kill")
    assert combu("logs", "ended").stdout == "precious\n"
    assert combu("logs", "runs").stdout == "so far\n"


def test_a_run_ingests_the_logs_of_the_containers_that_it_removes(combu, engine):
    combu.write([trial("one", "echo first")])
    combu("run", "--run-id", "r1")
    wait_until(lambda: engine.running() == set(), "the end")
    combu.write([trial("one", "echo second")])
    combu("run", "--wait", "--run-id", "r2")
    assert combu("logs", "one").stdout == "second\n"
    assert combu("logs", "--run", "r1", "one").stdout == "first\n"


def test_each_attempt_has_its_log(combu):
    combu.write([trial("one", "echo $RANDOM$RANDOM; exit 3", retries={"max": 2, "backoff": {"initial": 0}})])
    combu("run", "--wait", code=1)
    logs = [combu("logs", "one", "--attempt", str(n)).stdout for n in (1, 2, 3)]
    assert all(logs) and len(set(logs)) == 3
    assert combu("logs", "one").stdout == logs[2]


def test_logs_are_ingested_during_a_run_and_complete_after_a_kill_of_combu(combu, tmp_path):
    script = 'i=0; while [ ! -e /hold/go ]; do echo "{\\"step\\": $i, \\"x\\": $i}"; i=$((i+1)); sleep 0.05; done; echo the end'
    combu.write([trial("one", script, metrics={"stdout": "json"}, volumes=[f"{tmp_path}/hold:/hold"])])
    run = combu.start("run", "--wait")

    def some_is_kept():
        with contextlib.suppress(ValueError, sqlite3.OperationalError):  # the database is being created
            return telemetry(combu, "SELECT size > 0 FROM attempts") == [(1,)]

    wait_until(some_is_kept, "some of it")
    run.send_signal(signal.SIGKILL)
    run.communicate()
    (tmp_path / "hold/go").touch()
    combu("run", "--resume")
    combu("kill")
    lines = combu("logs", "one").stdout.splitlines()
    assert lines.pop() == "the end"
    assert [json.loads(line)["step"] for line in lines] == list(range(len(lines)))
    assert telemetry(combu, "SELECT step, value FROM points ORDER BY place") == [(float(i), float(i)) for i in range(len(lines))]
    ((points, last, least, greatest),) = telemetry(combu, "SELECT points, last, least, greatest FROM metrics")
    assert (points, last, least, greatest) == (len(lines), len(lines) - 1, 0, len(lines) - 1)


STEPS = "for i in 1 2 3; do while [ ! -e /hold/$i ]; do sleep 0.05; done; echo begin $i; echo end $i; done"


def test_following_a_run_interleaves_lines_with_names(combu, engine, tmp_path):
    """The lines of each trial keep their order. Lines of different trials are printed as they are written."""
    combu.write([trial(f"t-{i}", f"{STEPS}; echo oops >&2", volumes=[f"{tmp_path}/hold:/hold"]) for i in range(3)])
    combu("run")
    follow = combu.start("logs", "-f")
    for step in (1, 2, 3):
        (tmp_path / f"hold/{step}").touch()
        told = [follow.stdout.readline() for _ in range(6)]
        for i in range(3):
            assert [line for line in told if line.startswith(f"t-{i} |")] == [f"t-{i} | begin {step}\n", f"t-{i} | end {step}\n"]
    out, err = follow.communicate(timeout=60)
    assert (out, follow.returncode) == ("", 0)
    assert sorted(err.splitlines()) == [f"t-{i} | oops" for i in range(3)]


@pytest.mark.slow
@pytest.mark.engine_version
def test_following_continues_after_a_restart_of_the_engine(new_engine, combu_on, tmp_path):
    """The trials keep running. `logs -f` prints that the engine is away, and later continues with the next line."""
    engine = new_engine("--own-containerd", "--live-restore")
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    combu.write([trial(f"t-{i}", f"{STEPS}; echo oops >&2", volumes=[f"{tmp_path}/hold:/hold"]) for i in range(2)])
    combu("run")
    of_all, of_one = combu.start("logs", "-f"), combu.start("logs", "-f", "t-1")
    last_two = combu.start("logs", "-f", "--tail", "1", "t-1")
    (tmp_path / "hold/1").touch()
    first = [of_all.stdout.readline() for _ in range(4)]
    assert sorted(first) == [f"t-{i} | {word} 1\n" for i in range(2) for word in ("begin", "end")]
    assert [of_one.stdout.readline() for _ in range(2)] == ["begin 1\n", "end 1\n"]
    assert "end 1\n" in iter(last_two.stdout.readline, "")
    engine.kill9()
    for follow in (of_all, of_one):
        assert "; trying again" in follow.stderr.readline()
    (tmp_path / "hold/2").touch()
    engine.start()
    assert [of_one.stdout.readline() for _ in range(2)] == ["begin 2\n", "end 2\n"]
    pid = engine.dir / "dockerd.pid"
    os.kill(int(pid.read_text()), signal.SIGTERM)  # dockerd shuts down and ends its responses
    wait_until(lambda: not pid.exists(), "its end")
    engine.start()
    (tmp_path / "hold/3").touch()
    rest = of_all.communicate(timeout=60)[0].splitlines()
    for i in range(2):
        assert [line for line in rest if line.startswith(f"t-{i}")] == [f"t-{i} | {word} {step}" for step in (2, 3) for word in ("begin", "end")]
    assert of_one.communicate(timeout=60)[0] == "begin 3\nend 3\n"
    assert last_two.communicate(timeout=60)[0].splitlines() == ["begin 2", "end 2", "begin 3", "end 3"]
    assert [follow.returncode for follow in (of_all, of_one, last_two)] == [0, 0, 0]


def test_following_a_trial_continues_with_its_next_attempts(combu, tmp_path):
    script = "echo begin; until rm /hold/go 2>/dev/null; do sleep 0.05; done; echo end; exit 3"
    retries = {"max": 2, "backoff": {"initial": 0}}
    combu.write([trial("one", script, volumes=[f"{tmp_path}/hold:/hold"], retries=retries)])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu("logs", "one", code=None).stdout == "begin\n", "the first attempt")
    follow, first, of_all = (combu.start("logs", "-f", *more) for more in (("one",), ("one", "--attempt", "1"), ()))
    for attempt in (1, 2, 3):
        assert (follow.stdout.readline(), of_all.stdout.readline()) == ("begin\n", "one | begin\n")
        (tmp_path / "hold/go").touch()
        assert (follow.stdout.readline(), of_all.stdout.readline()) == ("end\n", "one | end\n")
        if attempt < 3:
            assert follow.stderr.readline() == f"combu: one: attempt {attempt + 1} begins\n"
    assert follow.communicate(timeout=60) == ("", "")
    assert first.communicate(timeout=60) == ("begin\nend\n", "")
    assert of_all.communicate(timeout=60) == ("", "")
    assert [it.returncode for it in (follow, first, of_all)] == [0, 0, 0]
    run.communicate(timeout=60)
    assert combu("logs", "-f", "one").stdout == "begin\nend\n", "what is over is not waited for"


def test_following_prints_all_attempts_also_short_ones(combu, tmp_path):
    """Several attempts may start and end between two listings."""
    script = "echo ready; while [ ! -e /hold/go ]; do sleep 0.05; done; seq 50; echo x >>/hold/attempts; [ $(wc -l </hold/attempts) = 6 ]"
    retries = {"max": 5, "backoff": {"initial": 0}}
    combu.write([trial("one", script, volumes=[f"{tmp_path}/hold:/hold"], retries=retries)])
    run = combu.start("run", "--wait")
    wait_until(lambda: combu("logs", "one", code=None).returncode == 0, "the first attempt")
    of_one, of_all = combu.start("logs", "-f", "one"), combu.start("logs", "-f")
    # Both commands follow the first attempt, which prints nothing more until the file `go` exists.
    firsts = [of_one.stdout.readline(), of_all.stdout.readline()]
    assert firsts == ["ready\n", "one | ready\n"]
    (tmp_path / "hold/go").touch()
    whole = [str(line) for _ in range(6) for line in ("ready", *range(1, 51))][1:]
    out, err = of_one.communicate(timeout=60)
    assert out.splitlines() == whole
    assert err == "".join(f"combu: one: attempt {n} begins\n" for n in range(2, 7))
    assert of_all.communicate(timeout=60)[0].splitlines() == [f"one | {line}" for line in whole]
    run.communicate(timeout=60)


def test_a_log_above_max_size_is_reported(combu):
    combu.write([trial("one", "i=0; while [ $i -lt 60 ]; do head -c 20000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done; echo the end", logs={"max_size": "300k"})])
    done = combu("run", "--wait")
    assert "one: the log exceeds logs.max_size: combu keeps only the last 300 KiB" in done.stderr
    combu("kill")
    kept = combu("logs", "one")
    assert kept.stdout.endswith("x\nthe end\n")
    assert len(kept.stdout) <= 300 * 1024
    assert "of its log were not stored (logs.max_size)" in kept.stderr


@pytest.mark.slow
@pytest.mark.engine_version
def test_log_lines_that_the_engine_rotated_away_are_reported(new_engine, combu_on, tmp_path):
    engine = new_engine("--log-opt", "max-size=50k", "--log-opt", "max-file=2")
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    script = "echo begin; until [ -e /hold/go ]; do sleep 0.05; done; seq 50000"
    combu.write([trial("one", script, volumes=[f"{tmp_path}/hold:/hold"]), trial("two", "seq 10")])
    run = combu.start("run", "--wait")
    wait_until(lambda: "begin" in combu("logs", "one", code=None).stdout, "it runs")
    wait_until(lambda: combu("results") and telemetry(combu, "SELECT size > 0 FROM attempts WHERE trial = 'one'") == [(1,)], "the first is kept")
    (tmp_path / "hold/go").touch()
    err = run.communicate(timeout=60)[1]
    assert err.count("one: a part of the log is missing") == 1
    assert "two: a part" not in err
    shown = {name: json.loads(combu("show", name, "--json").stdout)["log_gaps"] for name in ("one", "two")}
    assert shown["one"] > 0 and shown["two"] == 0
    assert "of the log" in combu("show", "one").stdout and "of the log" not in combu("show", "two").stdout
    logs = combu("logs", "one")
    assert logs.stdout.startswith("begin\n") and logs.stdout.endswith("\n50000\n")
    assert "log rotation" in logs.stderr and logs.stderr.count("combu: one: ") == 1
    assert "combu: one: " in combu("logs").stderr


def test_metrics_are_read_by_pattern_and_from_a_file(combu):
    combu.write([
        trial("text", "echo 'epoch 1 loss 0.5'; echo 'epoch 2 loss 0.25'", metrics=r"epoch (?P<step>\d+) loss (?P<loss>\S+)"),
        trial("file", "printf 'step,loss\\n1,2\\n2,1\\n' >/m.csv", metrics={"file": "/m.csv"}),
        trial("lacks", "true", metrics={"file": "/none.csv"}),
    ])
    done = combu("run", "--wait")
    assert "lacks: the metrics file /none.csv does not exist" in done.stderr
    assert "lacks reported no metric: the file /none.csv has no numbers\n" in done.stderr
    assert sorted(telemetry(combu, "SELECT trial, metric, points, last, greatest FROM metrics")) == [
        ("file", "loss", 2, 1.0, 2.0),
        ("text", "loss", 2, 0.25, 0.5),
    ]


def test_trials_without_metrics_are_reported_in_one_line(combu):
    combu.write([
        *(trial(f"typo-{i}", "echo los=1", metrics=r"loss=(?P<loss>\S+)") for i in range(3)),
        trial("fine", "echo loss=1", metrics=r"loss=(?P<loss>\S+)"),
        trial("fails", "echo; exit 1", metrics="json"),
        trial("none", "echo los=1"),
    ])
    done = combu("run", "--wait", code=1)
    none = "the pattern finds no number in the standard output"
    told = [line for line in done.stderr.splitlines() if "reported no metric" in line]
    assert len(told) == 1 and told[0].startswith("typo-") and told[0].endswith(f" reported no metric, nor did 2 more: {none}")
    assert combu("why", "typo-1").stdout == f"typo-1 has succeeded; the trial reported no metric: {none}\n"
    assert f"none: {none}\n" in combu("show", "typo-2").stdout
    assert combu("why", "fine").stdout == "fine has succeeded\n"
    assert combu("why", "none").stdout == "none has succeeded\n"


def test_metric_names_above_the_limit_are_reported(combu):
    combu.write([trial("many", "i=0; while [ $i -lt 1002 ]; do echo \"{\\\"m$i\\\": 1}\"; i=$((i+1)); done", metrics="json")])
    done = combu("run", "--wait")
    assert "many: the trial has more than 1000 metrics: combu keeps only the first ones" in done.stderr
    assert telemetry(combu, "SELECT count(*) FROM metrics") == [(1000,)]
    assert "2 points ignored: combu keeps the first 1000 names of metrics" in combu("show", "many").stdout
    assert json.loads(combu("show", "many", "--json").stdout)["passed_over"] == 2


def test_rm_removes_the_logs_of_a_run(combu):
    combu.write([trial("one", "echo gone")])
    combu("run", "--wait", "--run-id", "r1")
    combu("kill")
    path = combu.home / ".local/state/combu/telemetry/r1.sqlite"
    assert path.exists()
    combu("rm", "r1")
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.engine_version
def test_logs_of_two_million_lines_and_a_line_of_a_hundred_megabytes_are_kept(combu):
    combu.write([
        trial("lines", "seq 2000000", metrics={"stdout": "json"}, logs={"max_size": "1g"}),
        trial("long", "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo '{\"x\": 1}'", metrics={"stdout": "json"}),
        trial("noise", "head -c 3000000 /dev/urandom; echo; echo '{\"x\": 2}'", metrics={"stdout": "json"}),
    ])
    combu("run", "--wait", timeout=600)
    combu("kill")
    assert combu("logs", "lines").stdout == "".join(f"{i}\n" for i in range(1, 2000001))
    assert combu("logs", "long", "--tail", "1").stdout == '{"x": 1}\n'
    assert sorted(telemetry(combu, "SELECT trial, last FROM metrics")) == [("long", 1.0), ("noise", 2.0)]
