"""combu asks git about the folder of an experiment without starting any program that the repository's settings name."""

import glob
import hashlib
import json
import os
import select
import shutil
import signal
import subprocess
import threading

import pytest
from conftest import COMBU, SIMULATED, wait_until
from state_folder_test import GROUP, USER, as_root, place, run_in  # noqa: F401 (a fixture)

FILE = """[{ name: "one", image: "x", cmd: "true" }, { name: "two", image: "x", cmd: "sh -c 'exit 1'" }]"""
GIT = shutil.which("git")


class Repository:
    """A repository with a changed file, a new file, and a program that creates `canary` if it is executed."""

    def __init__(self, folder):
        self.folder = folder
        self.canary = folder / ".git/canary"
        self.evil = folder / ".git/evil"
        self("init", "-q", "-b", "main")
        (folder / ".gitignore").write_text(".local\n.gitconfig\nresults\nold\n")
        (folder / "code.py").write_text("one\n")
        self.file = folder / "experiment.jsonnet"
        self.file.write_text(FILE)
        self("add", "-A")
        self("commit", "-qm", "one")
        self.commit = self("rev-parse", "HEAD").strip()
        self.evil.write_text(f"#!/bin/sh\ntouch {self.canary}\ncat\n")
        self.evil.chmod(0o755)

    def __call__(self, *arguments, folder=None):
        env = {**os.environ, "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        command = [GIT, "-C", folder or self.folder, "-c", "user.name=n", "-c", "user.email=e", *arguments]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True, timeout=60).stdout

    def set(self, name, value=None):
        self("config", name, str(value or self.evil))

    def change(self):
        (self.folder / "code.py").write_text("two\n")
        (self.folder / "new.py").write_text("new\n")
        self.canary.unlink(missing_ok=True)

    def attribute(self, line, path=".git/info/attributes"):
        (self.folder / path).parent.mkdir(exist_ok=True)
        with open(self.folder / path, "a") as file:
            file.write(line + "\n")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


def shown(combu, repository):
    done = combu("-f", repository.file, "show", "one", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def run(combu, repository, *arguments, **options):
    return combu("-f", repository.file, "--engine", SIMULATED, *arguments, **options)


# ---- hostile settings


def monitor(repository):
    repository.set("core.fsmonitor")


def hooks(repository):
    for folder in (repository.folder / ".git/hooks", repository.folder / ".git/others"):
        folder.mkdir(exist_ok=True)
        for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc"):
            shutil.copy(repository.evil, folder / hook)
    repository.set("core.hooksPath", repository.folder / ".git/others")
    repository.set("core.fsmonitor", ".git/hooks/fsmonitor-watchman")


def programs_for_people(repository):
    for name in ("core.pager", "pager.diff", "pager.config", "pager.status", "core.editor", "core.askPass", "credential.helper", "gpg.program",
                 "gpg.ssh.program", "diff.tool", "interactive.diffFilter", "core.alternateRefsCommand", "core.gitProxy", "merge.evil.driver"):
        repository.set(name)
    repository.set("log.showSignature", "true")
    repository.set("pager.ls-files", "true")
    for command in ("diff", "ls-files", "rev-parse", "config", "status", "check-attr"):
        repository.set(f"alias.{command}", f"!{repository.evil}")


def differs(repository):
    repository.set("diff.external")
    repository.set("diff.evil.command")
    repository.set("diff.evil.textconv")
    repository.set("diff.evil.cachetextconv", "true")
    repository.attribute("* diff=evil merge=evil")


def promisor(repository, url, **settings):
    """The commit's blob is missing, so that git fetches it."""
    repository.set("extensions.partialClone", "origin")
    repository.set("remote.origin.promisor", "true")
    repository.set("remote.origin.url", url)
    for name, value in settings.items():
        repository.set(name.replace("__", "."), value)
    blob = repository("rev-parse", "HEAD:code.py").strip()
    (repository.folder / ".git/objects" / blob[:2] / blob[2:]).unlink()


def fetch_by_ssh(repository):
    promisor(repository, "ssh://nowhere.invalid/lab", core__sshCommand=repository.evil, ssh__variant="simple")


def fetch_by_ext(repository):
    promisor(repository, f"ext::{repository.evil} %S", protocol__ext__allow="always")


def fetch_by_upload_pack(repository):
    promisor(repository, "/nowhere", remote__origin__uploadpack=repository.evil)


def submodule(repository):
    origin = repository.folder / ".git/origin"
    origin.mkdir()
    for arguments in (["init", "-q"], ["commit", "-qm", "one", "--allow-empty"]):
        repository(*arguments, folder=origin)
    repository("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(origin), "sub")
    repository("commit", "-qm", "two")
    repository.commit = repository("rev-parse", "HEAD").strip()
    sub = repository.folder / "sub"
    repository("config", "core.fsmonitor", str(repository.evil), folder=sub)
    repository("config", "filter.evil.clean", str(repository.evil), folder=sub)
    (sub / ".gitattributes").write_text("* filter=evil\n")
    (sub / "file").write_text("text\n")
    repository("add", "-A", folder=sub)
    (sub / "file").write_text("TEXT\n")
    repository.set("submodule.sub.ignore", "none")
    repository.set("diff.submodule", "diff")
    repository.set("status.submoduleSummary", "true")
    repository.set("submodule.sub.update", f"!{repository.evil}")


HOSTILE = [monitor, hooks, programs_for_people, differs, submodule]


def commands_of(combu, repository):
    """Runs all commands that may examine the folder."""
    return [run(combu, repository, *command) for command in (["plan"], ["run", "--wait"], ["show", "--reproduce", "one"], ["retry", "--wait"],
            ["run", "--resume", "--wait"], ["show", "one"], ["ps"], ["kill"], ["run", "--wait"])]


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda each: each.__name__)
def test_no_program_of_the_settings_runs(combu, repository, hostile):
    hostile(repository)
    repository.change()
    done = commands_of(combu, repository)
    assert not repository.canary.exists()
    assert [each.returncode for each in done] == [0, 1, 0, 1, 1, 0, 0, 0, 1], [each.stderr for each in done]
    now = shown(combu, repository)
    assert (now["commit"], now["dirty"], now["by_index"]) == (repository.commit, True, [])
    assert "-one\n+two\n" in now["diff"] and "new.py" in now["untracked"]


@pytest.mark.parametrize("hostile", [fetch_by_ssh, fetch_by_ext, fetch_by_upload_pack], ids=lambda each: each.__name__)
def test_a_missing_object_is_not_fetched(combu, repository, hostile):
    hostile(repository)
    repository.change()
    run(combu, repository, "run", "--wait")
    run(combu, repository, "show", "--reproduce", "one")
    assert not repository.canary.exists()
    now = shown(combu, repository)
    assert (now["commit"], now["dirty"], now["diff"], now["untracked"]) == (repository.commit, True, None, ["new.py"])


@pytest.mark.parametrize("name, kind, place_of_attributes", [
    *[(name, kind, ".git/info/attributes") for name in ("evil", "a=b", "a=b.clean", "a.b", "Evil-1", "", r"a\b") for kind in ("clean", "process")],
    ("evil", "clean", ".gitattributes"), ("evil", "smudge", ".gitattributes")])
def test_no_filter_runs(combu, repository, name, kind, place_of_attributes):
    repository.attribute(f"code.py filter={name}", place_of_attributes)
    with open(repository.folder / ".git/config", "a") as config:
        config.write('[filter "%s"]' % name.replace("\\", r"\\") + f'\n\t{kind} = {repository.evil}\n\trequired = true\n')
    repository.change()
    run(combu, repository, "run", "--wait")
    reproduce = run(combu, repository, "show", "--reproduce", "one").stdout
    assert not repository.canary.exists()
    now = shown(combu, repository)
    assert (now["commit"], now["dirty"], now["diff"]) == (repository.commit, False, None)
    assert now["by_index"] == ["code.py"] and "new.py" in now["untracked"]
    assert "# files with a git filter, compared by the index only: code.py\n" in reproduce


@pytest.mark.parametrize("place_of_setting", ["include", "worktree", "user"])
def test_no_filter_of_another_file_of_settings_runs(combu, repository, place_of_setting):
    text = f'[filter "evil"]\n\tclean = {repository.evil}\n[core]\n\tfsmonitor = {repository.evil}\n'
    if place_of_setting == "include":
        (repository.folder / ".git/included").write_text(text)
        repository.set("include.path", "included")
    elif place_of_setting == "worktree":
        repository.set("extensions.worktreeConfig", "true")
        (repository.folder / ".git/config.worktree").write_text(text)
    else:
        (repository.folder / ".gitconfig").write_text(text)
    repository.attribute("code.py filter=evil")
    repository.change()
    run(combu, repository, "run", "--wait")
    run(combu, repository, "show", "--reproduce", "one")
    assert not repository.canary.exists()
    assert shown(combu, repository)["by_index"] == ["code.py"]


# ---- settings that lead elsewhere, or change


@pytest.mark.parametrize("place_of_tree", ["beside", "above"])
def test_a_work_tree_elsewhere_is_not_compared(combu, repository, tmp_path, place_of_tree):
    """The work tree that the settings name is another repository, with a filter."""
    inner = tmp_path / "inner"
    inner.mkdir()
    if place_of_tree == "above":  # the experiment is in the inner repository, whose work tree is the outer one
        owner, tree = inner, repository.folder
        repository("init", "-q", folder=inner)
        (inner / "experiment.jsonnet").write_text(FILE)
        repository("add", "-A", folder=inner)
        repository("commit", "-qm", "one", folder=inner)
        repository("config", "core.worktree", str(tree), folder=inner)
    else:
        owner, tree = repository.folder, inner
        repository("init", "-q", folder=inner)
        repository.set("core.worktree", inner)
    repository("--git-dir", str(tree / ".git"), "config", "filter.evil.clean", str(repository.evil), folder=tree)
    for name in ("code.py", "experiment.jsonnet"):
        (tree / name).write_text("changed\n" if name == "code.py" else FILE + "\n")
    (tree / ".gitattributes").write_text("* filter=evil\n")
    repository.file = owner / "experiment.jsonnet"
    repository.canary.unlink(missing_ok=True)
    done = run(combu, repository, "run", "--wait")
    reproduce = run(combu, repository, "show", "--reproduce", "one").stdout
    assert not repository.canary.exists()
    reason = f"core.worktree of {owner}/.git names {tree}, which is not the folder of that repository; combu compares nothing there"
    assert f"{owner}: the folder's version is not recorded, or only in part: {reason}\n" in done.stderr
    assert f"# the folder's version is not recorded, or only in part: {reason}\n" in reproduce
    assert shown(combu, repository)["commit"] is None


def test_settings_that_change_from_call_to_call_start_no_program(combu, repository, tmp_path):
    """The included file has no filter when it is read first, and a filter at each later read."""
    fifo = tmp_path / ".git/included"
    os.mkfifo(fifo)
    repository.attribute("* filter=evil")
    repository.set("include.path", "included")
    texts = ["[core]\n", f'[filter "evil"]\n\tclean = {repository.evil}\n[core]\n\tfsmonitor = {repository.evil}\n']
    over = threading.Event()

    def answer():
        count = 0
        while not over.is_set():
            with open(fifo, "w") as writer:  # open() blocks until there is a reader
                if not over.is_set():
                    writer.write(texts[min(count, 1)])
            count += 1
            wait_until(lambda: over.is_set() or not readers(fifo), "the reader to close the file")

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        (tmp_path / "code.py").write_text("two\n")
        done = [run(combu, repository, *command) for command in (["run", "--wait"], ["show", "--reproduce", "one"])]
    finally:
        over.set()
        while thread.is_alive():  # unblocks the thread's open()
            os.close(os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
            thread.join(0.01)
    assert not repository.canary.exists()
    assert [each.returncode for each in done] == [1, 0]


def readers(fifo):
    """Returns the processes other than this one that have the file open."""
    found = []
    for link in glob.glob("/proc/[0-9]*/fd/*"):  # ignores processes that end meanwhile, unlike Path.glob()
        try:
            if link.split("/")[2] != str(os.getpid()) and os.readlink(link) == str(fifo):
                found.append(link)
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found


@pytest.mark.parametrize("variables", [
    {"GIT_EXTERNAL_DIFF": "{evil}"},
    {"GIT_PAGER": "{evil}", "PAGER": "{evil}", "GIT_EDITOR": "{evil}", "GIT_ASKPASS": "{evil}", "GIT_SSH_COMMAND": "{evil}", "GIT_SSH": "{evil}"},
    {"GIT_CONFIG_PARAMETERS": "'core.fsmonitor={evil}' 'diff.external={evil}'"},
    {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "{evil}", "GIT_CONFIG_KEY_1": "filter.evil.clean",
     "GIT_CONFIG_VALUE_1": "{evil}"},
    {"GIT_DIR": "/nowhere"}, {"GIT_WORK_TREE": "/"}, {"GIT_INDEX_FILE": "/nowhere"}, {"GIT_CONFIG": "/dev/null"},
    {"GIT_LITERAL_PATHSPECS": "1"}, {"GIT_TRACE": "{canary}"},
], ids=lambda each: next(iter(each)))
def test_variables_for_git_change_nothing(combu, repository, variables):
    repository.set("filter.evil.clean")
    repository.attribute("other filter=evil")
    (repository.folder / ".env").write_text("TOKEN=old\n")
    repository("add", "-f", ".env")
    repository("commit", "-qm", "two")
    (repository.folder / ".env").write_text("TOKEN=hunter2\n")
    repository.change()
    env = {name: value.format(evil=repository.evil, canary=repository.canary) for name, value in variables.items()}
    assert run(combu, repository, "run", "--wait", env=env).returncode == 1
    assert not repository.canary.exists()
    now = shown(combu, repository)
    assert "-one\n+two\n" in now["diff"] and "hunter2" not in now["diff"]
    assert (now["left_out"], now["by_index"]) == ([".env"], [])


SECRETS = """{ secrets: { a: { file: "token" }, b: { file: "~/keys/b" }, c: { file: "sub/../link/c" }, d: { env: "PATH" } },
  trials: [{ name: "one", image: "x", cmd: "true" }] }"""


def test_files_of_secrets_are_left_out_of_the_diff(combu, repository):
    files = {"token": "token", "keys/b": "keys/b", "link/c": "real/c"}
    (repository.folder / "real").mkdir()
    (repository.folder / "keys").mkdir()
    (repository.folder / "link").symlink_to("real")
    repository.file.write_text(SECRETS)
    for value in ("old", "hunter2"):
        for name in files:
            (repository.folder / name).write_text(f"{value}\n")
        if value == "old":
            repository("add", "-A")
            repository("commit", "-qm", "two")
    repository.change()
    assert run(combu, repository, "run", "--wait").returncode == 0
    now = shown(combu, repository)
    assert "-one\n+two\n" in now["diff"] and "hunter2" not in now["diff"]
    assert sorted(now["left_out"]) == sorted(files.values())


# ---- useful filters


@pytest.fixture
def large_files(repository, tmp_path):
    """Filters like those of Git LFS: the index has the hash of the content. They are in the user's settings."""
    store = tmp_path / ".git/store"
    store.mkdir()
    (store / "clean").write_text(f"#!/bin/sh\ncat >{store}/in && sha256sum <{store}/in | cut -d' ' -f1 | tee {store}/out && cp {store}/in {store}/$(cat {store}/out)\n")
    (store / "smudge").write_text(f"#!/bin/sh\ncat {store}/$(cat)\n")
    for name in ("clean", "smudge"):
        (store / name).chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f'[filter "large"]\n\tclean = {store}/clean\n\tsmudge = {store}/smudge\n\trequired = true\n')
    repository.attribute("*.bin filter=large", ".gitattributes")
    (tmp_path / "data").mkdir()
    for name in ("a.bin", "data/ü \"b\".bin"):
        (tmp_path / name).write_text("content of " + name)
        make_old(tmp_path / name)
    repository("add", "-A")
    repository("commit", "-qm", "large files")
    return ["a.bin", '"data/\\303\\274 \\"b\\".bin"']


def make_old(path):
    """Sets an old time: git compares the content of a file that is as new as the index, since it may have been written later at
    the same time."""
    os.utime(path, (2, 2))


def touch(repository, content=None):
    for path in repository.folder.rglob("*.bin"):
        path.write_text(content or path.read_text())
        os.utime(path, (1, 1))


def test_files_with_a_filter_are_clean(combu, repository, large_files):
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert (now["dirty"], now["diff"], now["by_index"], now["untracked"]) == (False, None, [], [])
    assert "git filter" not in run(combu, repository, "show", "--reproduce", "one").stdout


@pytest.mark.parametrize("content", [None, "changed"])
def test_files_with_a_filter_that_may_differ_are_listed_and_not_dirty(combu, repository, large_files, content):
    touch(repository, content)
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert (now["dirty"], now["diff"], now["by_index"]) == (False, None, large_files)
    reproduce = run(combu, repository, "show", "--reproduce", "one").stdout
    assert f"# files with a git filter, compared by the index only: {', '.join(large_files)}\n" in reproduce
    assert "git checkout" not in reproduce
    assert "2 files with a git filter, compared only by the git index" in run(combu, repository, "show", "one").stdout


def test_other_changes_beside_them_are_on_record(combu, repository, large_files):
    touch(repository)
    repository.change()
    (repository.folder / ".env").write_text("TOKEN=hunter2\n")
    repository("add", "-f", ".env")
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert (now["dirty"], now["by_index"], now["left_out"]) == (True, large_files, [".env"])
    assert "-one\n+two\n" in now["diff"] and ".bin" not in now["diff"] and "hunter2" not in now["diff"]


@pytest.mark.parametrize("touched", [False, True])
def test_the_index_of_files_with_a_filter_is_compared(combu, repository, large_files, touched):
    (repository.folder / "a.bin").write_text("new content")
    make_old(repository.folder / "a.bin")
    repository("add", "a.bin")
    if touched:
        touch(repository)
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    pointers = [hashlib.sha256(text).hexdigest() for text in (b"content of a.bin", b"new content")]
    assert now["dirty"] and f"-{pointers[0]}\n+{pointers[1]}\n" in now["diff"]
    assert now["by_index"] == (large_files if touched else [])


def test_a_filter_attribute_without_a_filter_is_an_ordinary_file(combu, repository):
    """For example, a clone on a machine without Git LFS."""
    repository.attribute("code.py filter=lfs")
    repository.change()
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert now["dirty"] and "-one\n+two\n" in now["diff"] and now["by_index"] == []


def test_changes_of_more_files_than_fit_into_a_command_line(combu, repository):
    folder = repository.folder / ("d" * 250)
    folder.mkdir()
    for i in range(400):
        (folder / f"file-{i}").write_text("one\n")
    repository("add", "-A")
    repository("commit", "-qm", "many")
    for i in range(400):
        (folder / f"file-{i}").write_text("two\n")
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert now["diff"].count("\n-one\n+two\n") == 400


# ---- forms of repositories


def linked_work_tree(repository, tmp_path):
    repository("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    return tmp_path / "linked"


def split_index(repository, tmp_path):
    repository("update-index", "--split-index")
    assert list((tmp_path / ".git").glob("sharedindex.*"))
    return tmp_path


def sparse_checkout(repository, tmp_path):
    repository("sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    assert not (tmp_path / "left").exists()
    return tmp_path


def git_folder_elsewhere(repository, tmp_path):
    repository("init", "-q", f"--separate-git-dir={tmp_path}/old")
    assert (tmp_path / ".git").is_file()
    return tmp_path


def sha256(repository, tmp_path):
    shutil.rmtree(tmp_path / ".git")
    repository("init", "-q", "-b", "main", "--object-format=sha256")
    repository("add", "-A")
    repository("commit", "-qm", "one")
    return tmp_path


def submodule_itself(repository, tmp_path):
    """The submodule's settings name its work tree."""
    outer = tmp_path / "old"
    outer.mkdir()
    repository("init", "-q", folder=outer)
    repository("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(tmp_path), "sub", folder=outer)
    assert repository("config", "core.worktree", folder=outer / "sub").strip() == "../../../sub"
    return outer / "sub"


def objects_elsewhere(repository, tmp_path):
    shutil.move(tmp_path / ".git/objects", tmp_path / "old")
    (tmp_path / ".git/objects/info").mkdir(parents=True)
    (tmp_path / ".git/objects/info/alternates").write_text(f"{tmp_path}/old\n")
    return tmp_path


@pytest.mark.parametrize("form", [linked_work_tree, split_index, sparse_checkout, git_folder_elsewhere, sha256, submodule_itself,
                                  objects_elsewhere],
                         ids=lambda each: each.__name__)
def test_all_forms_of_repositories_are_compared(combu, repository, tmp_path, form):
    for folder in ("kept", "left"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "file").write_text("one\n")
    repository("add", "-A")
    repository("commit", "-qm", "two")
    folder = form(repository, tmp_path)
    commit = repository("rev-parse", "HEAD", folder=folder).strip()
    repository.file = folder / "experiment.jsonnet"
    run(combu, repository, "run", "--wait")
    before = shown(combu, repository)
    assert (before["commit"], before["dirty"], before["diff"]) == (commit, False, None)
    (folder / "code.py").write_text("two\n")
    (folder / "new.py").write_text("new\n")
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert now["dirty"] and "-one\n+two\n" in now["diff"] and now["diff"].count("diff --git") == 1
    assert "new.py" in now["untracked"]


def test_settings_of_files_hold(combu, repository, tmp_path):
    """Line ends, modes and ignored files are compared with the repository's settings, like git does."""
    repository.set("core.autocrlf", "true")
    repository.set("core.fileMode", "false")
    repository.set("core.excludesFile", tmp_path / "old")
    (tmp_path / "old").write_text("ignored.py\n")
    (tmp_path / ".git/info/exclude").write_text("excluded.py\n")
    for name in ("ignored.py", "excluded.py", "new.py"):
        (tmp_path / name).write_text("new\n")
    (tmp_path / "code.py").write_bytes(b"one\r\n")
    (tmp_path / "code.py").chmod(0o755)
    run(combu, repository, "run", "--wait")
    now = shown(combu, repository)
    assert (now["dirty"], now["diff"], now["untracked"]) == (False, None, ["new.py"])


def test_a_change_in_the_moment_of_the_index_is_found(combu, repository, tmp_path):
    """The changed file has the size and time that the index has recorded."""
    repository.set("core.trustctime", "false")
    code, index = tmp_path / "code.py", tmp_path / ".git/index"
    make_old(code)
    repository("update-index", "--refresh")
    code.write_text("two\n")
    make_old(code)
    make_old(index)
    run(combu, repository, "run", "--wait")
    assert "-one\n+two\n" in shown(combu, repository)["diff"]


def test_comparing_changes_nothing_in_the_repository(combu, repository, tmp_path):
    (tmp_path / "code.py").write_text("one\n")
    os.utime(tmp_path / "code.py", (1, 1))  # git would write the new time to the index
    (tmp_path / "experiment.jsonnet").write_text(FILE + "\n")

    def files():
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in (tmp_path / ".git").rglob("*") if path.is_file()}

    before = files()
    run(combu, repository, "run", "--wait", env={"TMPDIR": str(tmp_path / ".git")})
    assert files() == before
    assert shown(combu, repository)["dirty"]


# ---- repositories that git refuses


def test_why_git_gives_no_version_is_on_record(combu, repository, tmp_path):
    (tmp_path / ".git/HEAD").unlink()
    done = run(combu, repository, "run", "--wait")
    reason = f"git does not accept {tmp_path}/.git; `git -C {tmp_path} status` shows the reason"
    assert f"{tmp_path}: the folder's version is not recorded, or only in part: {reason}\n" in done.stderr
    shutil.rmtree(tmp_path / ".git")
    reproduce = run(combu, repository, "show", "--reproduce", "one").stdout
    assert f"# the folder's version is not recorded, or only in part: {reason}\n" in reproduce
    assert "was not under version control" not in reproduce


@pytest.mark.parametrize("is_found", [True, False])
def test_a_repository_above_the_ceilings_is_none(combu, repository, tmp_path, is_found):
    (tmp_path / ".git/HEAD").unlink()
    folder = tmp_path / "lab"
    folder.mkdir()
    repository.file = folder / "experiment.jsonnet"
    repository.file.write_text(FILE)
    done = run(combu, repository, "run", "--wait", env={} if is_found else {"GIT_CEILING_DIRECTORIES": f"/nowhere:{tmp_path}"})
    assert ("git does not accept" in done.stderr) == is_found


def test_a_repository_without_a_commit_is_named(combu, write, tmp_path):
    file = write(FILE)
    subprocess.run([GIT, "init", "-q", tmp_path], check=True)
    done = combu("-f", file, "--engine", SIMULATED, "run", "--wait")
    assert f"{tmp_path}/.git has no commit\n" in done.stderr


def test_without_git_a_repository_is_named(combu, repository, tmp_path):
    done = run(combu, repository, "run", "--wait", env={"PATH": str(tmp_path)})
    assert "git cannot be run: No such file or directory\n" in done.stderr
    shutil.rmtree(tmp_path / ".git")
    assert "git" not in run(combu, repository, "run", "--wait", env={"PATH": str(tmp_path)}).stderr


# ---- a git that hangs


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("command", [["run", "--wait"], ["show", "--reproduce", "one"]], ids=["run", "show"])
def test_a_git_that_waits_ends_with_combu(combu, repository, tmp_path, number, command):
    run(combu, repository, "run", "--wait")
    fifo = tmp_path / ".git/attributes"
    os.mkfifo(fifo)
    repository.set("core.attributesFile", fifo)
    (tmp_path / "code.py").write_text("two\n")
    place = tmp_path / "old"
    place.mkdir()
    env = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(place)}
    with subprocess.Popen([COMBU, "-f", repository.file, "--engine", "simulated:", *command], env=env, stderr=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL) as process:
        with open(fifo, "w") as writer:  # open() blocks until git reads the file
            process.send_signal(number)
            assert process.wait(30) == -number
            wait_until(lambda: broken(writer), "the end of git")
    assert number == signal.SIGKILL or not list(place.iterdir())


def broken(pipe):
    """True if all readers have closed the pipe."""
    poll = select.poll()
    poll.register(pipe, 0)
    return bool(poll.poll(0))


# ---- users


@pytest.fixture
def spied(place):  # noqa: F811
    """Installs a `git` that records its user and groups; returns a function that returns the recorded lines."""
    log = place / "log"
    log.touch()
    log.chmod(0o666)
    (place / "bin").mkdir()
    (place / "bin/git").write_text(f'#!/bin/sh\necho "$(id -u):$(id -g):$(id -G) $HOME" >>{log}\nexec {GIT} "$@"\n')
    (place / "bin/git").chmod(0o755)
    subprocess.run([GIT, "init", "-q", place], check=True)
    subprocess.run([GIT, "-C", place, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "one", "--allow-empty"], check=True)
    return lambda: set(log.read_text().splitlines())


def test_under_sudo_git_runs_as_the_caller(place, spied):  # noqa: F811
    as_root("mkdir", "-m", "700", place / "root")
    (place / "code.py").write_text("one\n")
    subprocess.run([GIT, "-C", place, "add", "code.py"], check=True)
    subprocess.run([GIT, "-C", place, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "two"], check=True)
    (place / "code.py").write_text("two\n")
    (place / ".git/index").chmod(0o600)
    as_root("chown", "-R", f"{USER}:{GROUP}", place / ".git")
    as_root("chown", f"{USER}:{GROUP}", place)
    sudo = run_in(place, place / "root", f"SUDO_UID={USER}", f"SUDO_GID={GROUP}", f"PATH={place}/bin:{os.environ['PATH']}")
    for command in (["run", "--wait"], ["show", "--reproduce", "tt"]):
        done = sudo(*command)
        assert done.returncode == 0, done.stderr
    assert spied() == {f"{USER}:{GROUP}:{GROUP} /"}
    assert "was not under version control" not in done.stdout
    now = json.loads(sudo("show", "tt", "--json").stdout)
    assert len(now["commit"]) == 40 and "-one\n+two\n" in now["diff"]


def test_under_sudo_a_repository_of_another_user_is_not_accepted(place, spied):  # noqa: F811
    as_root("mkdir", "-m", "700", place / "root")
    sudo = run_in(place, place / "root", f"SUDO_UID={USER}", f"SUDO_GID={GROUP}")
    reason = f"git does not accept {place}/.git; `git -C {place} status` shows the reason\n"
    assert reason in sudo("run", "--wait").stderr
    assert reason in sudo("show", "--reproduce", "tt").stdout


def test_without_a_folder_for_temporary_files_the_reason_is_named(combu, repository, tmp_path):
    done = run(combu, repository, "run", "--wait", env={"TMPDIR": str(tmp_path / "missing")})
    assert "cannot use the folder for temporary files: No such file or directory; set TMPDIR\n" in done.stderr


def test_without_sudo_git_runs_as_the_user_in_its_home(place, spied):  # noqa: F811
    as_root("mkdir", "-m", "700", place / "root")
    done = run_in(place, place / "root", f"PATH={place}/bin:{os.environ['PATH']}")("run", "--wait")
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in spied()] == ["0"] and all(line.endswith(f" {place}/root") for line in spied())
