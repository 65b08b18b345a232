"""Tests of the folder with record, locks, channels and logs: who may write to it, and who owns its parts."""

import contextlib
import fcntl
import json
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import tempfile

import pytest
from background_test import detached, process_of  # noqa: F401 (a fixture)
from conftest import COMBU, SIMULATED, wait_until

AS_ROOT = [] if os.geteuid() == 0 else ["sudo"]
USER, GROUP = 64001, 64002
FILE = '[{ name: "tt", image: "x", cmd: "true" }]'
SLOW = '[{ name: "tt", image: "x", cmd: "sleep 1000" }]'


def as_root(*command, **options):
    return subprocess.run([*AS_ROOT, *map(str, command)], check=True, capture_output=True, text=True, timeout=60, **options)


def parts(folder):
    """Returns kind, mode and owner of each file and folder. Runs as root, which can read folders of other users."""
    found = as_root("find", folder, "-printf", "%y %m %U:%G %P\n").stdout
    return {path: (kind, mode, owner) for kind, mode, owner, path in (line.split(" ", 3) for line in found.splitlines())}


@pytest.fixture
def file(write):
    return write(FILE)


@pytest.fixture
def state(tmp_path):
    return tmp_path / ".local/state/combu"


@pytest.fixture
def run(combu, file):
    def start(*arguments, **options):
        return combu("-f", file, "--engine", SIMULATED, "run", "--wait", *arguments, **options)

    return start


@pytest.fixture
def foreign(tmp_path):
    """Gives files and folders to another user. The test's user gets them back after the test."""
    yield lambda path: as_root("chown", "-h", f"{USER}:{GROUP}", path)
    as_root("chown", "-R", f"{os.geteuid()}:{os.getegid()}", tmp_path)


# ---- modes


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_all_parts_are_the_users_alone_whatever_the_umask_is(combu, detached, write, state, tmp_path, umask):  # noqa: F811
    before = os.umask(umask)
    try:
        run = detached(write(SLOW))
    finally:
        os.umask(before)
    log = state / f"telemetry/{run}.sqlite-wal"
    wait_until(log.exists, "the database of the logs is open")
    names = {"record.sqlite", "record.sqlite-shm", "record.sqlite-wal", "locks", "channels", "logs", "telemetry"}
    assert {part.name for part in state.iterdir()} == names
    found = parts(tmp_path / ".local")
    kinds = {kind: {mode for of, mode, _ in found.values() if of == kind} for kind, _, _ in found.values()}
    assert kinds == {"d": {"700"}, "f": {"600"}, "s": {"600"}}


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o2775])
def test_others_lose_the_right_to_write(run, combu, state, mode):
    assert run().returncode == 0
    for part in (state, state / "locks", state / "telemetry"):
        part.chmod(mode)
    (state / "record.sqlite").chmod(0o666)
    assert run().returncode == 0
    modes = parts(state)
    assert [modes[name][1] for name in ("", "locks", "telemetry")] == [f"{mode & 0o7755:o}"] * 3
    assert modes["record.sqlite"][1] == "644"
    state.chmod(mode)
    assert combu("ps").returncode == 0
    assert parts(state)[""][1] == f"{mode & 0o7755:o}"


@pytest.mark.parametrize("home", [".", "shared"])
def test_a_shared_folder_that_combu_did_not_make_is_refused_and_keeps_its_mode(run, tmp_path, home):
    shared = tmp_path / home
    shared.mkdir(exist_ok=True)
    shared.chmod(0o2775)
    before = sorted(tmp_path.iterdir())
    done = run(env={"COMBU_HOME": home})
    assert done.returncode == 2
    assert f"combu: {home}: cannot hold combu's state: other users can write to it (mode 2775), and combu did not make it; " \
        f"run `chmod go-w {home}`, or name another folder with COMBU_HOME\n" in done.stderr
    assert stat.S_IMODE(shared.stat().st_mode) == 0o2775 and sorted(tmp_path.iterdir()) == before


