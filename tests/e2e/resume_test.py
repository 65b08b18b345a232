"""`run --resume` and `retry`: combu derives the remaining work from the record and the engine."""

import contextlib
import signal
import sqlite3

import pytest
from engines import wait_until
from run_test import sleeper

CODES = (0, 3, 0, 7, 0)
MANY = {f"t-{i:03}": CODES[i % len(CODES)] for i in range(300)}


def ids(engine):
    return {container["Names"][0][1:]: container["Id"] for container in engine.get("/containers/json?all=1")}


def attempts_by_label(engine):
    return {name: container["Config"]["Labels"]["combu.attempt"] for name, container in engine.containers().items()}


class Lab:
    """An experiment whose trials end when the test lets them, with the test's exit codes, and then write a line to a file."""

    def __init__(self, combu, folder):
        self.combu = combu
        self.folder = folder
        self.folder.mkdir()

    def trial(self, name, code=0, seconds=0, **fields):
        """Returns a trial that exits with the code in the file NAME.code, or with `code` if there is no such file."""
        script = (
            f"sleep {seconds}; while test -e /lab/{name}.held; do sleep 0.05; done; "
            # From here on only the shell runs: an engine that shuts down might kill a child first, and the code would be 0.
            f"code={code}; test ! -e /lab/{name}.code || read code </lab/{name}.code; echo $HOSTNAME >>/lab/{name}.ends; exit $code"
        )
        cmd = ["sh", "-c", script]
        return {"name": name, "image": "combu-test", "cmd": cmd, "volumes": [f"{self.folder}/:/lab"], **fields}

    def hold(self, *names):
        for name in names:
            (self.folder / f"{name}.held").touch()

    def let_go(self, *names):
        for name in names:
            (self.folder / f"{name}.held").unlink()

    def set_code(self, name, code):
        (self.folder / f"{name}.code").write_text(str(code), encoding="utf-8")

    def ends(self, name):
        """Returns the short id of the container for each time that the trial ended."""
        file = self.folder / f"{name}.ends"
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def _record(self):
        path = self.combu.home / ".local/state/combu/record.sqlite"
        return contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=20))

    def query(self, sql):
        with self._record() as database:
            return database.execute(sql).fetchall()

    def change(self, sql):
        with self._record() as database, database:
            database.execute(sql)

    def has_run(self):
        """Returns True if the record has a run. A killed combu may leave no file, no tables, or no run."""
        return bool(
            (self.combu.home / ".local/state/combu/record.sqlite").exists()
            and self.query("SELECT 1 FROM sqlite_master WHERE name = 'runs'")
            and self.query("SELECT 1 FROM runs")
        )

    def states(self):
        """Returns {trial: (state, attempt, exit code)} of the only run."""
        return {row[0]: row[1:] for row in self.query("SELECT name, state, attempt, exit_code FROM states")}

    def attempts(self):
        """Returns {(trial, attempt): (container, exit code, cause)} of the only run."""
        sql = "SELECT name, attempt, container, exit_code, cause FROM attempts JOIN trials USING (run, trial)"
        return {row[:2]: row[2:] for row in self.query(sql)}

    def over(self):
        """Returns {trial: container} of the trials whose end is in the record."""
        names = [name for name, it in self.states().items() if it[0] in ("succeeded", "failed")]
        containers = ids(self.combu.engine)
        return {name: containers[name] for name in names}

    def wait_for_state(self, state, *names):
        """Waits until the trials have this state. The run must be in the record."""
        wait_until(lambda: {self.states()[name][0] for name in names} == {state}, f"{names} to be {state}", seconds=120)


@pytest.fixture
def lab(combu, tmp_path):
    return Lab(combu, tmp_path / "lab")


@pytest.fixture
def at_work():
    """A function that registers a process and returns it. The fixture kills all registered processes."""
    processes = []

    def keep(process):
        processes.append(process)
        return process

    yield keep
    for process in processes:
        process.kill()
        process.communicate()


def die(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def unlike(wanted, found):
    """Returns {name: (wanted, found)} of the entries that differ."""
    return {name: (wanted.get(name), found.get(name)) for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)}


