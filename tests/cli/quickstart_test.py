"""Tests of the sources that scripts/quickstart accepts, in a folder of its own. Nothing is installed, and no engine is
started."""

import functools
import hashlib
import http.server
import os
import shutil
import subprocess
import tarfile
import threading

import pytest
from conftest import ROOT

NAME = f"combu-1.2.3-linux-{os.uname().machine}"


def add(path, text, mode=0o755):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def quickstart(tmp_path):
    """The script ends where it would build combu or install an engine."""
    root = tmp_path / "checkout"
    add(root / "scripts/setup", "#!/bin/sh\ncase $* in *--engine*) exit 7 ;; esac\n")
    shutil.copy(ROOT / "scripts/quickstart", root / "scripts/quickstart")
    add(tmp_path / "bin/cmake", "#!/bin/sh\nexit 6\n")

    def run(*options):
        env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "DOCKER_HOST": "unix:///nowhere"}
        return subprocess.run([root / "scripts/quickstart", *map(str, options)], env=env, capture_output=True, text=True, timeout=60, check=False)

    run.root = root
    return run


@pytest.fixture
def program(tmp_path):
    return add(tmp_path / "built/combu", "#!/bin/sh\necho combu 1.2.3\n")


def pack(program, folder):
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / f"{NAME}.tar.gz", "w:gz") as tarball:
        tarball.add(program, f"{NAME}/combu")
    return folder / f"{NAME}.tar.gz"


def sum_of(file, name):
    return f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {name}\n"


def refusal(sums, name):
    return f"quickstart: {sums} has no checksum of {name}; put SHA256SUMS beside it, or run the program unchecked with --unchecked\n"


@pytest.fixture
def served(tmp_path):
    """A folder and the address at which it is served."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("dist", [False, True])
def test_without_a_release_it_builds(quickstart, dist):
    if dist:
        (quickstart.root / "dist").mkdir()
    done = quickstart()
    assert (done.returncode, done.stdout, done.stderr) == (6, "quickstart: building build/quickstart/combu\n", "")


def test_it_takes_the_release_that_is_there(quickstart, program):
    tarball = pack(program, quickstart.root / "dist")
    (tarball.parent / "SHA256SUMS").write_text(sum_of(tarball, tarball.name))
    done = quickstart()
    assert done.stdout.startswith(f"quickstart: using combu 1.2.3 of dist/{tarball.name}\n")
    assert done.returncode == 7


def test_only_the_very_name_counts_in_the_checksums(quickstart, program, tmp_path):
    """The checksum of a file whose name only begins with the same text is ignored."""
    tarball = pack(program, tmp_path / "release")
    sums = tarball.parent / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  {tarball.name}.asc\n" + sum_of(tarball, tarball.name))
    done = quickstart("--binary", tarball)
    assert done.stdout.startswith(f"quickstart: using combu 1.2.3 of {tarball}\n")
    sums.write_text(sum_of(tarball, f"{tarball.name}.asc"))
    assert refusal(sums, tarball.name) in quickstart("--binary", tarball).stderr
    sums.write_text(f"{'0' * 64}  {tarball.name}\n")
    done = quickstart("--binary", tarball)
    assert done.returncode == 1 and done.stderr.endswith(f"quickstart: {tarball} does not have the checksum that {sums} has for it\n")


def test_an_address_is_checked_by_the_checksums_beside_it(quickstart, program, served):
    folder, address = served
    tarball = pack(program, folder)
    url = f"{address}/{tarball.name}?token=a/b"
    done = quickstart("--binary", url)
    assert done.returncode == 1 and refusal(f"{address}/SHA256SUMS", tarball.name) in done.stderr
    (folder / "SHA256SUMS").write_text(sum_of(tarball, tarball.name))
    done = quickstart("--binary", url)
    assert done.stdout.startswith(f"quickstart: fetching {url}\nquickstart: using combu 1.2.3 of {url}\n")
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  {tarball.name}\n")
    done = quickstart("--binary", url)
    assert done.returncode == 1 and done.stderr.endswith(f"quickstart: {url} does not have the checksum that {address}/SHA256SUMS has for it\n")
    assert quickstart("--binary", f"{address}/nothing").stderr.endswith(f"quickstart: downloading {address}/nothing failed\n")


def test_a_program_need_not_be_executable(quickstart, program, served):
    folder, address = served
    shutil.copy(program, folder / "combu")
    (folder / "SHA256SUMS").write_text(sum_of(program, "combu"))
    assert f"quickstart: using combu 1.2.3 of {address}/combu\n" in quickstart("--binary", f"{address}/combu").stdout
    program.chmod(0o644)
    (program.parent / "SHA256SUMS").write_text(sum_of(program, "combu"))
    assert f"quickstart: using combu 1.2.3 of {program}\n" in quickstart("--binary", program).stdout
    assert program.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("place", ["path", "url"])
def test_a_program_without_a_checksum_is_run_only_if_asked(quickstart, served, tmp_path, place):
    folder, address = served
    canary = tmp_path / "canary"
    add(folder / "combu", f"#!/bin/sh\ntouch {canary}\necho combu 1.2.3\n")
    binary, sums = (f"{address}/combu", f"{address}/SHA256SUMS") if place == "url" else (folder / "combu", folder / "SHA256SUMS")
    done = quickstart("--binary", binary)
    assert (done.returncode, done.stderr) == (1, refusal(sums, "combu"))
    assert not canary.exists()
    done = quickstart("--binary", binary, "--unchecked")
    assert f"quickstart: {sums} has no checksum of combu: the program runs unchecked\nquickstart: using combu 1.2.3 of {binary}\n" in done.stdout
    assert canary.exists()


def test_unchecked_ignores_no_wrong_checksum(quickstart, program):
    sums = program.parent / "SHA256SUMS"
    sums.write_text(f"{'0' * 64}  combu\n")
    done = quickstart("--binary", program, "--unchecked")
    assert done.returncode == 1 and done.stderr.endswith(f"quickstart: {program} does not have the checksum that {sums} has for it\n")


def test_unchecked_needs_binary(quickstart):
    for options in (["--unchecked"], ["--build", "--unchecked"]):
        done = quickstart(*options)
        assert (done.returncode, done.stderr) == (2, "quickstart: --unchecked needs --binary\n")
