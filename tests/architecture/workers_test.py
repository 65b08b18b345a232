"""Only the engine of workers and the room spec know what a worker is. The planner, the driver and the record deal with attempts."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Rooms in which the word must not occur, not even for threads.
WITHOUT = ["app", "record", "run", "schedule"]
WITH_AGENT = {"agent", "cli", "simulated", "workers"}


def files_of(root, room):
    return sorted([*(root / "src" / room).rglob("*.?pp"), *(root / "include/combu").glob(f"{room}.hpp")])


def lines_with_the_word(root):
    return [
        f"{path.relative_to(root)}:{number}"
        for room in WITHOUT
        for path in files_of(root, room)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search("worker", line, re.IGNORECASE)
    ]


def rooms_with_the_agents_header(root):
    include = re.compile(r'^\s*#\s*include\s*[<"]combu/agent\.hpp[>"]', re.MULTILINE)
    return {path.relative_to(root / "src").parts[0] for path in (root / "src").rglob("*.?pp") if include.search(path.read_text(encoding="utf-8"))}


def test_the_rooms_of_runs_do_not_contain_the_word():
    assert lines_with_the_word(ROOT) == []


def test_only_these_rooms_include_the_agents_header():
    assert rooms_with_the_agents_header(ROOT) - WITH_AGENT == set()


def test_the_word_and_the_header_are_found(tmp_path):
    for path, text in {"src/run/a.cpp": "int one;\nvoid addWorkers();\n", "src/app/b.hpp": '#include "combu/agent.hpp"\n', "src/docker/c.cpp": "// worker\n"}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    (tmp_path / "include/combu").mkdir(parents=True)
    assert lines_with_the_word(tmp_path) == ["src/run/a.cpp:2"]
    assert rooms_with_the_agents_header(tmp_path) == {"app"}