def alive_at_once(containers):
    """Returns the largest number of containers that were running at the same time, by the engine's timestamps."""
    changes = []
    for container in containers.values():
        changes += [(container["State"]["StartedAt"], 1), (container["State"]["FinishedAt"], -1)]
    alive = most = 0
    for _, change in sorted(changes):
        alive += change
        most = max(most, alive)
    return most


# `lost`: the engine is killed during starts. `live_restore`: eight trials use all CPUs, so no start can be lost. Only
# `live_restore` depends on the engine's version: a restarted engine finds the containers that ran on.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "held_count"),
    [pytest.param((), 1, id="lost"), pytest.param(("--live-restore",), 8, id="live_restore", marks=pytest.mark.engine_version)],
)
def test_many_trials_end_once_despite_kills_of_combu_and_the_engine(combu_on, new_engine, tmp_path, at_work, options, held_count):
    engine = new_engine("--own-containerd", *options)
    engine.start()
    engine.load_image()
    combu = combu_on(engine)
    lab = Lab(combu, tmp_path / "lab")
    # Trials are retried only after a loss of the host. With 0.25 of two CPUs each, eight trials run at once.
    fields = {"cpus": 0.25, "retries": {"max": 1, "on": ["host_lost"]}, "networks": ["none"]}
    combu.write([lab.trial(name, code, f"0.{i % 9 + 1}", **fields) for i, (name, code) in enumerate(MANY.items())])
    held = sorted(MANY)[150 : 150 + held_count]
    lab.hold("t-070", *held, "t-230")
    ended = {}  # trials that had ended when combu or the engine was killed

    running = at_work(combu.start("run", "--wait", "--progress", "plain"))
    wait_until(lambda: "t-070" in engine.running(), "the first place of death")
    die(running)
    ended |= lab.over()
    lab.let_go("t-070")
    wait_until(lambda: engine.running() == set(), "the end of what ran")

    running = at_work(combu.start("run", "--resume", "--progress", "plain"))
    lab.wait_for_state("running", *held)
    ended |= lab.over()
    engine.kill9()
    # After its restart, the engine may not know that these containers ran.
    unsure = {name for name, it in lab.states().items() if it[0] == "starting"}
    engine.start()
    over_then = {name for name, it in lab.states().items() if it[0] in ("succeeded", "failed")}
    lab.let_go(*held)

    wait_until(lambda: "t-230" in engine.running(), "the third place of death")
    die(running)
    ended |= lab.over()
    running = at_work(combu.start("run", "--resume", "--progress", "plain"))
    lab.let_go("t-230")
    _, err = running.communicate(timeout=180)
    assert running.returncode == 1, err

    listed = engine.names()
    containers = engine.containers()
    attempts = lab.attempts()
    states = lab.states()
    last = {name: attempt for name, (_, attempt, _) in states.items()}
    assert {name: (state, code) for name, (state, _, code) in states.items()} == {
        name: ("failed" if code else "succeeded", code) for name, code in MANY.items()
    }
    assert MANY.keys() - containers.keys() == set(), sorted(listed - containers.keys())
    # The engine reports an end before it stores it. If it is killed in between, it later reports the exit code 255.
    forgotten = unlike(MANY, {name: container["State"]["ExitCode"] for name, container in containers.items()})
    assert {found for _, found in forgotten.values()} <= {255} and forgotten.keys() <= over_then, forgotten
    assert unlike(MANY, {name: row["exit_code"] for name, row in combu.ps().items()}) == {}
    assert attempts_by_label(engine) == {name: str(attempt) for name, attempt in last.items()}
    # Lost containers are removed with their timestamps, and a slow engine may start the next trials late.
    assert 4 <= alive_at_once(containers) <= 8

    assert len(ended) >= 150
    assert {name: containers[name]["Id"] for name in ended} == ended
    lost = {name: cause for (name, attempt), (_, _, cause) in attempts.items() if attempt < last[name]}
    assert set(lost.values()) <= {"host_lost"}
    if options:
        assert lost == {}
    else:
        assert set(held) <= lost.keys() and len(lost) <= 8
    # A trial that the engine's restart killed may have written its end just before.
    assert {name for name in MANY if len(lab.ends(name)) > 1} <= lost.keys() | unsure
    assert {name: lab.ends(name)[-1] for name in MANY} == {name: containers[name]["Id"][:12] for name in MANY}
    assert {name: attempts[name, last[name]] for name in MANY} == {
        name: (containers[name]["Id"], code, "error" if code else "none") for name, code in MANY.items()
    }


