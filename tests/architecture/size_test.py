"""No source or test file has more than 700 lines."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 700
SUFFIXES = {".cpp", ".hpp", ".py"}


def long_files(root):
    """Returns {path: number of lines} of the files above the limit."""
    found = {}
    for folder in ("src", "include", "tests"):
        for path in (root / folder).rglob("*"):
            if path.suffix in SUFFIXES:
                lines = path.read_bytes().count(b"\n")
                if lines > LINES_MAX:
                    found[str(path.relative_to(root))] = lines
    return found


def test_no_file_is_long():
    assert long_files(ROOT) == {}


@pytest.mark.parametrize("name", ["src/cli/deep/large.cpp", "include/combu/large.hpp", "tests/cli/large_test.py"])
def test_a_long_file_is_found(tmp_path, name):
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("\n" * LINES_MAX, encoding="utf-8")
    assert long_files(tmp_path) == {}
    path.write_text("\n" * (LINES_MAX + 1), encoding="utf-8")
    assert long_files(tmp_path) == {name: LINES_MAX + 1}
