"""Tests of whole commands with the simulated engine."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import sqlite3
import struct
import subprocess
import termios
import fcntl
import time

import pytest
from conftest import COMBU, SIMULATED, SLOW


def test_run(combu, ladder):
    result = combu("-f", ladder, "--engine", SIMULATED, "run", "--run-id", "r1")
    assert (result.returncode, result.stdout) == (0, "")
    lines = result.stderr.splitlines()
    assert lines[:3] == ["checking…", "preparing images and networks…", "run r1: 4 trials"]
    assert re.fullmatch(r"run r1: 4 of 4 trials started in .*", lines[3])
    assert len(lines) == 4


def test_run_and_wait(combu, ladder):
    result = combu("-f", ladder, "--engine", SIMULATED, "run", "--wait", "--run-id", "r1")
    assert (result.returncode, result.stdout) == (0, "")
    assert re.search(r"^run r1 has ended: 4 succeeded in ", result.stderr, re.M)


def test_a_trial_that_fails(combu, write):
    write("""[
      { name: "good", image: "x", cmd: "true" },
      { name: "bad", image: "x", cmd: "exit 3" },
      { name: "after", image: "x", depends: [{ trial: "bad", condition: "succeeded" }] },
    ]""")
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--wait")
    assert result.returncode == 1
    assert result.stderr.count("failed: bad: exit code 3\n") == 2  # when it failed, and at the end
    assert "blocked: after: " in result.stderr
    assert "1 succeeded, 1 failed, 1 blocked" in result.stderr


def test_quiet_tells_only_what_failed(combu, write):
    write('[{ name: "bad", image: "x", cmd: "exit 3" }, { name: "good", image: "x", cmd: "true" }]')
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "--progress", "quiet", "run", "--wait")
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "failed: bad: exit code 3\n")


def test_an_image_that_cannot_be_had(combu, write):
    write('[{ name: "aa", image: "missing-1" }, { name: "bb", image: "missing-2" }, { name: "cc", image: "x" }]')
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run")
    assert result.returncode == 1
    assert "missing-1" in result.stderr and "missing-2" in result.stderr
    assert result.stderr.endswith("nothing was started\n")
    assert "started in" not in result.stderr


def test_progress_as_json(combu, ladder):
    result = combu("-f", ladder, "--engine", SIMULATED, "--progress", "json", "run", "--wait", "--run-id", "r1")
    events = [json.loads(line) for line in result.stderr.splitlines()]
    begin = next(event for event in events if event["event"] == "begin")
    assert (begin["run"], begin["trials"], begin["experiment"]) == ("r1", 4, str(ladder))
    facts = [(event["trial"], event["state"]) for event in events if event["event"] == "fact"]
    assert ("solver-2", "running") in facts and ("solver-2", "succeeded") in facts
    assert facts.index(("loader", "running")) < facts.index(("solver-1", "running"))
    last = [event for event in events if event["event"] == "snapshot"][-1]
    assert last["counts"]["succeeded"] == 4


def test_starts_one_after_another(combu, ladder, tmp_path):
    combu("-f", ladder, "--engine", SIMULATED, "--trace", "trace", "run", "-p", "false")
    starts = [line for line in (tmp_path / "trace").read_text().splitlines() if "start" in line.split()]
    assert len(starts) == 4


@pytest.mark.parametrize("given, most", [(["-p", "2"], 2), (["--parallel=0"], 4), ([], 3), (["-p", "false"], 3), (["-p=false"], 3)])
def test_parallel_takes_the_place_of_the_files(combu, write, given, most):
    trials = [{"name": f"t{i}", "image": "x", "cmd": "sleep 100"} for i in range(4)]
    file = write(json.dumps({"parallel": 3, "trials": trials}))
    told = combu("-f", file, "--engine", "simulated:?speed=1000&start=0", "--progress", "json", "run", "--wait", *given).stderr
    alive, seen = set(), 0
    for event in map(json.loads, told.splitlines()):
        if event["event"] == "fact":
            (alive.add if event["state"] in ("starting", "running") else alive.discard)(event["trial"])
            seen = max(seen, len(alive))
    assert seen == most


def test_a_run_keeps_its_parallel(combu, write, tmp_path):
    file = write(json.dumps({"parallel": 3, "trials": [{"name": "tt", "image": "x", "cmd": "exit 3"}]}))
    combu("-f", file, "--engine", SIMULATED, "run", "--wait", "-p", "2")
    combu("-f", file, "--engine", SIMULATED, "retry")
    combu("-f", file, "--engine", SIMULATED, "apply", "--failed")
    with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite")) as database:
        (options,) = database.execute("SELECT options FROM runs").fetchone()
    assert json.loads(options)["parallel"] == 2


HINT = r"\d+ attempts ran for .* in the median, and each start of a container took .*; `worker: true` would save about "


def run_short_trials(combu, write, engine, **fields):
    """Runs 200 trials, and returns the messages."""
    write(json.dumps([{"name": f"t{i}", "image": "x", "cmd": "true", **fields} for i in range(200)]))
    done = combu("--engine", engine, "run", "--wait", "--run-id", "r1")
    assert "200 succeeded" in done.stderr
    return done.stderr


def test_hints_after_many_short_trials(combu, write, record):
    assert re.search(f"^hint: {HINT}", run_short_trials(combu, write, SLOW), re.M)
    assert re.search(f"^hint: by run r1, {HINT}", combu("plan").stderr, re.M)
    # The same run on a real engine.
    record("UPDATE runs SET is_simulated = 0, address = 'unix:///x'")
    planned, on_cluster = combu("plan"), combu("--engine", "kubernetes", "plan")
    assert re.search(f"^hint: by run r1, {HINT}", planned.stderr, re.M)
    assert (on_cluster.returncode, on_cluster.stdout, on_cluster.stderr) == (0, planned.stdout, planned.stderr)


@pytest.mark.parametrize("engine, fields", [(f"{SLOW}&places=1", {}), (SLOW, {"worker": True})])
def test_no_hint_about_workers(combu, write, engine, fields):
    """An engine without exec() has no workers, and the trials may have them already."""
    assert "hint" not in run_short_trials(combu, write, engine, **fields)


FILE = '[{ name: "aa", image: "x", cmd: "true" }]'


def test_the_file_may_be_an_argument(combu, write):
    write(FILE, "other.jsonnet")
    assert combu("validate", "other.jsonnet").returncode == 0
    assert combu("validate", "run").stderr == "run: no such file; name the experiment's file with -f\n"
    assert "aa" in combu("plan", "other.jsonnet").stdout
    assert combu("--engine", SIMULATED, "run", "--wait", "other.jsonnet", "--run-id", "r1").returncode == 0
    assert "run r1 has ended" in combu("--engine", SIMULATED, "run", "other.jsonnet", "--resume").stderr
    assert "run r1 has ended" in combu("--engine", SIMULATED, "run", "--resume", "r1", "other.jsonnet").stderr


@pytest.mark.parametrize("name", ["experiment.jsonnet", "docker/experiment.jsonnet"])
def test_without_a_file_the_folders_own_is_meant(combu, write, name):
    if name != "experiment.jsonnet":
        write("not read", "docker/other.jsonnet")
    write(FILE, name)
    if name == "experiment.jsonnet":
        write("] an error", "docker/experiment.jsonnet")
    assert combu("validate").returncode == 0
    assert "aa" in combu("plan").stdout
    assert combu("--engine", SIMULATED, "run", "--wait", "--run-id", "r1").returncode == 0
    for command in ["results", "events", "times", "show aa", "why aa", "logs", "retry", "apply", "export csv", "attach", "wait", "stop", "kill"]:
        done = combu("--engine", SIMULATED, *command.split())
        assert done.returncode == 0, (command, done.stderr)
    # Without a file, these commands show all runs.
    write(FILE, "second.jsonnet")
    assert combu("-f", "second.jsonnet", "--engine", SIMULATED, "run", "--wait", "--run-id", "r2").returncode == 0
    assert {json.loads(line)["run"] for line in combu("--engine", SIMULATED, "ps", "--json").stdout.splitlines()} == {"r1", "r2"}
    assert combu("prune", "--before", "0s").returncode == 0
    assert combu("--engine", SIMULATED, "ps", "--json").stdout == ""


def test_host_folders_are_made_and_named(combu, write, tmp_path):
    write('[{ name: "aa", image: "x", volumes: ["./data/:/data"] }]')
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run")
    assert result.returncode == 0
    assert f"created the folder {tmp_path}/data\n" in result.stderr
    assert (tmp_path / "data").is_dir()


def test_a_folder_that_can_only_be_read_must_be_there(combu, write, tmp_path):
    write('[{ name: "aa", image: "x", volumes: ["./data:/data:ro"] }]')
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run")
    assert result.returncode == 2
    assert f"[0].volumes[0]: {tmp_path}/data does not exist, and is mounted read-only: " in result.stderr
    assert result.stderr.endswith("nothing was started\n")
    assert not (tmp_path / "data").exists()


# ---- Commands on existing containers; each process has a new simulated engine, so there are none

def test_kill_of_nothing_is_success(combu):
    for _ in range(2):
        result = combu("-f", "nowhere.jsonnet", "--engine", SIMULATED, "kill")
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "nothing to remove\n")
    assert combu("--experiment", "x", "--engine", SIMULATED, "kill").returncode == 2  # an option of the command only
    assert combu("--engine", SIMULATED, "kill", "--experiment", "x").returncode == 0


def test_ps_of_nothing(combu):
    result = combu("--engine", SIMULATED, "ps")
    assert (result.returncode, result.stdout) == (0, "RUN  EXPERIMENT  BEGAN  ENDED  STATE  TRIALS  ENGINE\n")
    result = combu("--engine", SIMULATED, "ps", "--json")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_wait_and_stop_of_nothing(combu):
    result = combu("--engine", SIMULATED, "-f", "x", "wait")
    assert (result.returncode, result.stderr) == (0, "nothing to wait for\n")
    result = combu("--engine", SIMULATED, "-f", "x", "stop")
    assert (result.returncode, result.stderr) == (0, "nothing runs\n")


# ---- An engine that cannot be reached

@pytest.mark.parametrize("command", [["run"], ["kill"], ["ps"], ["logs", "a"], ["wait"], ["stop"]])
def test_no_engine(combu, ladder, tmp_path, command):
    address = f"unix://{tmp_path}/no.sock"
    for where in ({"env": {"DOCKER_HOST": address}}, {}):
        arguments = ["--engine", address] if not where else []
        result = combu("-f", ladder, *arguments, *command, **where)
        assert result.returncode == 3
        assert result.stderr.splitlines()[-1].startswith(
            f"combu: no engine at {address} (from {'DOCKER_HOST' if where else '--engine'}): ")
        assert "--engine or DOCKER_HOST" in result.stderr


# ---- Signals and the terminal

LONG = "simulated:?speed=1&start=0.01&trial=60"


class Terminal:
    """Runs combu in a pseudo-terminal."""

    def __init__(self, arguments, rows, columns, cwd, env=None):
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(cwd)
            os.execve(COMBU, [COMBU, *arguments], {**os.environ, "HOME": str(cwd), "TERM": "xterm", **(env or {})})

    def read_until(self, pattern, seconds=30):
        """Reads until `pattern` matches; b"" reads to the end."""
        end = time.monotonic() + seconds
        while not (pattern and re.search(pattern, self.text)):
            assert time.monotonic() < end, self.text
            if not select.select([self.fd], [], [], 0.2)[0]:
                continue
            try:
                piece = os.read(self.fd, 65536)
            except OSError:  # EIO: the other side was closed
                piece = b""
            if not piece:
                assert not pattern, self.text
                break
            self.text += piece
        return self.text

    def exit_code(self):
        self.read_until(b"")
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def shown(text):
    """Returns the lines without colours and cursor movements."""
    return re.sub(rb"\x1b\[[0-9;]*[A-Za-z]", b"", text).replace(b"\r", b"").decode().splitlines()


def test_the_block_on_a_terminal(ladder, tmp_path):
    terminal = Terminal(["-f", str(ladder), "--engine", "simulated:?speed=1&start=0.3", "run", "--wait"], 24, 80, tmp_path)
    assert terminal.exit_code() == 0
    assert b"of 4 started" in terminal.text
    assert re.search(rb"\x1b\[\d+A\r\x1b\[J", terminal.text)
    assert b"\x1b[?25l" not in terminal.text  # the cursor is never hidden


def test_a_small_terminal(ladder, tmp_path):
    terminal = Terminal(["-f", str(ladder), "--engine", "simulated:?speed=1&start=0.3", "run", "--wait"], 4, 20, tmp_path)
    terminal.read_until(b"started")
    assert terminal.exit_code() == 0
    assert all(int(count) <= 3 for count in re.findall(rb"\x1b\[(\d+)A", terminal.text))


def test_a_dumb_terminal_gets_plain_lines(ladder, tmp_path):
    terminal = Terminal(["-f", str(ladder), "--engine", SIMULATED, "run"], 24, 80, tmp_path, {"TERM": "dumb"})
    assert terminal.exit_code() == 0
    assert b"\x1b" not in terminal.text


MANY = """
[{ name: "a-trial-with-a-long-name-%03d" % i, image: "lab/x", cmd: "sh -c 'exit %d'" % (if i < 3 then 3 else 0),
   params: { text: "a param of many words, which takes more than a third of a line " + i, lr: i / 1000.0 } } for i in std.range(1, 120)]