def test_resume_records_ends_that_happened_without_an_owner(combu, engine, lab, at_work):
    held = {"good": 0, "bad": 3, "worse": 7}
    lab.hold(*held)
    combu.write(
        [lab.trial(name, code) for name, code in held.items()]
        + [
            lab.trial("before"),
            lab.trial("after", depends=[{"trial": "good", "condition": "succeeded"}]),
            lab.trial("never", depends=[{"trial": "bad", "condition": "succeeded"}]),
        ]
    )
    running = at_work(combu.start("run", "--wait"))
    wait_until(lambda: engine.running() == set(held) and engine.names() == {*held, "before"}, "what can start")
    lab.wait_for_state("running", *held)
    lab.wait_for_state("succeeded", "before")
    die(running)
    before = ids(engine)
    lab.let_go(*held)
    wait_until(lambda: engine.running() == set(), "their end")
    assert {name: lab.states()[name][0] for name in held} == dict.fromkeys(held, "running")

    done = combu("run", "--resume", code=1)
    assert "failed: worse: exit code 7" in done.stderr
    assert lab.states() == {
        "good": ("succeeded", 1, 0),
        "bad": ("failed", 1, 3),
        "worse": ("failed", 1, 7),
        "before": ("succeeded", 1, 0),
        "after": ("succeeded", 1, 0),
        "never": ("blocked", 1, None),
    }
    now = ids(engine)
    assert now == {**before, "after": now["after"]}
    assert {name: lab.ends(name) for name in now} == {name: [id[:12]] for name, id in now.items()}
    assert {name: container for (name, _), (container, _, _) in lab.attempts().items()} == now


def test_a_start_that_is_missing_in_the_record_is_not_repeated(combu, engine, lab, at_work):
    lab.hold("alive", "over")
    combu.write([lab.trial("alive"), lab.trial("over", 3)])
    running = at_work(combu.start("run", "--wait"))
    wait_until(lambda: engine.running() == {"alive", "over"}, "both trials")
    lab.wait_for_state("running", "alive", "over")
    die(running)
    before = ids(engine)
    # Simulates a kill of combu during the starts.
    lab.change("UPDATE attempts SET container = NULL, ran_at = NULL")
    assert {state for state, _, _ in lab.states().values()} == {"starting"}
    lab.let_go("over")
    wait_until(lambda: engine.running() == {"alive"}, "the end of one")

    running = at_work(combu.start("run", "--resume"))
    lab.wait_for_state("running", "alive")
    lab.wait_for_state("failed", "over")
    lab.let_go("alive")
    running.communicate(timeout=60)
    assert running.returncode == 1
    assert ids(engine) == before
    assert {name: len(lab.ends(name)) for name in before} == {"alive": 1, "over": 1}
    assert lab.states() == {"alive": ("succeeded", 1, 0), "over": ("failed", 1, 3)}
    assert lab.attempts() == {("alive", 1): (before["alive"], 0, "none"), ("over", 1): (before["over"], 3, "error")}


@pytest.mark.slow
def test_a_run_with_an_owner_is_not_resumed(combu, engine, lab, at_work):
    lab.hold("one")
    combu.write([lab.trial("one"), lab.trial("after", depends=[{"trial": "one", "condition": "succeeded"}])])
    running = at_work(combu.start("run", "--wait", "--run-id", "first"))
    wait_until(lambda: engine.running() == {"one"}, "the trial")
    before = ids(engine)
    for resume in (("--resume",), ("--resume", "first")):
        refused = combu("run", *resume, code=1)
        assert "run first" in refused.stderr and f"(process {running.pid})" in refused.stderr
    assert running.poll() is None
    assert ids(engine) == before and engine.running() == {"one"}
    lab.let_go("one")
    _, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    assert ids(engine)["one"] == before["one"]
    assert lab.states() == {"one": ("succeeded", 1, 0), "after": ("succeeded", 1, 0)}


