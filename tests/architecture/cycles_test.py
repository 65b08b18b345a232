from pathlib import Path

import pytest

import cycles

ROOT = Path(__file__).resolve().parents[2]
# Known cycles, which have to be removed. Add no further cycle to this list.
KNOWN = [
]


def test_no_files_include_each_other_in_a_cycle():
    assert cycles.cycles(cycles.graph(ROOT)) == KNOWN


@pytest.fixture
def found(tmp_path):
    """A function: found({path: text}) returns the cycles in a source tree of these files."""

    def find(files):
        for folder in ("src", "include/combu"):
            (tmp_path / folder).mkdir(parents=True)
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return cycles.cycles(cycles.graph(tmp_path))

    return find


def test_a_cycle_of_headers_is_found(found):
    assert found({
        "src/a/one.hpp": '#include "two.hpp"\n',
        "src/a/two.hpp": '#include "b/three.hpp"\n',
        "src/b/three.hpp": '#pragma once\n\n#include "a/one.hpp"\n',
        "src/b/four.hpp": '#include "three.hpp"\n',
    }) == [["src/a/one", "src/a/two", "src/b/three"]]


def test_a_header_and_its_source_are_one_unit(found):
    assert found({
        "src/a/one.hpp": '#include "combu/a.hpp"\n',
        "src/a/one.cpp": '#include "one.hpp"\n#include "two.hpp"\n',
        "src/a/two.hpp": "",
        "src/a/two.cpp": '#include "two.hpp"\n#include "a/one.hpp"\n',
        "include/combu/a.hpp": "",
    }) == [["src/a/one", "src/a/two"]]


def test_includes_without_a_cycle_pass(found):
    assert found({
        "src/a/one.cpp": '#include "one.hpp"\n#include "two.hpp"\n#include "three.hpp"\n#include <vector>\n',
        "src/a/one.hpp": '#include "three.hpp"\n',
        "src/a/two.hpp": '#include "three.hpp"\n',
        "src/a/three.hpp": '#include "combu/a.hpp"\n#include "generated.hpp"\n',
        "include/combu/a.hpp": "",
    }) == []
