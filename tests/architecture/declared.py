"""Finds calls of functions whose header the file does not include, directly or by another header.

A unity build compiles several files as one, so it accepts such a call; `scripts/test` without --all does not.
"""

import re
from pathlib import Path

import layers

FUNCTION = re.compile(r"^(?:\[\[\w+\]\]\s*)?[\w:<][\w:<>,&* ]*[ &*](\w+)\(", re.MULTILINE)
CALL = re.compile(r"(?<![\w.:>~])(\w+)\(")  # a name after "." or "->" is a member; after "::", of another scope
# A word before the name: the file declares a function, parameter or variable with the name.
OWN = r"(?<=[\w>&*\]])(?<!return)(?<!else)(?<!throw)(?<!case)(?<!&&)\s+[&*]*%s\b"
SYSTEM = {"open"}  # the name also belongs to the operating system
COMMENT_OR_STRING = re.compile(r'//[^\n]*|R"\w*\(.*?\)\w*"|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def code_of(path):
    """Returns the text of a file without comments, and with empty strings."""
    return COMMENT_OR_STRING.sub(lambda found: "" if found[0].startswith("//") else '""', path.read_text(encoding="utf-8"))


def included_files(root, path, known):
    """Returns the path and all files of the source tree that it includes, directly or by others."""
    if path not in known:
        known[path] = {path}
        for line in path.read_text(encoding="utf-8").splitlines():
            include = layers.INCLUDE.match(line)
            target = include and layers.included(root, path, include[1] or include[2])
            if target:
                known[path] = known[path] | included_files(root, target, known)
    return known[path]


def missing_includes(root):
    """Returns one line for each function that a .cpp file calls without a header that declares the function."""
    root = Path(root).resolve()
    files = list(layers.sources(root))
    code = {path: code_of(path) for path in files}
    declaring = {}  # the headers of each function whose declaration begins in the first column
    for path in files:
        if path.suffix == ".hpp":
            for name in FUNCTION.findall(code[path]):
                declaring.setdefault(name, []).append(path)
    found, known = [], {}
    for path in files:
        if path.suffix != ".cpp":
            continue
        reached = included_files(root, path, known)
        for name in sorted(set(CALL.findall(code[path])) & declaring.keys() - SYSTEM):
            # A unity build has files of one room, so the header is one of the room or a public one.
            headers = [header for header in declaring[name] if header.parent in (path.parent, root / "include/combu")]
            is_own = re.search(OWN % name, code[path])
            if headers and not is_own and not any(re.search(rf"\b{name}\b", code[header]) for header in reached - {path}):
                found.append(f"{path.relative_to(root)}: {name}() of {headers[0].relative_to(root)}")
    return found