"""


@pytest.mark.parametrize("command, more", [
    (["ps"], "… and 19 more; --limit 0 shows all"),
    (["results"], "… and 20 more; --limit 0 shows all"),
    (["events"], "more; --limit 0 shows all"),
    (["times", "a-trial-with-a-long-name-001"], None),
])
def test_tables_fit_the_terminal_and_are_whole_in_a_pipe(combu, write, tmp_path, command, more):
    path = write(MANY)
    combu("-f", path, "--engine", SIMULATED, "run", "--wait", "--run-id", "mine")
    terminal = Terminal(["-f", str(path), "--engine", SIMULATED, *command], 24, 80, tmp_path)
    assert terminal.exit_code() == 0
    lines = shown(terminal.text)
    assert [line for line in lines if len(line) > 80] == []
    piped = combu("-f", path, "--engine", SIMULATED, *command).stdout
    assert "--limit" not in piped and piped.count("a-trial-with-a-long-name-001") >= 1
    if more:
        assert lines[-1].endswith(more) and len(lines) < 110
        assert piped.count("\n") > 120
        whole = Terminal(["-f", str(path), "--engine", SIMULATED, *command, "--limit", "0"], 24, 80, tmp_path)
        assert whole.exit_code() == 0
        folded = 1 if command == ["ps"] else 0  # `ps` shows the two equal failures as one row
        assert len(shown(whole.text)) == piped.count("\n") - folded


def test_compare_prints_at_most_100_rows_on_a_terminal(combu, write, tmp_path):
    path = write(MANY)
    combu("-f", path, "--engine", SIMULATED, "run", "--wait", "--run-id", "mine")
    terminal = Terminal(["-f", str(path), "--engine", SIMULATED, "compare", "--metric", "seconds"], 24, 80, tmp_path)
    assert terminal.exit_code() == 0
    lines = shown(terminal.text)
    assert [line for line in lines if len(line) > 80] == []
    assert "… and 18 more; --limit 0 shows all" in lines and len(lines) < 110


def test_the_list_of_runs_fits_the_terminal(combu, write, tmp_path):
    path = write(FILE, "a-folder-with-a-long-name/and-another-folder/experiment.jsonnet")
    combu("-f", path, "--engine", SIMULATED, "run", "--wait", "--run-id", "mine")
    terminal = Terminal(["--engine", SIMULATED, "ps"], 24, 80, tmp_path)
    assert terminal.exit_code() == 0
    lines = shown(terminal.text)
    assert [line for line in lines if len(line) > 80] == []
    assert lines[1].startswith("mine ") and " ended" in lines[1]
    assert str(path) in combu("--engine", SIMULATED, "ps").stdout


def test_a_limit_holds_also_in_a_pipe_and_for_json(combu, write):
    path = write(MANY)
    for run in ("r1", "r2", "r3"):
        combu("-f", path, "--engine", SIMULATED, "run", "--wait", "--run-id", run)

    def lines(*arguments):
        return combu("-f", path, "--engine", SIMULATED, *arguments).stdout.splitlines()

    for command, heads in ((["ps"], 2), (["results"], 2), (["events"], 0), (["results", "--sort", "lr"], 2)):
        limited = lines(*command, "--limit", "3")
        assert len(limited) == heads + 3 + 1 and limited[-1].startswith("… and ")
        assert limited[-2].split() == lines(*command)[heads + 2].split()
        objects = lines(*command, "--limit", "3", "--json")
        assert len(objects) == 3 and objects == lines(*command, "--json")[:3]
        assert len(lines(*command, "--json", "--limit", "0")) >= 120
    assert lines("ps", "--limit", "1")[-1] == "… and 119 more; --limit 0 shows all"
    assert len(lines("times", "--json", "--limit", "7")) == 7
    assert "… and 115 more; --limit 0 shows all" in lines("compare", "--metric", "seconds", "--limit", "3")
    assert len(lines("compare", "--metric", "seconds", "--limit", "3", "--json")) == 3
    runs = combu("--engine", SIMULATED, "ps", "--limit", "2")
    assert runs.stdout.count("\n") == 3 and runs.stderr == "1 older run: --limit 0 shows all\n"
    assert combu("--engine", SIMULATED, "ps", "--all").stdout.count("\n") == 4
    assert "--limit: must be a number of rows, not many" in combu("-f", path, "ps", "--limit", "many").stderr


def test_no_color(write, tmp_path):
    path = write('[{ name: "bad", image: "x", cmd: "exit 3" }]')
    arguments = ["-f", str(path), "--engine", SIMULATED, "run", "--wait"]
    coloured = Terminal(arguments, 24, 80, tmp_path)
    assert coloured.exit_code() == 1
    assert b"\x1b[31m" in coloured.text
    plain = Terminal(arguments, 24, 80, tmp_path, {"NO_COLOR": "1"})
    assert plain.exit_code() == 1
    assert b"\x1b[31m" not in plain.text
    assert "failed: bad: exit code 3" in shown(plain.text)


def test_ctrl_c_while_waiting(write, tmp_path):
    path = write('[{ name: "t-%d" % i, image: "x" } for i in std.range(1, 5)]')
    terminal = Terminal(["-f", str(path), "--engine", LONG, "run", "--wait"], 24, 80, tmp_path)
    terminal.read_until(rb"5 of 5 started")
    os.write(terminal.fd, b"\x03")
    assert terminal.exit_code() == 130
    lines = shown(terminal.text)
    assert any("Ctrl-C again exits at once" in line for line in lines)
    assert lines[-1] == "interrupted: 5 of 5 trials were started"


def test_a_second_ctrl_c_leaves_at_once(write, tmp_path):
    path = write('[{ name: "t-%d" % i, image: "x" } for i in std.range(1, 50)]')
    terminal = Terminal(["-f", str(path), "--engine", "simulated:?speed=1&start=30", "run"], 24, 80, tmp_path)
    terminal.read_until(rb"8 starting")
    os.write(terminal.fd, b"\x03")
    terminal.read_until(rb"Ctrl-C again")
    os.write(terminal.fd, b"\x03")
    assert terminal.exit_code() == 130


def test_sigterm(ladder, tmp_path):
    process = subprocess.Popen([COMBU, "-f", str(ladder), "--engine", LONG, "run", "--wait"], cwd=tmp_path,
                               env={**os.environ, "HOME": str(tmp_path)},
                               stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        if line.startswith("run "):
            break
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 143
    assert "interrupted: " in rest


PARAMS = """
[{ name: "prepare", image: "x", cmd: "true" }] +
[{ name: "fit-%d" % i, image: "x", cmd: "true", params: { lr: 0.1 / i, mode: if i % 2 == 0 then "fast" else "exact" },
   depends: [{ trial: "prepare", condition: "succeeded" }] } for i in std.range(1, 6)]
