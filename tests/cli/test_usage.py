"""Tests of arguments, help, version and completion."""

import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from conftest import COMBU, SIMULATED

COMMANDS = ["run", "attach", "set", "pause", "unpause", "kill", "validate", "plan", "ps", "logs", "wait", "stop", "doctor", "init", "schema",
            "completion", "version", "help"]


def test_version(combu):
    for arguments in (["--version"], ["version"]):
        result = combu(*arguments)
        assert result.returncode == 0
        assert result.stdout.startswith("combu ") and result.stdout.count("\n") == 1
        assert result.stderr == ""


def test_version_names_the_evaluator(combu):
    result = combu("version", "--verbose")
    assert result.returncode == 0
    version, evaluator = result.stdout.splitlines()
    assert version == combu("version").stdout.strip()
    assert re.fullmatch(r"evaluator: (libjsonnet|rsjsonnet) \d+\.\d+\.\d+", evaluator)


def test_the_limit_of_descriptors_is_raised(tmp_path):
    """The limit is raised to the hard limit, but not above the maximum for child processes."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard = 1 << 30 if hard == resource.RLIM_INFINITY else hard
    for soft, hard, raised in [(64, 256, 256), (64, hard, min(hard, 65536)), (min(hard, 100000), hard, min(hard, 100000))]:
        process = subprocess.Popen([COMBU, "-f", "-", "validate"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "HOME": str(tmp_path)}, cwd=tmp_path,
                                   preexec_fn=lambda soft=soft, hard=hard: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
        try:
            until = time.monotonic() + 30
            while resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[0] != raised and time.monotonic() < until:
                time.sleep(0.01)
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (raised, hard)
        finally:
            process.communicate()


@pytest.mark.parametrize("command", [[]] + [[name] for name in COMMANDS])
def test_help_has_an_example(combu, command):
    result = combu(*command, "--help")
    assert result.returncode == 0
    assert "Example:\n  " in result.stdout
    assert result.stderr == ""


def test_help_is_a_command(combu):
    assert combu("help").stdout == combu("--help").stdout
    for command in COMMANDS:
        assert combu("help", command).stdout == combu(command, "--help").stdout


@pytest.mark.parametrize("arguments, message", [
    ([], "combu: no command is given; combu --help lists the commands\n"),
    (["rnu"], "combu: there is no command rnu; did you mean run?\n"),
    (["resume", "r1"], "combu: there is no command resume; `combu unpause` continues a paused run, `combu run --resume` an interrupted one\n"),
    (["frobnicate"], "combu: there is no command frobnicate; see combu --help\n"),
    (["run", "--wiat"], "combu: run has no option --wiat; did you mean --wait?\n"),
    (["schema", "schema"], "combu: schema takes no argument schema\n"),
    (["-f", "x", "plan", "y"], "combu: y: is a second file besides -f x; give only one file\n"),
    (["--fiel", "x"], "combu: there is no command x; see combu --help\n"),
    (["--fiel=x"], "combu: there is no option --fiel=x; did you mean --file?\n"),
    (["prune", "zero.jsonnet"],
     "combu: the experiment's file must be given with -f: combu -f zero.jsonnet prune\n"),
    (["logs", "-f", "lab.jsonnet", "solver-1"],
     "combu: lab.jsonnet: is not a trial: after `logs`, -f means --follow; put -f FILE before `logs`: "
     "combu -f lab.jsonnet logs\n"),
    (["--engine", "simulated:?sped=1", "-f", "x", "ps"], "combu: simulated: `sped=1` must be NAME=VALUE, with one of these names: "),
    (["logs"], "combu: logs: no trials are chosen; give the name of a trial, -f FILE or --run ID\n"),
    (["run"], "combu: no experiment file is given, and this folder has no experiment.jsonnet; give one: combu -f FILE …\n"),
    (["kill"], "combu: kill: an experiment must be given; use -f FILE or --experiment NAME\n"),
    (["--engine", "simulated:", "stop"], "combu: an experiment must be given; use -f FILE or --experiment NAME\n"),
    (["--engine", "simulated:", "-f", "x", "stop", "--grace", "soon"], "--grace: "),
    (["--engine", "simulated:", "-f", "x", "logs", "--since", "noon", "a"],
     "combu: --since: must be a duration such as 10m, or a moment such as 2026-01-31T12:00:00Z, not 'noon'\n"),
    (["--engine", "carrier-pigeon", "ps"], "carrier-pigeon"),
    (["-f", "x", "plan", "-V", "NOT_SET"],
     "combu: --ext-str: NOT_SET is not in the environment; set it there, or give --ext-str NOT_SET=VALUE\n"),
    (["-f", "x", "plan", "--evaluate-memory", "much"], "combu: --evaluate-memory: "),
    (["-f", "x", "run", "--run-id", "a/b"], "a/b"),
    (["-f", "x", "run", "--starts-in-flight", "0"], "--starts-in-flight"),
    (["-f", "x", "run", "-p", "maybe"], "combu: --parallel: must be a number or false, not maybe; see combu run --help\n"),
    (["-f", "x", "run", "--edited"], "combu: --edited: must be used with --resume; a new run always uses the current file\n"),
    (["help", "frobnicate"], "combu: there is no command frobnicate; see combu --help\n"),
    (["help", "rnu"], "combu: there is no command rnu; did you mean run?\n"),
    (["run", "-d"], "combu: no experiment file is given, and this folder has no experiment.jsonnet; give one: combu -f FILE …\n"),
    (["attach"], "combu: a run must be given; use its id, or -f FILE for the file's last run\n"),
    (["pause"], "combu: a run must be given; use its id, or -f FILE for the file's last run\n"),
    (["set"], "combu: SETTING is required; see combu set --help\n"),
    (["-f", "x", "set", "r1"], "combu: set: a setting must be given; use parallel=N or starts_in_flight=N\n"),
    (["-f", "x", "set", "parallel=many"], "combu: parallel=many: the value must be a whole number\n"),
    (["-f", "x", "set", "paralel=2"], "combu: paralel=2: is not a setting; use parallel=N or starts_in_flight=N\n"),
    (["--progress", "fancy", "ps"], "--progress"),
    (["-V"], "combu: -V, --ext-str needs a value: -V K[=V]; --version prints the version; see combu --help\n"),
    (["plan", "--tla-code"], "combu: --tla-code needs a value: --tla-code K[=CODE]; see combu plan --help\n"),
    (["plan", "-f"], "combu: -f, --file needs a value: -f FILE; see combu plan --help\n"),
    (["run", "--only"], "combu: --only needs a value: --only TRIALS; see combu run --help\n"),
    (["-f", "x", "init", "lab"], "combu: init: the command reads no experiment; leave out -f x\n"),
    (["schema", "-f", "x"], "combu: schema: the command reads no experiment; leave out -f x\n"),
    (["completion", "-f", "x", "bash"], "combu: completion: the command reads no experiment; leave out -f x\n"),
    (["-f", "x", "version"], "combu: version: the command reads no experiment; leave out -f x\n"),
    (["-f", "x", "help"], "combu: help: the command reads no experiment; leave out -f x\n"),
])
def test_usage_errors(combu, arguments, message):
    result = combu(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.startswith("combu: ") and result.stderr.count("\n") == 1


def test_options_stand_before_or_after_the_command(combu, ladder):
    plans = [combu(*arguments) for arguments in (
        ["-f", ladder, "plan"], ["plan", "-f", ladder], ["--file", ladder, "plan"], ["plan", f"--file={ladder}"])]
    assert plans[0].returncode == 0 and plans[0].stdout
    assert len({(plan.returncode, plan.stdout) for plan in plans}) == 1


def test_logs_f_follows_and_the_file_stands_before(combu):
    """After `logs`, -f means --follow, and the next word is a trial, not a file."""
    result = combu("--engine", "simulated:", "-f", "x.jsonnet", "logs", "-f", "solver-1")
    assert result.returncode == 1
    assert result.stderr == "combu: solver-1: this engine has no container of the experiment\n"
    result = combu("--engine", "simulated:", "logs", "-f", "x.jsonnet", "solver-1")
    assert result.returncode == 2
    assert "combu -f x.jsonnet logs" in result.stderr


def test_a_trial_may_be_called_like_a_command(combu):
    result = combu("--engine", "simulated:", "-f", "x.jsonnet", "logs", "stop")
    assert result.returncode == 1
    assert result.stderr.startswith("combu: stop: this engine has no container of the experiment")


def test_a_full_disk_is_told(combu, ladder):
    with open("/dev/full", "w") as full:
        result = combu("-f", ladder, "plan", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == 1
    assert result.stderr == "combu: standard output: cannot be written: No space left on device\n"


def smaller_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


def test_a_file_beyond_the_limit_of_files_is_told(combu, ladder, tmp_path):
    with open(tmp_path / "out", "w") as out:
        result = combu("schema", capture_output=False, stdout=out, stderr=subprocess.PIPE, preexec_fn=smaller_files)
    assert (result.returncode, result.stderr) == (1, "combu: standard output: cannot be written: File too large\n")
    result = combu("-f", ladder, "--engine", SIMULATED, "run", preexec_fn=smaller_files)
    assert result.returncode == 1
    assert "record.sqlite" in result.stderr


@pytest.mark.parametrize("ignored", [[], [signal.SIGPIPE, signal.SIGXFSZ]])
def test_programs_that_it_runs_get_the_signals_as_the_caller_has_them(combu, ladder, tmp_path, ignored):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/git").write_text(f"#!/bin/sh\ngrep SigIgn /proc/self/status >> {tmp_path}/masks\nexit 1\n")
    (tmp_path / "bin/git").chmod(0o755)
    result = combu("-f", ladder, "--engine", SIMULATED, "run", env={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
                   restore_signals=True, preexec_fn=lambda: [signal.signal(number, signal.SIG_IGN) for number in ignored])
    assert result.returncode == 0, result.stderr
    masks = [int(line.split()[1], 16) for line in (tmp_path / "masks").read_text().splitlines()]
    both = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    assert masks and {mask & both for mask in masks} == {both if ignored else 0}


def test_a_standard_output_that_is_closed_is_told(combu, ladder):
    result = combu("-f", ladder, "plan", capture_output=False, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
    assert result.returncode == 1
    assert result.stderr == "combu: standard output: cannot be written: Bad file descriptor\n"


def test_a_reader_that_has_gone_is_no_error(combu, ladder):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        result = combu("-f", ladder, "plan", "--json", capture_output=False, stdout=gone, stderr=subprocess.PIPE)
    assert result.returncode == 0
    assert result.stderr == ""


# ---- Completion

def completions(combu, tmp_path, words, asked=":"):
    """Returns the candidates that bash shows for the last of `words`. The shell command `asked` replaces combu."""
    script = tmp_path / "completion.bash"
    script.write_text(combu("completion", "bash").stdout)
    quoted = " ".join(f"'{word}'" for word in words)
    result = subprocess.run(
        ["bash", "-c", f"combu() {{ {asked}; }}; source {script}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _combu; "
                       'printf "%s\\n" "${COMPREPLY[@]}"'],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True)
    assert result.stderr == ""
    return result.stdout.split()


def test_bash_completes_commands(combu, tmp_path):
    assert set(COMMANDS) <= set(completions(combu, tmp_path, ["combu", ""]))
    assert completions(combu, tmp_path, ["combu", "-f", "x.jsonnet", "va"]) == ["validate"]
    assert completions(combu, tmp_path, ["combu", "-f", "run", "ki"]) == ["kill"]


def test_bash_completes_options_of_the_command_and_of_all(combu, tmp_path):
    run = completions(combu, tmp_path, ["combu", "run", "--"])
    assert {"--wait", "--replace", "--starts-in-flight", "--engine", "--progress"} <= set(run)
    assert "--tail" not in run
    assert "--tail" in completions(combu, tmp_path, ["combu", "logs", "--"])


def test_bash_completes_values(combu, tmp_path, ladder):
    (tmp_path / "folder").mkdir()
    assert completions(combu, tmp_path, ["combu", "--progress", "p"]) == ["plain"]
    assert completions(combu, tmp_path, ["combu", "run", "--progress", "j"]) == ["json"]
    assert completions(combu, tmp_path, ["combu", "completion", "z"]) == ["zsh"]
    assert completions(combu, tmp_path, ["combu", "-f", "exp"]) == ["experiment.jsonnet"]
    assert completions(combu, tmp_path, ["combu", "-J", "fo"]) == ["folder"]
    # After `logs -f`, the next word is a trial, not a file.
    assert completions(combu, tmp_path, ["combu", "logs", "-f", "exp"]) == []


def test_bash_asks_for_what_it_does_not_know(combu, tmp_path):
    """combu is asked with the kind, the file and run in the command line, and the word."""
    def asked(*words):
        # bash removes the part before the split from each reply.
        return " ".join(shlex.split(" ".join(completions(combu, tmp_path, ["combu", *words], 'echo "$*"'))))

    assert asked("-f", "x.jsonnet", "logs", "so") == "-f x.jsonnet complete trials -- so"
    assert asked("-f", "x.jsonnet", "logs", "one", "so") == asked("-f", "x.jsonnet", "show", "one", "so") == "-f x.jsonnet complete trials -- so"
    assert asked("-f", "x.jsonnet", "logs", "-f", "l") == "-f x.jsonnet complete trials -- l"
    assert asked("wait", "-f", "x.jsonnet", "loader", "s") == "-f x.jsonnet complete trials -- s"
    assert asked("logs", "--run", "r1", "s") == "complete --run r1 trials -- s"
    assert asked("-f", "x", "run", "--resume", "3") == "-f x complete runs -- 3"
    assert asked("-f", "x", "run", "--only", "lr") == "-f x complete only -- lr"
    assert asked("kill", "--experiment", "l") == "complete experiments -- l"
    assert asked("attach", "3k") == asked("rm", "3k") == asked("compare", "0a", "3k") == "complete runs -- 3k"
    assert asked("-f", "x", "results", "--sort", "lo") == "-f x complete columns -- lo"
    assert asked("-f", "x", "compare", "--over", "seed,f") == "-f x complete columns -- seed,f"
    assert asked("-f", "x", "plot", "lo") == "-f x complete columns -- lo"
    assert asked("-f", "x", "ps", "--where", "st") == "-f x complete ps_conditions -- st"
    assert asked("-f", "x", "results", "--where", "state", "=", "fa") == "-f x complete conditions -- state=fa"
    assert asked("set", "par") == "complete settings -- par"
    assert asked("stop", "--gr") == "--grace"
    assert asked("export", "c") == "csv complete runs -- c"
    assert asked("run", "--progress", "=", "pl") == "plain"


def test_what_bash_gives_back_of_a_word_that_it_has_cut(combu, tmp_path):
    def offered(*words):
        return completions(combu, tmp_path, ["combu", *words], "echo state=failed")

    assert offered("ps", "--where", "state", "=", "f") == ["failed"]
    assert offered("ps", "--where", "state", "=") == ["failed"]
    assert offered("ps", "--where", "sta") == ["state=failed"]
    assert offered("ps", "--where", "=", "state", "=", "f") == ["failed"]
    assert offered("ps", "--where=sta") == ["--where=state=failed"], "where `=` cuts no words"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command(combu, shell):
    result = combu("completion", shell)
    assert result.returncode == 0
    for command in COMMANDS:
        assert command in result.stdout
    for option in ("starts-in-flight", "ext-str", "tail"):
        assert option in result.stdout
    if shutil.which(shell):
        check = subprocess.run([shell, "-n"], input=result.stdout, capture_output=True, text=True, timeout=60)
        assert (check.returncode, check.stderr) == (0, "")
