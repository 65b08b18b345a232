"""tests/mutation/mutants.py finds the places of every kind of mutant, and writes a file in which each of them can be chosen."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mutants  # noqa: E402

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
# What the program prints with each mutant.
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


def test_every_mutant_can_be_chosen(file):
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
