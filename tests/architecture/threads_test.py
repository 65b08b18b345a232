"""The thread sanitizer leaves out test programs that start no thread: the list in tests/CMakeLists.txt stays true."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = re.search(r"set\(single_threaded ([^)]+)\)", (ROOT / "tests/CMakeLists.txt").read_text(encoding="utf-8"))[1].split()
STARTS_THREADS = re.compile(r"std::(jthread|thread|async)\b|\bin_parallel\(|pthread_create")


def sources(program):
    """The program's own files, and those of the room that it tests."""
    room = program.removeprefix("unit_").split("_")[0]
    if room == "golden":
        return [*ROOT.glob("tests/golden/*.cpp"), *ROOT.glob("src/plan/*.?pp")]
    return [*ROOT.glob(f"tests/unit/{room}_*.cpp"), *ROOT.glob(f"include/combu/{room}.hpp"), *ROOT.glob(f"src/{room}/**/*.?pp")]


def test_the_programs_without_threads_start_none():
    assert PROGRAMS and all(sources(program) for program in PROGRAMS)
    starting = {
        f"{program}: {file.relative_to(ROOT)}"
        for program in PROGRAMS
        for file in sources(program)
        if STARTS_THREADS.search(file.read_text(encoding="utf-8"))
    }
    assert starting == set()
