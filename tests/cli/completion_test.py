"""Tests of completion: the candidates that combu prints, and completion in real shells."""

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time

import pytest
from conftest import COMBU

EXPERIMENT = """
{
  experiment: "lab",
  trials: [
    { name: "train-" + lr, image: "x", cmd: "sh -c 'true; exit %d'" % (if lr == 2 then 1 else 0), params: { lr: lr, cause: "x" } }
    for lr in [1, 2, 3]
  ] + [{ name: "board", image: "x", cmd: "true" }],
}
"""


@pytest.fixture
def ran(combu, write):
    write(EXPERIMENT)
    for run in ("r1", "r2"):
        combu("-f", "experiment.jsonnet", "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", run)

    def words(kind, word="", *options):
        done = combu(*options, "complete", kind, "--", word)
        assert done.stderr == ""
        return done.stdout.split("\n")[:-1]

    return words


FILE = ["-f", "experiment.jsonnet"]


def test_trials_and_runs_are_those_on_record(combu, ran, write):
    assert ran("trials", "", *FILE) == ["train-1", "train-2", "train-3", "board"]
    assert ran("trials", "tr", *FILE) == ran("trials", "tr") == ["train-1", "train-2", "train-3"]
    assert ran("runs", "") == ran("runs", "r", *FILE) == ["r2", "r1"]
    assert ran("runs", "", "-f", "other.jsonnet") == []
    assert ran("experiments", "l") == ["lab"]
    write("error 'it is not evaluated'")
    assert ran("trials", "b", *FILE) == ["board"]
    assert combu("complete", "--run", "r1", "trials", "bo").stdout == "board\n"
    assert combu("complete", "--run", "no-such-run", "trials", "bo").returncode == 1


def test_names_conditions_and_settings(ran):
    columns = ran("columns", "", *FILE)
    assert columns[:3] == ["trial", "attempt", "state"] and "lr" in columns
    assert "params.cause" in columns and columns.count("cause") == 1
    assert ran("columns", "state,l", *FILE) == ["state,lr"]
    assert ran("conditions", "st", *FILE) == ["state="]
    assert ran("conditions", "state=f", *FILE) == ["state=failed"]
    assert ran("conditions", "state!=f", *FILE) == ["state!=failed"]
    assert ran("conditions", "lr<2 && state=su", *FILE) == ["lr<2 && state=succeeded"]
    assert ran("conditions", "cause=o", *FILE) == ["cause=oom", "cause=outputs"]
    assert ran("conditions", "trial=b", *FILE) == ["trial=board"]
    assert ran("only", "l", *FILE) == ["lr="] and ran("only", "train-3", *FILE) == ["train-3"]
    assert ran("only", "", *FILE) == ["train-1", "train-2", "train-3", "board", "trial=", "image=", "cause=", "lr="]
    assert ran("only", "state=f", *FILE) == ran("only", "lr<2 && sta", *FILE) == []
    assert ran("only", "lr<2 && trial=b", *FILE) == ["lr<2 && trial=board"]
    assert ran("ps_conditions", "state=f", *FILE) == ["state=failed"]
    assert ran("ps_conditions", "state=i") == ["state=interrupted"]
    assert ran("ps_conditions", "fa") == ["failed="]
    assert ran("settings", "") == ["parallel=", "starts_in_flight=", "r2", "r1"]


def test_engines_are_the_contexts_of_the_kubeconfig(combu, tmp_path):
    config = tmp_path / "kubeconfig"

    def engines(word=""):
        return combu("complete", "engines", "--", word, env={"KUBECONFIG": str(config)}).stdout.split()

    assert engines() == ["kubernetes", "simulated:"]
    config.write_text("contexts: [{name: lab, context: {cluster: c}}, {name: home, context: {cluster: c}}]\ncurrent-context: home\n")
    assert engines() == ["kubernetes", "kubernetes:home", "kubernetes:lab", "simulated:"]
    assert engines("kubernetes:l") == ["kubernetes:lab"]


def test_the_fields_are_those_that_the_page_names(ran):
    from docs_test import rows

    row = next(row for row in rows("docs/cli.md", "results") if "`seconds`" in row[0])
    assert ran("columns", "")[:14] == re.findall(r"`(\w+)`", row[0].replace("(or `time`)", ""))


def test_metrics_are_offered_with_what_is_known_of_them(combu, write, ran):
    write("""[{ name: "loud", image: "x", cmd: ["sh", "-c", "echo '{\\"loss\\": 0.5}'"], metrics: "json" }]""", "loud.jsonnet")
    combu("-f", "loud.jsonnet", "--engine", "simulated:?speed=0", "run", "--wait", "--run-id", "loud")
    assert ran("columns", "lo", "-f", "loud.jsonnet") == ["loss", "loss.least", "loss.greatest", "loss.points"]


