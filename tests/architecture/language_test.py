"""The documents and comments are plain technical English, as far as patterns can find what is not."""

import re
from pathlib import Path

import pytest
import sentences

ROOT = Path(__file__).resolve().parents[2]

# (pattern, what to write instead)
RULES = [
    (r"^(?:What|Whether|Of what|Of which|Of those)\b(?![^?]*\?)", "a sentence with a subject, a verb and an object"),
    (r"\bsightings?\b", "observation"),
    (r"\brecollections?\b|\brecall(?:s|ed)?\b", "cache lookup"),
    (r"\bdoom(?:s|ed)?\b", "stop cause"),
    (r"\b(?:take|takes|taken|took|taking|bring|brings|brought|bringing|come|comes|came) home\b", "collect outputs"),
    (r"\b(?:is|are) at work on\b", "owns (the run)"),
    (r"\bsomebody\b|\bsomeone\b|\bnobody\b", "who it is: a process, the owner, the user"),
    (r"\bstrangers?\b", "another user, another program"),
    (r"\bartifacts?\b", "outputs"),
    (r"\bsuper-?user\b", "root"),
]


def faults_of(found):
    return [
        f"{place}: {text!r}: write {instead}"
        for place, text, *_ in found
        for pattern, instead in RULES
        if re.search(pattern, re.sub(r"`[^`]*`", "_", text))
    ]


@pytest.mark.parametrize("source", [sentences.documents, sentences.comments, sentences.messages])
def test_sentences_are_plain(source):
    assert faults_of(source(ROOT)) == []


def test_markdown_is_wrapped():
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for pattern in ("*.md", "docs/*.md")
        for path in sorted(ROOT.glob(pattern))
        for number, line in prose_lines(path.read_text(encoding="utf-8"))
        if len(line) > 120
    ]
    assert long == []


def prose_lines(text):
    """(number, line) of each line outside code, tables and lines that hold one link or word alone."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith("|") and " " in line.strip():
            yield number, line


FUNCTION = re.compile(
    r"(?:\[\[nodiscard\]\]\s*)?(?:(?:virtual|static|inline|constexpr|explicit|friend)\s+)*[\w:<>,&*\s]+?[\s&*](\w+)\("
)
ACCESSOR = re.compile(r"\w+\(\) const(?: noexcept)?(?: \{ return [\w.]+; \}| = 0;|;)|\bto_string\(|\bvisit\(Fields& ")


def undocumented_in(text):
    """(line, name) of each public function of a header without a comment.

    A comment documents all functions below it up to an empty line. Accessors, to_string() and visit(), which lists the fields of a message, need none.
    """
    access, is_documented = [], False
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped:
            is_documented = False
        elif stripped.startswith("//") and not stripped.startswith("// ----"):
            is_documented = True
        elif kind := re.match(r"(class|struct|enum)\s+\w+.*\{$", stripped):
            access.append("private" if kind[1] == "class" else "public")
        elif stripped.startswith("};") and access:
            access.pop()
        elif stripped in ("public:", "private:", "protected:"):
            access[-1] = stripped[:-1]
        elif "private" not in access and len(line) - len(line.lstrip()) == 2 * len(access):
            has_comment = is_documented or "//" in line or (number < len(lines) and "//" in lines[number])
            name = FUNCTION.match(stripped)
            is_plain = name and not re.search(r"\boperator\b|= default|= delete|\boverride\b|^(?:return|using)\b", stripped)
            if is_plain and not has_comment and not ACCESSOR.search(stripped):
                yield number, name[1]


def test_public_functions_are_documented():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {name}"
        for path in sorted(ROOT.glob("include/combu/*.hpp"))
        for number, name in undocumented_in(path.read_text(encoding="utf-8"))
    ]
    assert found == []


# ---- The checks themselves


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("What cannot be removed is in nobody's way.", 2),
        ("What does the engine report?", 0),
        ("Whether it is there.", 1),
        ("Returns true if the container exists.", 0),
        ("The field `stranger` is a name of code.", 0),
    ],
)
def test_the_patterns_find_what_they_are_for(text, count):
    assert len(faults_of([("a", text)])) == count


def test_comments_are_found_in_code():
    text = 'int a = 1;  // one\n// Two lines\n// of one comment. Another sentence.\nauto url = "http://x";\n'
    found = [(line, one) for line, block in sentences.comments_of_cpp(text) for _, one in sentences.split(block)]
    assert found == [(1, "one"), (2, "Two lines of one comment."), (2, "Another sentence.")]


def test_messages_are_found_in_code():
    text = 'call("the engine does "\n     "not answer");\nsql("SELECT a FROM b WHERE c AND d");\n'
    assert list(sentences.messages_of_cpp(text)) == [(1, "the engine does not answer")]


def test_paragraphs_are_found_in_markdown():
    text = "# Head\n\nOne\ntwo.\n\n- item\n- other\n\n```\ncode\n```\n| a | b |\n"
    assert list(sentences.paragraphs_of_markdown(text)) == [(3, "One two."), (6, "item"), (7, "other"), (12, "a"), (12, "b")]


def test_functions_without_a_comment_are_found():
    text = "struct A {\n  // Does.\n  void one();\n  void two();\n\n  int three() const;\n  void four();\n private:\n  void five();\n};\n"
    assert [name for _, name in undocumented_in(text)] == ["four"]