def test_retry_refuses_a_run_with_an_owner(combu, engine, lab, at_work):
    """The owner drives the run, even if it has no more trials to start."""
    lab.hold("long")
    combu.write([lab.trial("bad", 3), lab.trial("long")])
    running = at_work(combu.start("run", "--wait", "--run-id", "first"))
    wait_until(lambda: engine.names() == {"bad", "long"}, "both trials")
    lab.wait_for_state("failed", "bad")
    before = ids(engine)
    refused = combu("retry", code=1, timeout=30)
    assert "run first" in refused.stderr and f"(process {running.pid})" in refused.stderr
    assert ids(engine) == before
    lab.let_go("long")
    running.communicate(timeout=60)
    assert running.returncode == 1
    assert lab.states() == {"bad": ("failed", 1, 3), "long": ("succeeded", 1, 0)}


@pytest.mark.parametrize("code", [0, 3])
def test_a_run_that_is_over_is_not_resumed(combu, engine, lab, code):
    combu.write([lab.trial("one"), lab.trial("two", code)])
    result = 1 if code else 0
    combu("run", "--wait", "--run-id", "first", code=result)
    before = ids(engine)
    counts = "1 succeeded, 1 failed" if code else "2 succeeded"
    for resume in (("--resume",), ("--resume", "first")):
        assert f"run first has ended: {counts}\n" in combu("run", *resume, code=result).stderr
    assert ids(engine) == before
    # Resume also starts nothing if the containers are removed.
    combu("kill")
    assert f"run first has ended: {counts}\n" in combu("run", "--resume", code=result).stderr
    assert engine.names() == set()


def test_resume_and_retry_refuse_a_run_that_is_not_in_the_record(combu, engine, lab):
    combu.write([lab.trial("one")])
    for command in (("run", "--resume"), ("retry",)):
        assert "the record has no run of this file" in combu(*command, code=1).stderr
    combu("run", "--wait", "--run-id", "first")
    before = ids(engine)
    for command in (("run", "--resume", "second"), ("retry", "--run", "second")):
        assert "run second: is not in the record" in combu(*command, code=1).stderr
    assert ids(engine) == before


def test_retry_runs_failed_trials_again(combu, engine, lab):
    """retry first starts the service that the failed trial needs, and then runs the trials that it blocked."""
    needs = [{"trial": "loader", "condition": "started"}]
    combu.write(
        [
            sleeper("loader", service=True, stop_grace="1s"),
            lab.trial("good", depends=needs),
            lab.trial("bad", 3, depends=needs),
            lab.trial("after", depends=[{"trial": "bad", "condition": "succeeded"}]),
        ]
    )
    combu("run", "--wait", code=1)
    assert engine.running() == set()
    before = ids(engine)
    assert set(before) == {"loader", "good", "bad"}

    lab.set_code("bad", 0)
    combu("retry")
    containers = engine.containers()
    assert attempts_by_label(engine) == {"loader": "2", "good": "1", "bad": "2", "after": "1"}
    assert containers["good"]["Id"] == before["good"]
    assert containers["bad"]["State"]["ExitCode"] == 0
    assert {name: lab.states()[name] for name in ("good", "bad", "after")} == {
        "good": ("succeeded", 1, 0),
        "bad": ("succeeded", 2, 0),
        "after": ("succeeded", 1, 0),
    }
    assert lab.states()["loader"][:2] == ("stopped", 2)
    assert lab.attempts()["bad", 1] == (before["bad"], 3, "error")
    assert lab.attempts()["bad", 2] == (containers["bad"]["Id"], 0, "none")
    times = {name: container["State"] for name, container in containers.items()}
    assert times["loader"]["StartedAt"] < times["bad"]["StartedAt"] < times["after"]["StartedAt"]
    assert times["bad"]["FinishedAt"] < times["loader"]["FinishedAt"]

    now = ids(engine)
    nothing = combu("retry")
    assert "nothing has failed" in nothing.stderr
    assert ids(engine) == now


def test_a_trial_that_fails_again_is_failed(combu, engine, lab):
    combu.write([lab.trial("bad", 3)])
    combu("run", "--wait", code=1)
    for attempt in ("2", "3"):
        lab.set_code("bad", 7)
        assert f"failed: bad: exit code 7, after {attempt} attempts" in combu("retry", "--failed", code=1).stderr
        assert attempts_by_label(engine) == {"bad": attempt}
    assert lab.states() == {"bad": ("failed", 3, 7)}
    assert "has ended: 1 failed\n" in combu("run", "--resume", code=1).stderr


