"""The list `single_threaded` in tests/CMakeLists.txt has only test programs that start no thread."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = re.search(r"set\(single_threaded ([^)]+)\)", (ROOT / "tests/CMakeLists.txt").read_text(encoding="utf-8"))[1].split()
STARTS_THREADS = re.compile(r"std::(jthread|thread|async)\b|\bin_parallel\(|pthread_create")


def sources(program):
    """Returns the files of the test program and of the room that it tests."""
    room = program.removeprefix("unit_").split("_")[0]
    if room == "golden":
        return [*ROOT.glob("tests/golden/*.cpp"), *ROOT.glob("src/plan/*.?pp")]
    return [*ROOT.glob(f"tests/unit/{room}_*.cpp"), *ROOT.glob(f"include/combu/{room}.hpp"), *ROOT.glob(f"src/{room}/**/*.?pp")]


def test_single_threaded_programs_start_no_thread():
    assert PROGRAMS and all(sources(program) for program in PROGRAMS)
    starting = {
        f"{program}: {file.relative_to(ROOT)}"
        for program in PROGRAMS
        for file in sources(program)
        if STARTS_THREADS.search(file.read_text(encoding="utf-8"))
    }
    assert starting == set()
