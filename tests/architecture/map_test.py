"""The files and functions that docs/architecture.md names in "Where to make a change" exist, and it names every source file."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"[\w./*-]+\.(?:cpp|hpp|json|jsonnet|libsonnet|rs|py|md)")
NAME = re.compile(r"[A-Za-z_]\w*(?:::\w+)*(?:\((?:[A-Z]\w+)?\))?")  # function, Class::function, function(Event)


def files_of(name):
    """The files that a path of the map means: below src, or below the root."""
    name = re.sub("COMMAND|NAME", "*", name)
    return sorted(ROOT.glob(f"src/{name}")) or sorted(ROOT.glob(name))


def faults_of(row):
    """The paths of a row without a file, and the names that none of its files has."""
    words = re.findall(r"`([^`]+)`", row)
    files = [word for word in words if FILE.fullmatch(word)]
    rooms = [word for word in words if (ROOT / "src" / word).is_dir()]
    found = [path for name in files for path in files_of(name)]
    found += [path for room in rooms for path in (ROOT / "src" / room).rglob("*.?pp")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in found)
    names = [word for word in words if NAME.fullmatch(word) and word not in files + rooms]
    return [name for name in files if not files_of(name)] + [
        name for name in names if not re.search(rf"\b{name.partition('(')[0].rpartition('::')[2]}\b", text)
    ]


def rows():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.partition("## Where to make a change")[2].partition("\n### ")[2].partition("\n## ")[0]
    return [line for line in section.splitlines() if line.startswith("| ") and not line.startswith(("| to change", "|--"))]


def test_the_map_names_files_and_functions_that_exist():
    assert len(rows()) > 80
    faults = {row: bad for row in rows() if (bad := faults_of(row.split("|", 2)[2]))}
    assert faults == {}


def test_the_map_names_every_source_file():
    text = "\n".join(rows())
    missing = [
        name
        for path in sorted((ROOT / "src").rglob("*.cpp"))
        if f"`{(name := str(path.relative_to(ROOT / 'src')))}`" not in text
    ]
    assert missing == []


def test_a_wrong_path_and_a_wrong_name_are_found():
    assert faults_of("`run/drive.cpp`: `Drive::loop`") == []
    assert faults_of("`run/driver.cpp`: `Drive::loop`") == ["run/driver.cpp", "Drive::loop"]
    assert faults_of("`run/drive.cpp`: `Drive::circle`") == ["Drive::circle"]
