from pathlib import Path

import pytest

import layers

ROOT = Path(__file__).resolve().parents[2]

TABLE = """
| layer | room | its door | may use |
|---|---|---|---|
| 0 | base | `Error` | – |
| 1 | spec | `read` | base |
| 1 | http | `Channel` | base |
| 2 | plan | `make_plan` | spec |
"""


@pytest.fixture
def tree(tmp_path):
    """A function: tree({path: text}) makes a small source tree that follows TABLE, with these files added or replaced.

    Returns the root of the tree.
    """

    def make(files, table=TABLE):
        whole = {
            "docs/architecture.md": table,
            "include/combu/base.hpp": "",
            "include/combu/spec.hpp": '#include "combu/base.hpp"\n',
            "include/combu/http.hpp": "",
            "include/combu/plan.hpp": '#include <vector>\n#include "combu/base.hpp"\n#include "combu/spec.hpp"\n',
            "src/plan/cycle.hpp": "",
            "src/plan/plan.cpp": '#include "cycle.hpp"\n#include "generated.hpp"\n',
            "src/main.cpp": '#include "combu/plan.hpp"\n',
        }
        for path, text in {**whole, **files}.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(text, encoding="utf-8")
        return tmp_path

    return make


def test_the_includes_of_combu_follow_the_table():
    assert layers.faults(ROOT) == []


def test_the_check_reads_every_source_file_of_combu():
    seen = set(layers.sources(ROOT))
    assert seen == {p for folder in ("src", "include") for ending in ("*.[ch]pp", "*.h") for p in (ROOT / folder).rglob(ending)}
    assert {layers.room_of(ROOT, p) for p in seen} - {None} == set(layers.read_table(ROOT))


def test_a_tree_that_follows_the_table_passes(tree):
    assert layers.faults(tree({})) == []


@pytest.mark.parametrize(
    "path, text, fault",
    [
        ("src/spec/read.cpp", '#include "combu/plan.hpp"\n', "src/spec/read.cpp:1: spec may not use plan"),
        ("src/spec/read.cpp", '\n#  include <combu/plan.hpp>\n', "src/spec/read.cpp:2: spec may not use plan"),
        ("src/spec/deep/read.hpp", '#include "../../plan/cycle.hpp"\n', "src/spec/deep/read.hpp:1: spec may not use plan"),
        ("src/spec/read.cpp", '#include "plan/cycle.hpp"\n', "src/spec/read.cpp:1: spec may not use plan"),
        ("include/combu/base.hpp", '#include "combu/spec.hpp"\n', "include/combu/base.hpp:1: base may not use spec"),
        ("src/http/channel.cpp", '#include "combu/spec.hpp"\n', "src/http/channel.cpp:1: http may not use spec"),
        ("src/attic/old.cpp", "", "docs/architecture.md: the table lacks the room attic"),
        ("include/combu/attic.hpp", "", "docs/architecture.md: the table lacks the room attic"),
        ("CMakeLists.txt", "combu_room(spec USES base plan LINKS fmt::fmt)\n", "CMakeLists.txt: spec may not use plan"),
        ("CMakeLists.txt", "  combu_room(spec AS spec_${x} USES plan)\n", "CMakeLists.txt: spec may not use plan"),
        ("CMakeLists.txt", "combu_room(attic)\n", "CMakeLists.txt: builds the room attic, which the table lacks"),
    ],
)
def test_a_violation_is_found(tree, path, text, fault):
    assert layers.faults(tree({path: text})) == [fault]


@pytest.mark.parametrize(
    "row, fault",
    [
        ("| 1 | view | `show` | plan |", "docs/architecture.md: view (layer 1) may use plan of layer 2"),
        ("| 1 | view | `show` | nowhere |", "docs/architecture.md: view may use nowhere, which is no room"),
    ],
)
def test_a_table_row_that_uses_a_higher_or_unknown_room_is_found(tree, row, fault):
    assert layers.faults(tree({}, TABLE + row + "\n")) == [fault]


def test_a_page_without_the_table_is_found(tree):
    assert layers.faults(tree({}, "no table\n")) == ["docs/architecture.md: has no table of rooms"]
