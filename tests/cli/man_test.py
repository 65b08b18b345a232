"""Tests of scripts/man: the manual has the whole text of docs/cli.md and docs/experiment.md."""

import json
import os
import re
import shutil
import subprocess

import pytest
from conftest import ROOT
from docs_test import commands_of

BEGIN = "# Page\n\n`combu` runs things\n\n```sh\ncombu COMMAND\n```\n\n| command | does |\n|---|---|\n| [`run`](#run) | runs |\n\n## run\n\n"


@pytest.fixture
def man(tmp_path):
    """man(text) creates the page from `text`, or from docs/cli.md."""

    def make(text=None):
        env = dict(os.environ, SOURCE_DATE_EPOCH="1700000000")
        if text is not None:
            (tmp_path / "page.md").write_text(text)
            env["COMBU_MAN_SOURCE"] = str(tmp_path / "page.md")
        return subprocess.run([ROOT / "scripts/man", tmp_path / "combu.1"], env=env, capture_output=True, text=True, check=False)

    return make


@pytest.fixture
def page(man, tmp_path):
    done = man()
    assert (done.returncode, done.stderr) == (0, "")
    return (tmp_path / "combu.1").read_text()


@pytest.fixture
def file_page(tmp_path):
    subprocess.run([ROOT / "scripts/man", tmp_path / "combu-experiment.5"], env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"), check=True)
    return (tmp_path / "combu-experiment.5").read_text()


def test_it_has_a_manual_s_sections(page, combu):
    assert page.startswith(f'.TH COMBU 1 "2023-11-14" "{combu("version").stdout.strip()}" "User Commands"\n')
    sections = re.findall(r"^\.SH (.*)", page, re.M)
    order = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "SEE ALSO"]
    assert [name for name in sections if name in order] == order
    assert re.search(r"^\.SH NAME\ncombu \\- \S.*$", page, re.M)


def test_it_has_every_command_and_each_of_its_options(page, combu):
    plain = page.replace("\\-", "-")
    begin = plain.index("\n.SH COMMANDS")
    heads = re.findall(r"^\.SS (.*)", plain[begin:plain.index("\n.SH ", begin + 1)], re.M)
    assert [name for head in heads for name in head.split(", ")] == commands_of(combu)
    options = {option for command in ["", *commands_of(combu)]
               for option in re.findall(r"--[a-z][a-z-]+", combu(*command.split(), "--help").stdout)}
    assert len(options) > 40
    assert [option for option in sorted(options) if f"\\fB{option}" not in plain and f", {option}" not in plain] == []


def dropped_words(name, page):
    """Returns the words of the source that the page lacks, in any order. Targets of links, anchors and languages of code blocks
    do not count."""
    source = (ROOT / "docs" / name).read_text()
    source = re.sub(r"(?<=\])\((?!http)[^()]*\)", "", re.sub(r"^```\w*$|<a id=[^>]*>", "", source, flags=re.M))
    text = re.sub(r"\\f[BIR]", "", re.sub(r"\\\(..", " ", page)).replace("\\&", "").replace("\\e", "\\").replace("\\-", "-")
    text = re.sub(r"\\\[u([0-9A-F]+)\]", lambda match: chr(int(match[1], 16)), text).lower()
    return set(re.findall(r"\w\w+", source.lower())) - set(re.findall(r"\w\w+", text))


def test_no_word_of_the_source_is_dropped(page):
    dropped = dropped_words("cli.md", page)
    # Headings that have other names in a manual, and heads of first columns, which the lists in the manual do not have.
    assert dropped <= {"environment", "variables", "exit", "codes", "option", "argument", "field", "found", "path",
                       "variable", "request", "meaning", "target"}, dropped


def test_the_file_has_a_page_with_all_of_its_fields(file_page):
    assert re.match(r'\.TH COMBU-EXPERIMENT 5 "2023-11-14" "combu [0-9.]+" "File Formats"\n', file_page)
    assert dropped_words("experiment.md", file_page) <= {"file", "field", "spellings"}  # heads of first columns
    plain = file_page.replace("\\-", "-")
    fields = json.loads((ROOT / "src/cli/experiment.schema.json").read_text())["$defs"]["trial"]["properties"]
    assert len(fields) > 30
    assert [field for field in fields if f"\\fB{field}\\fR" not in plain] == []


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man")
def test_man_shows_it_without_a_warning(page, tmp_path):
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", tmp_path / "combu.1"], env=dict(os.environ, MANWIDTH="100"),
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "combu run --wait -p 8 experiment.jsonnet\n" in re.sub(r".\x08|\x1b\[\d*m", "", done.stdout)


@pytest.mark.skipif(not shutil.which("man"), reason="there is no man")
def test_man_shows_the_file_s_without_a_warning(file_page, tmp_path):
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", tmp_path / "combu-experiment.5"], env=dict(os.environ, MANWIDTH="100"),
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not shutil.which("mandoc"), reason="there is no mandoc")
def test_mandoc_finds_nothing(page, file_page, tmp_path):
    done = subprocess.run(["mandoc", "-T", "lint", tmp_path / "combu.1", tmp_path / "combu-experiment.5"], capture_output=True, text=True,
                          check=False)
    assert done.stdout == ""


@pytest.mark.parametrize("source, roff", [
    ("One `-f` and *two*.\n", r"One \fB\-f\fR and \fItwo\fR."),
    ("A **great** *deal*\n", r"A \fBgreat\fR \fIdeal\fR"),
    ("- [Here](#here), [there](#there)\n- [x](y.md)\n", "\n.IP \\(bu 4\nx"),
    (".hidden, and 'quoted'\n", r"\&.hidden, and \(aqquoted\(aq"),
    ("```\n.x \\n\n```\n", "\\&.x \\en\n.fi"),
    ("- first\n  goes on\n- second\n", ".IP \\(bu 4\nfirst goes on\n.IP \\(bu 4\nsecond"),
    ("2. step\n", ".IP 2. 4\nstep"),
    ("| option | default | meaning |\n|---|---|---|\n| `-x a\\|b` | 8 | more |\n", ".TP\n\\fB\\-x a|b\\fR\nmore (default: 8)"),
    ("``a `b` c``, [there](x.md#y), [far](https://a.b/c)\n", r"\fBa \(gab\(ga c\fR, there, far <https://a.b/c>"),
])
def test_what_it_writes(man, tmp_path, source, roff):
    assert man(BEGIN + source).returncode == 0
    assert roff in (tmp_path / "combu.1").read_text()


@pytest.mark.parametrize("source", [
    "> quoted", "  indented", "- outer\n  - inner", "#### deep", "![picture](x.png)", "<b>bold</b>", "**bold", "_emphasis_", "[ref][1]",
    "[1]: x", "`open", "a &amp; b", "---", "~~~\ncode\n~~~", "```sh\nno end", "| a | b |\n|---|---|\n| only one |", "| a | b |\n| 1 | 2 |",
    "https://a.b", "* star", "head\n====", "1. one\n   - two", "text\\",
])
def test_what_it_does_not_know_is_an_error(man, tmp_path, source):
    done = man(BEGIN + source + "\n")
    assert done.returncode == 1
    assert re.match(r"man: .*page\.md: line \d+: ", done.stderr)
    assert not (tmp_path / "combu.1").exists()
