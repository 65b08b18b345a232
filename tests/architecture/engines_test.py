"""Above the engines, only the room cli knows which engine it has. Other rooms ask for facts and capabilities (Facts)."""

import re
from pathlib import Path

import layers

ROOT = Path(__file__).resolve().parents[2]
EXEMPT = {"docker", "kubernetes", "simulated", "workers", "cli"}  # workers passes the sections for the engines on
ENGINE = re.compile(r"docker|kubernetes|\bpods?\b", re.IGNORECASE)
ALLOWED = {"docker/experiment.jsonnet"}  # an old place of experiment files


def code_of(line):
    """Returns the line without its comment."""
    return re.sub(r'//(?=(?:[^"]*"[^"]*")*[^"]*$).*', "", line)


def rooms_above_the_engines():
    table = layers.read_table(ROOT)
    return sorted(room for room in table if "engine" in layers.reach(table, room) - {room} and room not in EXEMPT)


def lines_that_name_an_engine(root, rooms):
    found = []
    for room in rooms:
        for path in sorted([*(root / "src" / room).rglob("*.?pp"), *(root / "include/combu").glob(f"{room}.hpp")]):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                code = code_of(line)
                for allowed in ALLOWED:
                    code = code.replace(allowed, "")
                if ENGINE.search(code):
                    found.append(f"{path.relative_to(root)}:{number}")
    return found


def test_rooms_above_the_engines_do_not_ask_which_engine_it_is():
    assert lines_that_name_an_engine(ROOT, rooms_above_the_engines()) == []


def test_a_name_in_code_is_found_and_a_comment_is_not(tmp_path):
    (tmp_path / "src/run").mkdir(parents=True)
    (tmp_path / "include/combu").mkdir(parents=True)
    text = '// Docker\nif (engine == "Kubernetes v1") pause();\nint a;  // of a pod\nbool is_docker;\nput("http://docker");\n'
    (tmp_path / "src/run/a.cpp").write_text(text, encoding="utf-8")
    assert lines_that_name_an_engine(tmp_path, ["run"]) == ["src/run/a.cpp:2", "src/run/a.cpp:4", "src/run/a.cpp:5"]