def test_of_a_file_that_was_never_run_it_is_evaluated_for_a_moment(combu, write):
    write('[{ name: "first", image: "x" }]')
    assert combu(*FILE, "complete", "trials", "--", "f").stdout == "first\n"
    write('[{ name: "first", image: "x", params: { lr: 1, image: 2 } }, { name: "second", image: "x", params: { lr: 1, seed: 2 } }]')
    assert combu(*FILE, "complete", "only", "--", "").stdout.split() == ["first", "second", "trial=", "image=", "params.image=", "lr=", "seed="]
    write('local f(x) = f(x + 1); [{ name: "first" + std.length(std.filter(function(x) x > 1, std.range(1, 30000000))), image: "x" }]')
    begin = time.monotonic()
    assert combu(*FILE, "complete", "trials", "--", "f").stdout == ""
    assert time.monotonic() - begin < 15  # the limit is a second; the rest is for slow machines


def test_it_reads_no_standard_input_and_no_pipe(combu, tmp_path):
    trial = '[{ name: "first", image: "x" }]'
    assert combu("-f", "-", "complete", "trials", "--", "f", input=trial).stdout == ""
    os.mkfifo(tmp_path / "experiment.jsonnet")
    with open(tmp_path / "experiment.jsonnet", "rb+", buffering=0) as pipe:  # "rb+": open() does not block
        pipe.write(trial.encode())
        assert combu(*FILE, "complete", "trials", "--", "f").stdout == ""
        assert select.select([pipe], [], [], 0)[0], "it is still in the pipe"


def test_what_would_break_the_line_is_not_offered(combu, write):
    write(HOSTILE)
    combu(*FILE, "--engine", "simulated:?speed=0", "run", "--wait")
    columns = combu("complete", "columns", "--", "").stdout.split("\n")[:-1]
    assert columns[14:] == ["it's", "learning rate", 'say "$(touch PWNED)" x']


def test_ten_thousand_trials_are_offered_at_once(combu, write):
    write('[{ name: "trial-" + i, image: "x", cmd: "true" } for i in std.range(1, 10000)]')
    combu(*FILE, "--engine", "simulated:?speed=0&start=0&trial=0", "run", "--wait")
    begin = time.monotonic()
    assert combu(*FILE, "complete", "trials", "--", "trial-999").stdout.count("\n") == 11
    assert len(combu(*FILE, "complete", "trials", "--", "").stdout.split()) == 10000
    assert time.monotonic() - begin < 5  # two calls of about 0.1 s each; the rest is for slow machines


def test_it_is_no_command_that_anybody_sees(combu):
    assert "complete" not in re.sub("completion", "", combu("--help").stdout)
    assert combu("completoin").stderr == "combu: there is no command completoin; did you mean completion?\n"


