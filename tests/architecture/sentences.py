#!/usr/bin/env python3
"""The sentences of the documents, the comments and the messages.

As a program, it draws sentences at random, for a reader who judges them:
  tests/architecture/sentences.py [COMMIT [NUMBER]]
The seed is the first eight hexadecimal digits of COMMIT (HEAD), so the same commit gives the same sentences (fifty).
Each sentence is printed in the text that a reader sees with it: its paragraph, table row, comment or message, and the line
of code that a comment describes.
"""

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Sentence(NamedTuple):
    place: str  # FILE:LINE
    text: str
    paragraph: str = ""  # the paragraph, table cell, comment or message that contains the sentence


def split(text):
    """The sentences of a paragraph, with their offsets in it."""
    begin = 0
    for end in re.finditer(r"[.!?:;](?=\s+[A-Z`\"(\[])|$", text):
        sentence = text[begin : end.end()].strip()
        if sentence:
            yield begin, sentence
        begin = end.end()


def paragraphs_of_markdown(text):
    """(line, text) of each paragraph, list item, heading and table cell outside code."""
    block, first, in_code = [], 0, False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        starts_new = re.match(r"\s*(?:[-*]|\d+\.)\s", line)
        is_text = not in_code and line.strip() and not re.match(r"\s*(?:```|[#|<])", line)
        if block and (not is_text or starts_new):
            yield first, " ".join(block)
            block = []
        if is_text:
            first = first if block else number
            block.append(re.sub(r"^\s*(?:[-*]|\d+\.)\s+", "", line).strip())
        if not in_code and line.startswith("|"):
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line)[1:-1])


def comments_of_cpp(text):
    """(line, text) of each comment. Comments in consecutive lines are one, if they begin in the same column."""
    block, first, column = [], 0, -1
    for number, line in enumerate([*text.splitlines(), ""], 1):
        without_strings = re.sub(r'"(?:\\.|[^"\\])*"', lambda match: "_" * len(match[0]), line)
        at = without_strings.find("//")
        is_comment = at >= 0 and not re.match(r"//\s*(?:NOLINT|----|clang-format)", line[at:])
        is_next = is_comment and block and at == column and not line[:at].strip()
        if block and not is_next:
            yield first, " ".join(block)
            block = []
        if is_comment:
            first, column = (first, column) if block else (number, at)
            block.append(re.sub(r"^//+\s*|\s*//\s*NOLINT.*$", "", line[at:]).strip())


def messages_of_cpp(text):
    """(line, text) of each string literal of at least four words that is no SQL; adjacent literals are one."""
    code = re.sub(r"(?m)^[ \t]*#.*$|//.*$", lambda match: " " * len(match[0]), text)
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*', code):
        message = "".join(part[1:-1] for part in re.findall(r'"(?:\\.|[^"\\\n])*"', match[0]))
        is_sql = re.match(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|WITH|PRAGMA|ALTER|DROP|FROM|WHERE|ORDER|AND)\b", message)
        if len(re.findall(r"[A-Za-z]{2,}", message)) >= 4 and " " in message and not is_sql:
            yield code.count("\n", 0, match.start()) + 1, message.replace("\\n", " ").replace('\\"', '"')


def of_file(root, name, extract):
    text = (root / name).read_text(encoding="utf-8")
    for line, paragraph in extract(text):
        for _, sentence in split(paragraph):
            yield Sentence(f"{name}:{line}", sentence, paragraph)


def of_files(root, patterns, extract):
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            yield from of_file(root, str(path.relative_to(root)), extract)


def documents(root):
    return of_files(root, ("*.md", "docs/*.md"), paragraphs_of_markdown)


def comments(root, folders=("include", "src", "tests")):
    return of_files(root, [f"{folder}/**/*.[ch]pp" for folder in folders], comments_of_cpp)


def messages(root):
    return of_files(root, ("src/**/*.[ch]pp",), messages_of_cpp)


def drawn(root, seed, number):
    every = [*documents(root), *comments(root, ("include", "src")), *messages(root)]
    sentences = [one for one in every if len(one.text.split()) >= 4]
    return random.Random(seed).sample(sentences, number)


def surroundings(root, sentence):
    """The table's head and row of a cell, or the line of code in front of a comment or after it; empty for other sentences."""
    name, number = sentence.place.rsplit(":", 1)
    lines = (root / name).read_text(encoding="utf-8").splitlines()
    at = int(number) - 1
    if name.endswith(".md"):
        head = at
        while head > 0 and lines[head - 1].startswith("|"):
            head -= 1
        return f"{lines[head]}\n{lines[at]}" if lines[at].startswith("|") else ""
    if not lines[at].lstrip().startswith("//"):
        return lines[at].strip()
    return next((line.strip() for line in lines[at:] if line.strip() and not line.lstrip().startswith(("//", "#"))), "")


if __name__ == "__main__":
    commit = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 50
    digits = subprocess.run(
        ["git", "rev-parse", "--short=8", commit], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()
    print(f"seed {digits}")
    for index, sentence in enumerate(drawn(ROOT, int(digits[:8], 16), number), 1):
        print(f"\n{index}. {sentence.place}\n   SENTENCE: {sentence.text}")
        if sentence.paragraph != sentence.text:
            print(f"   in: {sentence.paragraph}")
        if around := surroundings(ROOT, sentence):
            print("   at: " + around.replace("\n", "\n       "))
