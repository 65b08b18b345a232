"""Control characters in text from trials, engines and files never reach the terminal, with any command."""

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import threading
import time

import pytest
from conftest import COMBU, SIMULATED
from engine_server import EngineHandler, EngineServer

# C0, C1 and bidirectional controls. combu itself prints none of these sequences.
ONE_LINE = "EVIL\x9b2J\x85\u202e\u2066\u200f\u061c"
EVIL = ONE_LINE + "\x1b]\x07\x1b[2J\x08\r\x7f"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Sequences that combu writes to a terminal: colours, and erasing of the progress block.
OWN = re.compile(r"\x1b\[(?:[01]|3[1-6])m|\x1b\[\d+A\r\x1b\[J")


class Engine(EngineHandler):
    """An engine that answers each request with an error or with two containers, both full of control characters."""

    experiment = ""

    def do_GET(self):  # noqa: N802
        if "/containers/json" in self.path:
            self.send_json([self.container("ended", "exited", "Exited (3)"), self.container("alive", "running", EVIL)])
        elif "/version" in self.path:
            self.send_json({"Version": EVIL, "ApiVersion": "1.41", "Components": [{"Name": EVIL}]})
        elif "/info" in self.path:
            self.send_json({"NCPU": 4, "MemTotal": 8 << 30, "Name": EVIL, "Warnings": [EVIL]})
        elif "/_ping" in self.path:
            self.send_json(EVIL)
        else:
            self.send_json({"message": EVIL}, 500)

    do_HEAD = do_POST = do_DELETE = do_PUT = do_GET  # noqa: N815

    def container(self, name, state, status):
        labels = {"combu.experiment": self.experiment, "combu.file": EVIL, "combu.run": "strange", "combu.trial": name + EVIL,
                  "combu.attempt": "1", "combu.service": "false", "combu.gpus": EVIL}
        return {"Id": "0" * 64, "Names": ["/" + name + EVIL], "Image": EVIL, "State": state, "Status": status, "Created": 1,
                "Labels": labels}


