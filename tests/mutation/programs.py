"""Builds the test programs with mutants in one room, and runs their tests."""

import json
import os
import re
import resource
import shlex
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mutants
from mutants import Mutant

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/mutation/build"
JOBS = os.cpu_count() or 1
LEFT_OUT = {"unit_jsonnet", "unit_jsonnet_texts"}  # these take longest, and use no room whose mutants are of interest
STALL_MAX = 6  # seconds without output, beside ten times the duration of the longest test, after which a program hangs
MEMORY_MAX = 8 << 30  # bytes of address space
FILE_MAX = 4 << 30  # bytes of a file
QUICK = 0.2  # seconds; faster tests run first


class Failure(Exception):
    """The tool cannot continue."""


def run(*command: str) -> str:
    """Runs a command in BUILD and returns its output. Raises Failure if the command fails."""
    done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise Failure(f"{shlex.join(command)} failed: {done.stderr or done.stdout}")
    return done.stdout


def build_tests() -> None:
    """Builds the test programs without mutants. The standard library's assertions are on, to find bad accesses."""
    BUILD.mkdir(parents=True, exist_ok=True)
    run("cmake", "-S", str(ROOT), "--preset", "release", "-B", str(BUILD), "-DCOMBU_TESTS=ON",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O1 -w -D_GLIBCXX_ASSERTIONS")
    run("cmake", "--build", str(BUILD), "--parallel", str(JOBS), "--target", *test_names())


def test_names() -> list[str]:
    return [it["name"] for it in json.loads(run("ctest", "--show-only=json-v1"))["tests"] if it["name"] not in LEFT_OUT]


class Room:
    """The files of a room, and their mutants."""

    def __init__(self, name: str):
        self.name = name
        self.folder = ROOT / "build/mutation" / name
        commands = json.loads((BUILD / "compile_commands.json").read_text(encoding="utf-8"))
        self.commands = {
            Path(it["file"]): shlex.split(it["command"])
            for it in sorted(commands, key=lambda it: it["file"]) if Path(it["file"]).parent == ROOT / "src" / name
        }
        if not self.commands:
            raise Failure(f"{name}: there is no file src/{name}/*.cpp")
        self.folder.mkdir(parents=True, exist_ok=True)

    def find(self) -> list[Mutant]:
        def of(file: Path) -> list[Mutant]:
            return mutants.find(file, [it for it in self.commands[file] if it.startswith(("-I", "-D", "-std="))])

        with ThreadPoolExecutor(JOBS) as pool:
            return [it for found in pool.map(of, self.commands) for it in found]

    def compile(self, ordered: list[Mutant], count: int) -> dict[int, Mutant]:
        """Compiles the first `count` mutants that the compiler accepts into one library. Returns {number: mutant}."""
        chosen: dict[int, Mutant] = {}
        stale = set(self.commands)
        taken = 0
        while stale or (len(chosen) < count and taken < len(ordered)):
            while len(chosen) < count and taken < len(ordered):
                chosen[taken] = ordered[taken]
                stale.add(ordered[taken].file)
                taken += 1
            with ThreadPoolExecutor(JOBS) as pool:
                refused = list(pool.map(lambda file: self.compile_file(file, chosen), sorted(stale)))
            chosen = {number: it for number, it in chosen.items() if not any(number in of_file for of_file in refused)}
            stale.clear()
        library = self.folder / f"libcombu_{self.name}.a"
        library.unlink(missing_ok=True)
        run("ar", "qcs", str(library), *(str(self.object(file)) for file in self.commands))
        return chosen

    def compile_file(self, file: Path, chosen: dict[int, Mutant]) -> set[int]:
        """Compiles the file with all its mutants that the compiler accepts. Returns the numbers of the refused mutants."""
        own = {number: it for number, it in chosen.items() if it.file == file}
        refused: set[int] = set()
        while errors := self.errors(file, own, "-o", str(self.object(file))):
            lines = {int(line) for line in re.findall(rf"/{re.escape(file.name)}:(\d+):", errors)}
            suspects = [number for number, it in own.items() if any(it.line <= line <= it.last_line for line in lines)]
            bad = [it for it in suspects or own if self.errors(file, {it: own[it]}, "-fsyntax-only")]
            if not bad:
                raise Failure(f"{file}: compilation with mutants failed: {errors}")
            refused.update(bad)
            own = {number: it for number, it in own.items() if number not in refused}
        return refused

    def object(self, file: Path) -> Path:
        return self.folder / f"{file.stem}.o"

    def errors(self, file: Path, own: dict[int, Mutant], *options: str) -> str:
        command = list(self.commands[file])
        at = command.index("-o")
        del command[at:at + 2]
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            copy = Path(folder) / file.name
            copy.write_bytes(mutants.write(file.read_bytes(), own))
            command[command.index("-c") + 1] = str(copy)
            command += ["-iquote", str(file.parent), *options]
            done = subprocess.run(command, cwd=BUILD, capture_output=True, text=True, errors="replace", check=False)
        return done.stderr if done.returncode else ""

    def link(self) -> list["Program"]:
        """Links all test programs of ctest that use the room. Returns them with the room's own unit tests first."""
        chooser = self.folder / "mutant.o"
        run("c++", "-std=c++20", "-O2", "-c", str(Path(__file__).parent / "mutant.cpp"), "-o", str(chooser))
        library = f"libcombu_{self.name}.a"
        programs = []
        for name in test_names():
            line = run("ninja", "-t", "commands", "-s", name).strip()
            command = shlex.split(line.removeprefix(": && ").removesuffix(" && :"))
            if library not in command:
                continue
            command[command.index(library)] = str(self.folder / library)
            at = command.index("-o") + 1
            command[at:at + 1] = [str(self.folder / name), str(chooser)]
            run(*command)
            programs.append(Program(self.folder / name))
        return sorted(programs, key=lambda it: (it.name != f"unit_{self.name}", it.name))


class Program:
    """A test program, the duration of its tests, and the tests that execute each mutant."""

    def __init__(self, path: Path):
        self.path = path
        self.name = path.name
        self.seconds: dict[str, float] = {}
        self.reaching: dict[int, list[str]] = {}

    def look(self) -> None:
        """Runs all tests without a mutant, and fills `seconds` and `reaching`."""
        reached = self.path.with_suffix(".reached")
        reached.unlink(missing_ok=True)
        reached.with_suffix(".reached.array").unlink(missing_ok=True)
        ended, output = self.run(120, {"COMBU_MUTANTS_REACHED": str(reached)})
        if ended:
            raise Failure(f"{self.name} {ended} without a mutant: {output[-2000:]}")
        for line in reached.read_text(encoding="utf-8").splitlines():
            test, milliseconds, *numbers = line.split()
            self.seconds[test] = int(milliseconds) / 1000
            for number in numbers:
                self.reaching.setdefault(int(number), []).append(test)

    def finds(self, number: int, quick: bool) -> str:
        """Runs the quick or the slow tests that execute the mutant. Returns the test that finds it, or "" if none does."""
        tests = [it for it in self.reaching.get(number, []) if (self.seconds[it] < QUICK) == quick]
        if not tests:
            return ""
        stall = STALL_MAX + 10 * max(self.seconds[it] for it in tests)
        ended, output = self.run(stall, {"COMBU_MUTANT": str(number), "GTEST_FILTER": ":".join(tests), "GTEST_FAIL_FAST": "1"})
        if not ended:
            return ""
        failed = re.findall(r"^\[  FAILED  \] ([^\s,]+)", output, re.MULTILINE)
        begun = re.findall(r"^\[ RUN      \] (\S+)", output, re.MULTILINE)
        test = (failed[:1] or begun[-1:] or [""])[0]
        return f"{self.name} {test}" + (" (time-out)" if ended == "timed out" else "")

    def run(self, stall: float, environment: dict[str, str]) -> tuple[str, str]:
        """Runs the program. Returns how it ended ("", "failed" or "timed out") and its output.

        If the program prints nothing for `stall` seconds, it is killed and has timed out.
        """
        folder = tempfile.mkdtemp(prefix="combu-mutation-")
        try:
            return self.run_in(Path(folder), stall, environment)
        finally:
            # A mutant may leave folders nested too deep for shutil.rmtree().
            subprocess.run(["rm", "-rf", folder], stderr=subprocess.DEVNULL, check=False)

    def run_in(self, folder: Path, stall: float, environment: dict[str, str]) -> tuple[str, str]:
        output = folder / "output"
        scratch = folder / "tmp"
        scratch.mkdir()
        with output.open("wb") as out, subprocess.Popen(
                [str(self.path)], cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, "TMPDIR": str(scratch), **environment}, preexec_fn=_limit) as process:
            size, since = 0, time.monotonic()
            while (status := _wait(process)) is None and time.monotonic() - since < stall:
                if output.stat().st_size != size:
                    size, since = output.stat().st_size, time.monotonic()
            ended = "timed out" if status is None else "failed" if status else ""
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return ended, output.read_bytes()[-(1 << 20):].decode(errors="replace")


def _wait(process: subprocess.Popen) -> int | None:
    try:
        return process.wait(0.5)
    except subprocess.TimeoutExpired:
        return None


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_MAX, FILE_MAX))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
