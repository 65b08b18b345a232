"""Tests of tests/mutation/mutants.py: it finds all kinds of mutants, and writes a file in which each mutant can be selected.
Tests of tests/mutation/run: it fails if it tried fewer mutants than --count, or if the tests found fewer than nine of ten."""

import importlib.util
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutants  # noqa: E402
import programs  # noqa: E402

PROGRAM = """
#include <cstdio>
constexpr int left_out(int a) { return a < 2 ? a : 2; }
template <class T> bool left_out(T a, T b) { return a == b; }
static_assert(left_out(1) == 1);
int calls = 0;
void call() { ++calls; }
int main() {
  int sum = 0;
  for (int i = 0; i < 3; ++i) sum += i;
  if (sum > 3 && calls == 0) call();
  std::printf("%d %d", sum, calls);
}
"""
# {output of the program: the mutants that cause this output}.
PRINTED = {
    "3 0": {"removed: ++calls", "`==` becomes `!=`: calls == 0", "removed: call()"},
    "3 1": {"`>` becomes `>=`: sum > 3", "`&&` becomes `||`: sum > 3 && calls == 0", "negated: sum > 3 && calls == 0"},
    "6 1": {"`<` becomes `<=`: i < 3"},
    "0 0": {"negated: i < 3", "removed: sum += i"},
    "-3 0": {"`+=` becomes `-=`: sum += i"},
    "": {'removed: std::printf("%d %d", sum, calls)'},
}


@pytest.fixture(name="file")
def _file(tmp_path):
    file = tmp_path / "program.cpp"
    file.write_text(PROGRAM, encoding="utf-8")
    return file


def test_every_mutant_can_be_selected(file):
    found = dict(enumerate(mutants.find(file, ["-std=c++20"])))
    mutated = file.with_name("mutated.cpp")
    mutated.write_bytes(mutants.write(file.read_bytes(), found) +
                        b"#include <cstdlib>\n"
                        b'extern "C" bool combu_mutant(int n) noexcept { return n == std::atoi(std::getenv("N")); }\n')
    subprocess.run(["c++", "-std=c++20", mutated, "-o", file.with_name("mutated")], check=True)

    def printed(number):
        done = subprocess.run([file.with_name("mutated")], env={"N": str(number)}, capture_output=True, text=True, check=True)
        return done.stdout

    assert printed(-1) == "3 0"
    of_each: dict[str, set[str]] = {}
    for number, it in found.items():
        of_each.setdefault(printed(number), set()).add(f"{it.change}: {it.code}")
    assert of_each == PRINTED
    assert {it.line for it in found.values() if it.code.startswith("sum > 3")} == {11}


@pytest.fixture(name="result")
def _result(monkeypatch):
    """A function: result(count, compiled, survivors) returns the tool's exit code, or the message of the error that ends it."""
    loader = SourceFileLoader("mutation_run", str(Path(__file__).resolve().parent / "run"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(tool)

    def result(count, compiled, survivors):
        made = [mutants.Mutant(programs.ROOT / "file.cpp", i, i, 0, 1, "remove", "call()") for i in range(compiled)]

        class Room:
            def __init__(self, name):
                self.name = name

            def find(self):
                return made

            def compile(self, ordered, wanted):
                return dict(enumerate(ordered[:wanted]))

            def link(self):
                return []

        monkeypatch.setattr(tool, "Room", Room)
        monkeypatch.setattr(tool, "build_tests", lambda: None)
        monkeypatch.setattr(tool, "run", lambda *command: "12345678")
        monkeypatch.setattr(tool, "try_mutant", lambda _, number: "" if number < survivors else "a test")
        monkeypatch.setattr(sys, "argv", ["run", "no-such-room", "--count", str(count)])
        try:
            return tool.main()
        except (tool.Failure, SystemExit) as failure:
            return str(failure)

    return result


def test_nine_of_ten_mutants_have_to_be_found(result):
    assert result(30, 100, 3) == 0
    assert result(30, 100, 4) == 1


def test_fewer_mutants_than_count_are_an_error(result):
    assert result(30, 29, 0) == "no-such-room has 29 mutants that the compiler accepts; --count asks for 30"
    assert result(0, 100, 0) == "2"  # wrong usage