"""


@pytest.mark.parametrize(
    "only, started",
    [
        (["fit-2"], {"prepare", "fit-2"}),
        (["fit-[12]", "--only", "fit-6"], {"prepare", "fit-1", "fit-2", "fit-6"}),
        (["lr<0.03 && mode=fast"], {"prepare", "fit-4", "fit-6"}),
        (["mode=f*"], {"prepare", "fit-2", "fit-4", "fit-6"}),
        (["trial=prepare"], {"prepare"}),
    ],
)
def test_a_part_of_an_experiment_with_what_it_depends_on(combu, write, only, started):
    write(PARAMS)
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "--progress", "json", "run", "--wait", "--only", *only)
    assert result.returncode == 0, result.stderr
    facts = [json.loads(line) for line in result.stderr.splitlines()]
    assert {fact["trial"] for fact in facts if fact["event"] == "fact"} == started


@pytest.mark.parametrize(
    "only, words",
    [
        ("fitt-2", "--only fitt-2: matches no trial: did you mean `fit-2`?"),
        ("lr<", "\"lr<\" is not a condition: write NAME=VALUE"),
        ("lr=7", "--only lr=7: matches no trial\n"),
        ("state=failed", "--only state=failed: matches no trial: no trial has a param `state`; before a run, conditions can use only params, `trial` and `image`\n"),
        ("lr>0 && seconds>1", "no trial has a param `seconds`"),
    ],
)
def test_a_part_that_there_is_not(combu, write, only, words):
    write(PARAMS)
    result = combu("-f", "experiment.jsonnet", "--engine", SIMULATED, "run", "--only", only)
    assert result.returncode == 2
    assert words in result.stderr


def test_what_only_serves_others_is_left_and_named(combu, write):
    write('[{ name: "db", image: "x", cmd: "sleep 1000000" }, { name: "user", image: "x", cmd: "true", depends: ["db"] }]')
    result = combu("-f", "experiment.jsonnet", "--engine", "simulated:", "run", "--wait")
    assert result.returncode == 0, result.stderr
    assert "left running: db; combu stops a trial with `service: true` when no trial needs it any more" in result.stderr


def test_services_that_do_not_fit_together_want_somebody_who_stops_them(combu, write):
    write('[{ name: "s" + i, image: "x", cmd: "sleep 1000000", service: true, cpus: 5 } for i in [1, 2]]'
          ' + [{ name: "t" + i, image: "x", cmd: "sleep 1", cpus: 3, depends: ["s" + i] } for i in [1, 2]]')
    result = combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=10", "run")
    assert result.returncode == 2
    assert "without `run --wait`, combu stops no service" in result.stderr
    result = combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=10", "run", "--wait")
    assert result.returncode == 0, result.stderr