class Swept:
    """Runs commands with their output in a pipe and on a terminal, and checks everything that they print."""

    def __init__(self, folder, home):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith("DOCKER_") and name not in ("JSONNET_PATH", "NO_COLOR")}
        self.environment.update(HOME=str(home), TERM="xterm", LANG="C.UTF-8")
        self.commands = set()
        self.shown = {}  # by command: everything that it printed
        self.on_text = None  # (text, action): executes the action when the text appears on the terminal

    def __call__(self, *arguments, code=None, raw_in_pipe=False, keeps="", ways=("pipe", "terminal")):
        """`raw_in_pipe`: the output in a pipe is not checked, because it has the original bytes. `keeps`: controls that are
        allowed on a terminal."""
        for way in ways:
            returned, text = self.in_pipe(arguments) if way == "pipe" else self.on_terminal(arguments)
            assert code is None or returned == code, (arguments, way, text)
            if way == "pipe" and raw_in_pipe:
                continue
            text = text.decode()  # must be valid UTF-8: a terminal may take an invalid byte as a control
            if way == "terminal":
                text = OWN.sub("", text.replace("\r\n", "\n"))
            assert not set(CONTROLS.findall(text)) - set(keeps), (arguments, way, text)
            command = next(word for word in arguments if word in self.commands)
            self.shown[command] = self.shown.get(command, "") + text

    def in_pipe(self, arguments):
        done = subprocess.run([COMBU, *arguments], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return done.returncode, done.stdout

    def on_terminal(self, arguments):
        leader, follower = os.openpty()
        with subprocess.Popen([COMBU, *arguments], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                              stdout=follower, stderr=follower) as process:
            os.close(follower)
            text = b""
            with contextlib.suppress(OSError):  # EIO: no other process has the terminal open
                while piece := os.read(leader, 65536):
                    text += piece
                    if self.on_text and self.on_text[0] in text:
                        self.on_text[1]()
                        self.on_text = None
            os.close(leader)
            return process.wait(60), text


# Columns that combu itself interprets: keys, enumerations, JSON, and values by which files and runs are found. The columns of
# one set are changed together, each set in a separate sweep, because a command may end at the first value that it cannot read.
NO_FREE_TEXT = [
    {"runs.id"},
    {"runs.file", "runs.folder", "runs.arguments", "runs.address", "runs.results"},
    {"runs.options"},
    {"texts.source", "texts.imports", "texts.given_values"},
    {"texts.evaluated"},
    {"trials.name"},
    {"trials.params"},
    {"trials.over", "trials.inputs"},
    {"attempts.cause", "attempts.doom", "attempts.leaving"},
    {"working_trees.untracked", "working_trees.left_out"},
    {"recollections.hash", "recollections.parts", "recollections.equal_run", "recollections.equal_trial"},
]
# Columns in the telemetry databases.
TELEMETRY_TEXT = [{"attempts.trial"}, {"series.metric"}]


def texts_in(database):
    """Returns the columns that hold text, as TABLE.COLUMN."""
    with contextlib.closing(sqlite3.connect(database, timeout=20)) as opened:
        tables = [name for name, in opened.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
        return {f"{table}.{column}" for table in tables
                for column, kind in opened.execute("SELECT name, type FROM pragma_table_info(?)", (table,)) if kind == "TEXT"}


def put_into(database, columns):
    with contextlib.closing(sqlite3.connect(database, timeout=20)) as opened:
        for table, column in (name.split(".") for name in sorted(columns)):
            # Also adds a byte that is not valid UTF-8.
            opened.execute(f"UPDATE {table} SET {column} = CAST(CAST({column} || ? AS BLOB) || x'9b' AS TEXT) "
                           f"WHERE {column} IS NOT NULL", (EVIL,))
        opened.commit()


def put_into_every_free_text(record):
    assert (columns := texts_in(record)) > (others := set().union(*NO_FREE_TEXT))
    put_into(record, columns - others)


def experiment(**more):
    """Four trials: one succeeds, one fails, one is blocked, and one runs for a long time."""
    trial = {"image": "lab/x", "env": {"E" + EVIL: EVIL}, "labels": {"l" + EVIL: EVIL}, "workdir": "/" + EVIL, "user": "u" + ONE_LINE,
             "metrics": "json", "outputs": ["/out/" + ONE_LINE]}
    line = json.dumps({"loss" + EVIL: 1, "step" + EVIL: 2})
    trials = [
        {**trial, "name": "good", "params": {"p" + EVIL: EVIL, "lr": 1}, "inputs": [{"from": "input" + ONE_LINE, "to": "/in" + ONE_LINE}],
         "cmd": ["sh", "-c", f"echo '{line}'; echo {ONE_LINE}\x1b[2J; echo {EVIL} >&2; echo x > /out/{ONE_LINE}"]},
        {**trial, "name": "other", "params": {"p" + EVIL: EVIL + "2", "lr": 2}, "cmd": ["sh", "-c", f"echo '{line}'; echo x > /out/{ONE_LINE}"]},
        {**trial, "name": "bad", "cmd": ["sh", "-c", f"echo {EVIL}; exit 3"]},
        {**trial, "name": "blocked", "depends": {"bad": {"condition": "succeeded"}}},
    ]
    return json.dumps({"experiment": ONE_LINE, "trials": trials, **more})


@pytest.fixture
def swept(tmp_path):
    folder = tmp_path / EVIL
    folder.mkdir()
    sweep = Swept(folder, tmp_path)
    git = ["git", "-c", "user.name=" + EVIL, "-c", "user.email=" + EVIL, "-c", "core.quotePath=false"]
    file = folder / "experiment.jsonnet"
    file.write_text("[]")
    for arguments in (["init", "-q", "-b", "b" + ONE_LINE.replace("[", "")], ["add", "."], ["commit", "-q", "-m", EVIL]):
        subprocess.run(git + arguments, cwd=folder, check=True, env=sweep.environment)
    subprocess.run(["git", "config", "core.quotePath", "false"], cwd=folder, check=True)
    (folder / ("input" + ONE_LINE)).write_text("x")
    (folder / ("untracked" + EVIL)).write_text("x")
    file.write_text(f"local text = {json.dumps(EVIL)};\n// {EVIL}\nstd.trace(text, {experiment()})")
    return sweep


def commands_in_help(sweep):
    lines = sweep.in_pipe(["--help"])[1].decode().split("Subcommands:\n")[1].split("\n\n")[0]
    return set(re.findall(r"^  (\w+) ", lines, re.MULTILINE)) | {"complete"}


@contextlib.contextmanager
def hostile_engine(tmp_path):
    address = tmp_path / "engine.sock"
    handler = type("Named", (Engine,), {"experiment": ONE_LINE})
    with EngineServer(str(address), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"unix://{address}"
        server.shutdown()


def test_no_command_prints_control_characters(swept, tmp_path):
    known = commands_in_help(swept)
    swept.commands = known
    run_a = ["--engine", SIMULATED, "-f", "experiment.jsonnet"]
    evil = os.fsdecode(EVIL.encode() + b"\x9b")

    # Control characters in the file.
    for form, ways in (("tty", ["terminal"]), ("plain", ["pipe"]), ("json", ["terminal"]), ("quiet", ["pipe"])):
        swept("--progress", form, *run_a, "run", "--wait", code=1, ways=ways)
    swept(*run_a, "run", "--run-id", "one", "--trace", "trace", code=1, ways=["pipe"])
    assert not CONTROLS.findall((swept.folder / "trace").read_text())
    swept(*run_a, "validate", code=0)
    for more in ([], ["--json"]):
        swept(*run_a, "plan", *more, code=0)
    swept(*run_a, "init", evil)
    swept("init", evil, code=2)
    swept("init", "--name", evil, "new", code=2)
    (swept.folder / "wrong.jsonnet").write_text(json.dumps([{"name": EVIL, "image": EVIL, EVIL: EVIL, "env_file": EVIL}]))
    (swept.folder / "error.jsonnet").write_text(f"/* {EVIL} */ local x = error {json.dumps(EVIL)}; x")
    (swept.folder / "syntax.jsonnet").write_text(f"[ {EVIL} ")
    for name in ("wrong", "error", "syntax", "absent" + EVIL):
        swept("-f", f"{name}.jsonnet", "validate", code=2)

    # Control characters in the record.
    put_into_every_free_text(tmp_path / ".local/state/combu/record.sqlite")
    of_run = ["--engine", "simulated:"]
    for more in ([], ["--json"], ["--all"], ["--run", "one"], ["--run", "one", "--json"], ["--run", "one", "good"],
                 ["--experiment", ONE_LINE], ["--where", evil + "=1", "--run", "one"]):
        swept(*of_run, "ps", *more)
    for trial in ("good", "bad"):
        for command in (["why"], ["events"], ["times"], ["show"], ["show", "--json"], ["show", "--reproduce"]):
            swept(*of_run, *command, "--run", "one", trial, code=0)
        swept(*of_run, "logs", "--run", "one", trial, code=0, raw_in_pipe=True, keeps="\r")
        swept(*of_run, "logs", "--run", "one", trial, "--json", code=0, ways=["terminal"])
    for command in ("why", "events", "times", "show", "logs"):
        swept(*of_run, command, "--run", "one", evil, ways=["terminal"])
    swept(*of_run, "why", "--run", "one", code=0)
    swept(*of_run, "logs", "--run", "one", raw_in_pipe=True, keeps="\r")
    for more in (["--source"], ["--diff"]):
        swept(*of_run, "show", "--run", "one", *more, code=0, raw_in_pipe=True)
    swept(*of_run, "show", "--run", "one", "--evaluated", code=0)
    for command in ("events", "times", "results"):
        where = ["one"] if command == "results" else ["--run", "one"]
        for more in ([], ["--json"]):
            swept(*of_run, command, *where, *more, code=0)
    for more in ([], ["--json"], ["--over", "p" + EVIL], ["--metric", "loss" + EVIL]):
        swept(*of_run, "compare", "one", *more)
    metric = json.loads(swept.in_pipe([*of_run, "results", "one", "--json"])[1].splitlines()[0])
    metric = next(name for name in metric["metrics"] if name.startswith("loss"))
    for more in ([], ["--by", "p" + EVIL], ["--x", "p" + EVIL], ["--x", "lr"]):
        swept(*of_run, "plot", metric, "--run", "one", *more, code=0)
    swept(*of_run, "plot", evil, "--run", "one")
    for more in ([], ["--points"]):
        swept(*of_run, "export", "csv", "one", *more, code=0, raw_in_pipe=True)
        swept(*of_run, "export", "json", "one", *more, code=0)
    swept(*of_run, "export", "csv", "one", "-o", f"{evil}/absent/x.csv")
    for kind in ("trials", "runs", "experiments", "columns", "settings", "only", "ps_conditions", "conditions"):
        swept(*of_run, "complete", "--run", "one", kind, ways=["pipe"])

    # Control characters in unknown options, commands and names.
    for command in sorted(known):
        swept(command, "--" + evil, code=2, ways=["pipe"])
    swept("--engine", evil, "ps")
    swept("help", evil, code=2)
    for command in ("version", "schema"):
        swept(command, code=0)
    for shell in ("bash", "zsh", "fish"):
        swept("completion", shell, code=0)

    # Control characters in answers of the engine.
    with hostile_engine(tmp_path) as engine:
        for command in (["ps"], ["ps", "--json"], ["wait"], ["wait", "--json"], ["stop"], ["stop", "--json"], ["logs"], ["kill"]):
            swept("--engine", engine, *command, *([] if command[0] == "ps" else ["--experiment", ONE_LINE]))
        for command in (["logs", "ended" + EVIL], ["stop", "alive" + EVIL], ["wait", evil], ["run", "experiment.jsonnet"]):
            swept("--engine", engine, *command)

        for more in ([], ["--json"]):
            swept("--engine", engine, "doctor", *more)

    # Control characters in a run that is in progress.
    (swept.folder / "long.jsonnet").write_text(json.dumps({"experiment": ONE_LINE, "trials": [
        {"name": "long", "image": "lab/x", "params": {"p" + EVIL: EVIL}, "cmd": "sleep 1000"},
        {"name": "bad", "image": "lab/x", "cmd": ["sh", "-c", f"echo {EVIL}; exit 3"]}]}))
    long = ["-f", "long.jsonnet"]
    swept("--engine", "simulated:?speed=1", *long, "run", "--wait", "--detach", "--run-id", "long", code=0, ways=["pipe"])
    log = tmp_path / ".local/state/combu/logs/long.log"
    end = time.monotonic() + 30
    while "bad" not in log.read_text():
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.02)
    for command in (["pause"], ["set", "parallel=3"], ["why", "--run", "long"], ["why", "--run", "long", "long"], ["apply"],
                    ["ps", "--run", "long"]):
        swept(*of_run, *long, *command)
    swept(*of_run, *long, "set", evil)
    swept(*of_run, *long, "unpause", code=0)
    process = json.loads(next(text for lock in (tmp_path / ".local/state/combu/locks").iterdir()
                              if '"long"' in (text := lock.read_text())))["process"]
    swept.on_text = (b"running long", lambda: os.kill(process, signal.SIGTERM))
    swept(*of_run, "attach", "long", ways=["terminal"])
    assert swept.on_text is None
    swept(*of_run, "attach", "long")
    assert not CONTROLS.findall(log.read_text())
    swept("--engine", "simulated:?speed=0", *long, "retry", "--failed")
    swept(*of_run, "rm", "one", evil)
    swept(*of_run, "prune", "--before", "2100-01-01")

    assert set(swept.shown) == known, "a command of which the sweep does not know"
    without_text = {"complete", "completion", "schema", "version"}
    assert {command for command, text in swept.shown.items() if "EVIL" not in text} <= without_text


@pytest.mark.parametrize("database", ["record", "telemetry/one"])
def test_no_command_prints_control_characters_of_a_damaged_database(swept, tmp_path, database):
    swept.commands = commands_in_help(swept)
    swept("--engine", SIMULATED, "-f", "experiment.jsonnet", "run", "--wait", "--run-id", "one", code=1, ways=["pipe"])
    path = tmp_path / f".local/state/combu/{database}.sqlite"
    whole = path.read_bytes()
    commands = [["why", "--run", "one", "good"], ["events", "--run", "one"], ["show", "--run", "one", "good"], ["results", "one"],
                ["show", "--run", "one", "--reproduce", "good"], ["compare", "one"]]
    if database == "record":
        commands += [["ps", "--all"], ["ps", "--json"], ["ps", "--run", "one"]]
    else:
        assert texts_in(path) == set().union(*TELEMETRY_TEXT)
        commands += [["logs", "--run", "one", "good", "--json"], ["export", "json", "one"]]
    for columns in NO_FREE_TEXT if database == "record" else TELEMETRY_TEXT:
        path.write_bytes(whole)
        put_into(path, columns)
        for command in commands:
            swept("--engine", "simulated:", *command, ways=["pipe"])
    assert {command[0] for command in commands if "EVIL" not in swept.shown[command[0]]} <= {"events", "why"}