def test_retry_runs_only_the_named_trials(combu, engine, lab):
    names = ("bad-1", "bad-2", "bad-3", "other", "good")
    combu.write([lab.trial(name, 0 if name == "good" else 3) for name in names])
    combu("run", "--wait", code=1)
    before = ids(engine)

    wrong = combu("retry", "bda-1", code=2)
    assert "bda-1" in wrong.stderr and "did you mean `bad-1`?" in wrong.stderr
    assert "matches no trial" in combu("retry", "nothing-*", code=2).stderr
    assert ids(engine) == before

    combu("retry", "bad-2", code=1)
    assert attempts_by_label(engine) == {"bad-1": "1", "bad-2": "2", "bad-3": "1", "other": "1", "good": "1"}
    combu("retry", "bad-*", code=1)
    assert attempts_by_label(engine) == {"bad-1": "2", "bad-2": "3", "bad-3": "2", "other": "1", "good": "1"}
    assert {name: ids(engine)[name] for name in ("other", "good")} == {name: before[name] for name in ("other", "good")}
    combu("retry", "good", code=1)
    assert attempts_by_label(engine)["good"] == "2" and ids(engine)["other"] == before["other"]
    combu("retry", "--failed", "good", code=1)
    assert attempts_by_label(engine) == {"bad-1": "3", "bad-2": "4", "bad-3": "3", "other": "2", "good": "3"}


def test_retry_refuses_a_running_trial(combu, engine, lab):
    lab.hold("one")
    combu.write([lab.trial("one"), lab.trial("bad", 3)])
    combu("run")
    wait_until(lambda: engine.running() == {"one"}, "the other's end")
    before = ids(engine)
    assert "one: still runs" in combu("retry", "one", code=1).stderr
    assert ids(engine) == before
    combu("retry", "bad")
    assert ids(engine)["one"] == before["one"]
    assert attempts_by_label(engine) == {"one": "1", "bad": "2"}


def test_retry_includes_trials_that_failed_without_an_owner(combu, engine, lab):
    lab.hold("good", "bad")
    combu.write([lab.trial("good"), lab.trial("bad", 3)])
    combu("run")
    before = ids(engine)
    assert engine.running() == {"good", "bad"}
    lab.let_go("good", "bad")
    wait_until(lambda: engine.running() == set(), "their end")
    assert lab.states() == {"good": ("running", 1, None), "bad": ("running", 1, None)}

    lab.set_code("bad", 0)
    combu("retry", "--wait")
    assert ids(engine)["good"] == before["good"] and ids(engine)["bad"] != before["bad"]
    assert attempts_by_label(engine) == {"good": "1", "bad": "2"}
    assert lab.states() == {"good": ("succeeded", 1, 0), "bad": ("succeeded", 2, 0)}
    assert lab.attempts() == {
        ("good", 1): (before["good"], 0, "none"),
        ("bad", 1): (before["bad"], 3, "error"),
        ("bad", 2): (ids(engine)["bad"], 0, "none"),
    }


def test_resume_records_the_end_of_an_interrupted_retry(combu, engine, lab, at_work):
    combu.write([lab.trial("bad", 3), lab.trial("after", depends=[{"trial": "bad", "condition": "succeeded"}])])
    combu("run", "--wait", code=1)
    assert lab.states() == {"bad": ("failed", 1, 3), "after": ("blocked", 1, None)}
    lab.hold("bad")
    lab.set_code("bad", 0)
    running = at_work(combu.start("retry"))
    wait_until(lambda: lab.attempts().get(("bad", 2), ("",))[0], "its second attempt")
    die(running)
    before = ids(engine)
    lab.let_go("bad")
    wait_until(lambda: engine.running() == set(), "its end")
    combu("run", "--resume")
    assert lab.states() == {"bad": ("succeeded", 2, 0), "after": ("succeeded", 1, 0)}
    assert ids(engine)["bad"] == before["bad"] and len(lab.ends("bad")) == 2
