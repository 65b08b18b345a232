"""Checks the includes of a source tree against the table of rooms in its docs/architecture.md."""

import re
from pathlib import Path

ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*(\w+)\s*\|.*\|([^|]*)\|\s*$")
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(combu/[^>]+)>)')
CMAKE_ROOM = re.compile(r"^\s*combu_room\((\w+)(?:\s+AS\s+\S+)?(?:\s+USES((?:\s+[a-z]+)+))?", re.MULTILINE)


def read_table(root):
    """Returns {room: (layer, {rooms in its column "may use"})}."""
    table = {}
    for line in (root / "docs/architecture.md").read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            uses = {word.strip() for word in row[3].split(",")} - {"", "–"}
            table[row[2]] = (int(row[1]), uses)
    return table


def table_faults(table):
    faults = []
    for room, (layer, uses) in table.items():
        for used in sorted(uses):
            if used not in table:
                faults.append(f"docs/architecture.md: {room} may use {used}, which is no room")
            elif table[used][0] >= layer:
                faults.append(f"docs/architecture.md: {room} (layer {layer}) may use {used} of layer {table[used][0]}")
    return faults


def reach(table, room):
    """Returns the room, the rooms that it may use, and all rooms that those may use in turn."""
    reached, ahead = set(), [room]
    while ahead:
        room = ahead.pop()
        if room in table and room not in reached:
            reached.add(room)
            ahead.extend(table[room][1])
    return reached


def room_of(root, path):
    """Returns the room that a file belongs to; None for src/main.cpp and generated files."""
    for base, is_door in ((root / "include/combu", True), (root / "src", False)):
        if path.is_relative_to(base):
            parts = path.relative_to(base).parts
            if is_door:
                return path.stem
            return parts[0] if len(parts) > 1 else None
    return None


def included(root, source, name):
    """Returns the path of the file that `source` includes by this name; None if the file is not in this source tree."""
    for folder in (source.parent, root / "include", root / "src"):
        path = (folder / name).resolve()
        if path.is_file():
            return path
    return None


def sources(root):
    for folder in ("src", "include/combu"):
        yield from sorted(p for p in (root / folder).rglob("*") if p.suffix in (".hpp", ".cpp", ".h"))


def faults(root):
    """Returns one line for each violation of the table."""
    root = root.resolve()
    table = read_table(root)
    if not table:
        return ["docs/architecture.md: has no table of rooms"]
    found = table_faults(table)
    rooms = {p.name for p in (root / "src").iterdir() if p.is_dir()} | {p.stem for p in (root / "include/combu").glob("*.hpp")}
    found += [f"docs/architecture.md: the table lacks the room {room}" for room in sorted(rooms - table.keys())]
    for source in sources(root):
        room = room_of(root, source)
        if room not in table:
            continue
        allowed = reach(table, room)
        for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
            include = INCLUDE.match(line)
            target = include and included(root, source, include[1] or include[2])
            used = target and room_of(root, target)
            if used and used not in allowed:
                found.append(f"{source.relative_to(root)}:{number}: {room} may not use {used}")
    cmake = root / "CMakeLists.txt"
    for name, uses in CMAKE_ROOM.findall(cmake.read_text(encoding="utf-8")) if cmake.exists() else ():
        if name not in table:
            found.append(f"CMakeLists.txt: builds the room {name}, which the table lacks")
        for used in sorted(set(uses.split()) - reach(table, name)):
            found.append(f"CMakeLists.txt: {name} may not use {used}")
    return found