def test_a_folder_for_everybody_is_refused_and_stays_as_it_is(run, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    done = run(env={"COMBU_HOME": str(shared)})
    assert done.returncode == 2
    assert f"combu: {shared}: cannot hold combu's state: other users can write to it (mode 1777); name another folder with COMBU_HOME\n" in done.stderr
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777 and not any(shared.iterdir())


# ---- owners


@pytest.mark.parametrize("part", ["", "record.sqlite", "telemetry", "locks"])
def test_what_another_user_owns_is_refused(run, state, foreign, part):
    assert run().returncode == 0
    before = set(parts(state))
    foreign(state / part)
    me = os.geteuid()
    done = run()
    assert f"{state / part if part else state}: cannot hold combu's state: user {USER} owns it, not user {me}; name another folder with COMBU_HOME or, " \
        f"if you trust what it holds, run `chown -R {me} {state / part if part else state}`" in done.stderr
    if part != "telemetry":  # a run goes on without its logs
        assert done.returncode == 2
        assert set(parts(state)) == before


@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_log_of_the_record_by_another_user_is_not_read(run, combu, file, state, foreign, suffix):
    assert run().returncode == 0
    beside = state / f"record.sqlite{suffix}"
    beside.write_bytes(b"")
    foreign(beside)
    # Run as typed, because the fixture would open the record, and thereby remove an empty log.
    for command in (["run"], ["ps"], ["events"]):
        done = combu("-f", file, "--engine", SIMULATED, *command)
        assert done.returncode == 2 and f"{beside}: cannot hold combu's state: user {USER} owns it" in done.stderr


def test_commands_that_only_read_refuse_a_folder_of_another_user(run, combu, state, foreign):
    assert run().returncode == 0
    foreign(state)
    for command in ("ps", "results", "events", "why"):
        done = combu(command)
        assert done.returncode != 0 and f"{state}: cannot hold combu's state: user {USER} owns it" in done.stderr


@pytest.fixture
def sleeper():
    """A process that a signal ends. Its parent reaps it at once, so that its pid does not stay."""
    script = 'sleep 1000 & echo $!; exec >&-; wait'
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        process = int(parent.stdout.readline())
        yield process
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def test_a_lock_by_another_user_names_no_process_to_interrupt(combu, detached, write, state, foreign, sleeper):  # noqa: F811
    file = write(SLOW)
    detached(file)
    text = next(json.loads(text) for text in (path.read_text() for path in (state / "locks").iterdir()) if text)
    with open(state / "locks/planted", "w+") as planted:
        text["process"] = sleeper
        planted.write(json.dumps(text))
        planted.flush()
        fcntl.flock(planted, fcntl.LOCK_EX)
        foreign(planted.name)
        killed = combu("-f", file, "--engine", text["engine"], "kill")
        assert killed.stderr.count("interrupted process") == 1
        os.kill(sleeper, 0)
        os.unlink(planted.name)


# ---- links


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_locks_follow_no_link(run, state, tmp_path, link):
    assert run().returncode == 0
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for lock in (state / "locks").iterdir():
        lock.unlink()
        link(victim, lock)
    done = run()
    assert done.returncode == 2 and f"{state}/locks/" in done.stderr and "cannot hold combu's state: it must be a " in done.stderr
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_the_log_of_the_background_follows_no_link(run, state, tmp_path, link):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (state / "logs").mkdir(parents=True)
    link(victim, state / "logs/mine.log")
    done = run("-d", "--run-id", "mine")
    assert done.returncode == 2 and f"{state}/logs/mine.log: cannot hold combu's state: it must be a " in done.stderr
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("database", ["record.sqlite", "telemetry/mine.sqlite"])
def test_databases_follow_no_link(run, combu, file, state, tmp_path, link, database):
    assert run("--run-id", "mine").returncode == 0
    victim = tmp_path / "victim"
    shutil.move(state / database, victim)
    before = victim.read_bytes()
    link(victim, state / database)
    done = combu("-f", file, "results")
    assert f"{state / database}: cannot hold combu's state: it must be a " in done.stderr
    assert victim.read_bytes() == before


def test_a_channel_follows_no_link(combu, detached, write, state, tmp_path):  # noqa: F811
    file = write(SLOW)
    detached(file, "--run-id", "mine")
    [channel] = (state / "channels").iterdir()
    os.kill(process_of(tmp_path, "mine"), signal.SIGKILL)
    channel.unlink()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    channel.symlink_to(victim)
    detached(file, "--resume")
    assert channel.is_socket()
    assert victim.read_text() == "precious"


def test_the_folder_may_be_a_link_of_the_user(run, combu, state, tmp_path):
    (tmp_path / "disk").mkdir()
    state.parent.mkdir(parents=True)
    state.symlink_to(tmp_path / "disk")
    assert run().returncode == 0
    assert (tmp_path / "disk/record.sqlite").exists()
    assert "1 succeeded" in combu("ps").stdout


def test_a_file_of_two_names_is_usable_after_what_its_error_says(run, combu, file, state, tmp_path):
    assert run("--run-id", "mine").returncode == 0
    as_root("cp", "-al", state, tmp_path / "backup")
    for part in (state / "record.sqlite", state / "telemetry/mine.sqlite"):
        command = f"`cp -p {part} {part}.new && mv {part}.new {part}`"
        assert f"{part}: cannot hold combu's state: it must be a file with one name, but has 2 (hard links); while no combu process runs, " \
            f"replace it with a copy: {command}, or name another folder with COMBU_HOME\n" in combu("-f", file, "results").stderr
        subprocess.run(command.strip("`"), shell=True, check=True)
    done = combu("-f", file, "results")
    assert done.returncode == 0 and "succeeded" in done.stdout and done.stderr == ""


# ---- sudo


@pytest.fixture
def place():
    """A folder that every user can reach."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="combu-state-"))
    folder.chmod(0o755)
    shutil.copy(COMBU, folder / "combu")
    (folder / "experiment.jsonnet").write_text(FILE)
    (folder / "experiment.jsonnet").chmod(0o644)
    yield folder
    as_root("rm", "-rf", folder)


def run_in(place, home, *prefix):
    command = ["env", "-u", "SUDO_UID", "-u", "SUDO_GID", "-u", "COMBU_HOME", "-u", "XDG_STATE_HOME", f"HOME={home}", *prefix, place / "combu", "--engine", SIMULATED]

    def combu(*arguments):
        return subprocess.run([*AS_ROOT, *map(str, [*command, "-f", place / "experiment.jsonnet", *arguments])], cwd=place,
                              capture_output=True, text=True, timeout=60, check=False)

    return combu


def test_under_sudo_the_state_in_the_callers_home_is_the_callers(place):
    home = place / "home"
    home.mkdir()
    as_root("chown", f"{USER}:{GROUP}", home)
    sudo = run_in(place, home, f"SUDO_UID={USER}", f"SUDO_GID={GROUP}")
    caller = run_in(place, home, "setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups")
    done = sudo("run", "--wait", "--run-id", "first")
    assert done.returncode == 0, done.stderr
    assert {owner for _, _, owner in parts(home).values()} == {f"{USER}:{GROUP}"}
    for arguments in (["ps"], ["run", "--wait", "--run-id", "second"], ["results"], ["kill"]):
        done = caller(*arguments)
        assert done.returncode == 0 and "cannot" not in done.stderr, done.stderr
    for combu in (sudo, caller):
        done = combu("events", "--run", "first")
        assert done.returncode == 0 and "succeeded" in done.stdout
    assert sudo("run", "--wait").returncode == 0
    assert {owner for _, _, owner in parts(home).values()} == {f"{USER}:{GROUP}"}


def test_under_sudo_the_state_in_roots_home_is_roots(place):
    as_root("mkdir", "-m", "700", place / "root")
    sudo = run_in(place, place / "root", f"SUDO_UID={USER}", f"SUDO_GID={GROUP}")
    done = sudo("run", "--wait")
    assert done.returncode == 0, done.stderr
    assert {owner for _, _, owner in parts(place / "root").values()} == {"0:0"}


def test_the_folder_may_be_a_link_of_root(place):
    home = place / "home"
    (home / ".local/state").mkdir(parents=True)
    (place / "disk").mkdir()
    as_root("chown", "-R", f"{USER}:{GROUP}", home, place / "disk")
    as_root("ln", "-s", place / "disk", home / ".local/state/combu")
    combu = run_in(place, home, "setpriv", f"--reuid={USER}", f"--regid={GROUP}", "--clear-groups")
    assert combu("run", "--wait").returncode == 0
    assert "record.sqlite" in parts(place / "disk")
    as_root("chown", "-h", f"{USER + 1}:{GROUP}", home / ".local/state/combu")
    done = combu("run", "--wait")
    assert done.returncode == 2
    assert f"{home}/.local/state/combu: cannot hold combu's state: user {USER + 1} owns it, not user {USER}; " in done.stderr


def test_root_itself_refuses_the_state_of_another_user(place):
    home = place / "home"
    (home / ".local/state/combu").mkdir(parents=True)
    as_root("chown", "-R", f"{USER}:{GROUP}", home)
    done = run_in(place, home)("run", "--wait")
    assert done.returncode == 2
    assert f"{home}/.local/state/combu: cannot hold combu's state: user {USER} owns it, not user 0; " in done.stderr
    assert list((home / ".local/state/combu").iterdir()) == []