class Terminal:
    """Runs a shell in a pseudo-terminal."""

    def __init__(self, command, env, folder):
        self.child, self.end = pty.fork()
        if self.child == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, env)
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self.seen = ""

    def until(self, text, seconds=60):
        """Reads until `text` appears after the text that previous calls returned."""
        limit = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < limit, self.seen
            if select.select([self.end], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.end, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(self.seen) from None
                self.seen = re.sub(r"\x1b(\[[0-9;?<>=]*[a-zA-Z]|[()].|[=>])|\x07", "", self.seen)
        before, _, self.seen = self.seen.partition(text)
        return before

    def type(self, text):
        os.write(self.end, text.encode())

    def close(self):
        os.close(self.end)
        os.waitpid(self.child, 0)


@pytest.mark.parametrize("shell", ["bash", "zsh"])
@pytest.mark.parametrize("typed, line", [
    ("combu -f experiment.jsonnet logs bo", "combu -f experiment.jsonnet logs board"),
    ("combu compl", "combu completion"),
    ("combu -f experiment.jsonnet why --run r2 bo", "combu -f experiment.jsonnet why --run r2 board"),
    ("combu ps --where \'state=inte", "combu ps --where 'state=interrupted"),
    ("combu -f experiment.jsonnet results --sort=second", "combu -f experiment.jsonnet results --sort=seconds"),
    ("combu -f experiment.jsonnet results --columns trial,second", "combu -f experiment.jsonnet results --columns trial,seconds"),
    ("combu -f exp", "combu -f experiment.jsonnet"),
    ("combu show --run ", "combu show --run r"),
    ("combu -f other.jsonnet show --run=r2 bo", "combu -f other.jsonnet show --run=r2 board"),
    ("combu -f experiment.jsonnet logs -f bo", "combu -f experiment.jsonnet logs -f board"),
])
def test_a_real_shell(ran, tmp_path, shell, typed, line):
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    typed = typed.replace("\\'", "'")
    env = {"HOME": str(tmp_path), "PATH": f"{os.path.dirname(COMBU)}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "ready: ", "LC_ALL": "C.UTF-8"}
    start = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
    terminal = Terminal(start, env, tmp_path)
    try:
        load = {"bash": "source <(combu completion bash)", "zsh": "autoload -Uz compinit; compinit -u; source <(combu completion zsh)"}[shell]
        terminal.type(f"PS1='ready: '; {load}; echo lo''aded\n")
        terminal.until("loaded")
        terminal.until("ready: ")
        terminal.type(typed + "\t")
        terminal.until(line)
    finally:
        terminal.close()


HOSTILE = """
{
  experiment: "my lab; touch PWNED",
  trials: [{ name: "one", image: "x", params: { "learning rate": 1, "it's": 2, "say \\"$(touch PWNED)\\" x": 3, "two\\nlines": 4, "es\\u001bc": 5 } }],
}
"""


@pytest.mark.parametrize("typed, line", [
    ("combu ps --experiment my", "combu ps --experiment my\\ lab\\;\\ touch\\ PWNED"),
    ("combu ps --experiment my\\ l", "combu ps --experiment my\\ lab\\;\\ touch\\ PWNED"),
    ("combu ps --experiment='my", "combu ps --experiment='my lab; touch PWNED'"),
    ("combu results --columns le", "combu results --columns learning\\ rate"),
    ("combu results --columns state,learning\\ ", "combu results --columns state,learning\\ rate"),
    ("combu results --columns it", "combu results --columns it\\'s"),
    ("combu results --columns 'it", "combu results --columns 'it'\\''s'"),
    ('combu results --columns "say', 'combu results --columns "say \\"\\$(touch PWNED)\\" x"'),
    ("combu results --where learning", "combu results --where learning\\ rate="),
    ("combu results --columns two", "combu results --columns two"),
    ("combu results --columns es", "combu results --columns es"),
])
def test_what_bash_gets_is_one_word_and_no_command(combu, write, tmp_path, typed, line):
    write(HOSTILE)
    assert combu(*FILE, "--engine", "simulated:?speed=0", "run", "--wait").returncode == 0
    env = {"HOME": str(tmp_path), "PATH": f"{os.path.dirname(COMBU)}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "ready: ", "LC_ALL": "C.UTF-8"}
    terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], env, tmp_path)
    try:
        terminal.type("PS1='ready: '; source <(combu completion bash); echo lo''aded\n")
        terminal.until("loaded")
        terminal.until("ready: ")
        # Adds `#` at the end of the completed line, so that additional output would be noticed.
        terminal.type(typed + "\t\x05" + "#\n")
        assert terminal.until("#\r\n").rstrip() == line
        terminal.until("ready: ")
    finally:
        terminal.close()
    assert not (tmp_path / "PWNED").exists()


@pytest.mark.parametrize("typed, offered", [
    ("combu -f experiment.jsonnet logs bo", ["board"]),
    ("combu -f experiment.jsonnet logs --run r1 tr", ["train-1", "train-2", "train-3"]),
    ("combu attach ", ["r1", "r2"]),
    ("combu -f experiment.jsonnet results --sort second", ["seconds"]),
    ("combu ps --where state=inter", ["state=interrupted"]),
    ("combu -f experiment.jsonnet set par", ["parallel="]),
    ("combu show --run ", ["r1", "r2"]),
    ("combu -f experiment.jsonnet show --run r", ["r1", "r2"]),
    ("combu -f other.jsonnet show --run r", []),
    ("combu -f experiment.jsonnet logs -f bo", ["board"]),
    ("combu -f experiment.jsonnet logs --follow --run r1 bo", ["board"]),
    ("combu -f other.jsonnet show --run=r2 bo", ["board"]),
    ("combu --file=other.jsonnet show --run r", []),
])
def test_fish(ran, tmp_path, typed, offered):
    if not shutil.which("fish"):
        pytest.skip("there is no fish")
    env = {"HOME": str(tmp_path), "PATH": f"{os.path.dirname(COMBU)}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(["fish", "--no-config", "-c", f"combu completion fish | source; complete -C '{typed}'"], env=env, cwd=tmp_path,
                          capture_output=True, text=True, timeout=60, check=True)
    assert sorted(found.split("\t")[0] for found in done.stdout.splitlines()) == offered
