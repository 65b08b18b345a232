"""The examples in the documentation are valid, and its lists are complete."""

import re
import shlex

import pytest
from conftest import ROOT

PAGES = ["README.md", "docs/experiment.md", "docs/workers.md", "docs/secrets.md", "docs/compose.md", "docs/kubernetes.md"]
QUIET = ["--progress", "quiet"]  # omits the line that combu prints on a slow machine while it evaluates a file
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(page, language):
    """Returns (line, text) of each code block in this language."""
    text = (ROOT / page).read_text()
    return [(text.count("\n", 0, match.start()) + 1, match[2]) for match in FENCE.finditer(text) if match[1] == language]


def library_name(block):
    """Returns the name of a library, which other blocks import: its block begins with `// NAME.libsonnet`."""
    match = re.match(r"// (\S+\.libsonnet)\n", block)
    return match and match[1]


def options_of(block):
    """Returns the options in the command at the beginning of a block, `// combu -f experiment.jsonnet … plan`."""
    match = re.match(r"// combu -f experiment\.jsonnet (.*) plan\n", block)
    return shlex.split(match[1]) if match else []


EXPERIMENTS = [pytest.param(page, block, id=f"{page}:{line}")
               for page in PAGES if (ROOT / page).exists()
               for line, block in blocks(page, "jsonnet") if not library_name(block)]


@pytest.mark.parametrize("page, block", EXPERIMENTS)
def test_an_example_is_valid(combu, write, page, block):
    for _, library in blocks(page, "jsonnet"):
        if library_name(library):
            write(library, library_name(library))
    write(block)
    result = combu(*QUIET, "-f", "experiment.jsonnet", *options_of(block), "validate")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_the_pages_have_examples():
    pages = [param.values[0] for param in EXPERIMENTS]
    assert pages.count("docs/experiment.md") >= 10
    assert (ROOT / "README.md").exists()


def rows(page, heading):
    """Returns the cells of the tables between a heading and the next one."""
    section = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", (ROOT / page).read_text(), re.M | re.S)[1]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines if not line.startswith("|---")]


def test_every_planned_field_is_refused_by_name(combu, write):
    fields = [field for _, cell in rows("docs/experiment.md", "Planned fields")[1:] for field in re.findall(r"`(\w+)`", cell)]
    assert len(fields) >= 7
    write('[{ name: "trial", image: "x", %s }]' % ", ".join(f"{field}: 1" for field in fields))
    result = combu(*QUIET, "-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    refused = re.findall(r"^experiment\.jsonnet: \[0\]\.(\w+): `\1` is not supported yet", result.stderr, re.M)
    assert sorted(refused) == sorted(fields)


VALUES = {"string": "'debian'", "path": "[]", "absolute path": "'/work'", "boolean": "true", "duration": "'1s'", "array": "[]",
          "object": "{}", "size": "'1g'", "number": "1.5", "whole number": "1", '`"missing"`': "'missing'"}
VALUES_OF = {"name": "'trial'", "platform": "'linux/amd64'", "stop_signal": "'INT'"}


def test_every_field_and_each_spelling_of_it_is_known(combu, write):
    trials = []
    for name, kind, _, others in rows("docs/experiment.md", "Fields")[1:]:
        field = re.search(r"`(\w+)`", name)[1]
        value = VALUES_OF.get(field) or next(value for word, value in VALUES.items() if kind.startswith(word))
        for spelling in [field, *re.findall(r"`(\w+)`", others)]:
            trial = {"name": f"'trial-{len(trials)}'", "image": "'debian'"}
            if field in trial:
                del trial[field]
                value = f"'trial-{len(trials)}'"
            trials.append(trial | {spelling: value})
    assert len(trials) >= 30
    write("[%s]" % ",\n".join("{ %s }" % ", ".join(f"{key}: {value}" for key, value in trial.items()) for trial in trials))
    result = combu(*QUIET, "-f", "experiment.jsonnet", "validate")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_errors_that_are_shown_are_what_is_told(combu, write):
    write("""[
      { name: "solver-a", image: "x", ports: [{ host: 0, container: 80 }] },
      { name: "solver-b", imgae: "x" },
      { name: "solver-c", image: "x", depends: ["solver-a", "laoder"] },
      { name: "loader", image: "x" },
    ]""")
    result = combu(*QUIET, "-f", "experiment.jsonnet", "validate")
    assert result.returncode == 2
    assert result.stderr in [text for _, text in blocks("docs/experiment.md", "text")]


def test_the_plan_that_is_shown_is_the_first_example_s(combu, write):
    write(blocks("docs/experiment.md", "jsonnet")[0][1])
    result = combu("-f", "experiment.jsonnet", "plan")
    assert result.stdout in [text for _, text in blocks("docs/cli.md", "text")]


def commands_of(combu):
    return re.findall(r"-n __fish_use_subcommand -a (\S+)", combu("completion", "fish").stdout)


def test_every_command_and_option_is_described(combu):
    page = (ROOT / "docs/cli.md").read_text()
    commands = commands_of(combu)
    assert len(commands) >= 10
    listed = [name for row in rows("docs/cli.md", "The command line")[1:] for name in re.findall(r"`([a-z]+)`", row[0])]
    assert listed == commands
    for command in ["", *commands]:
        head = r"\b%s\b.*" % command if command else "Options of all commands"
        (section,) = re.findall(rf"^## (?:.*, )?{head}\n((?:(?!^## ).*\n)*)", page, re.M)
        told = set(re.findall(r"^ +(?:-\w,)?(--[a-z][a-z-]+)", combu(*command.split(), "--help").stdout, re.M))
        assert [option for option in sorted(told - {"--help"}) if option not in section] == [], command


def test_every_option_that_is_described_is_there(combu):
    """Checks the first columns of each command's tables."""
    page = FENCE.sub("", (ROOT / "docs/cli.md").read_text())
    known = {command: set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", combu(*command.split(), "--help").stdout))
             for command in ["", *commands_of(combu)]}
    count = 0
    for head, section in re.findall(r"^## (.*)\n((?:(?!^## ).*\n)*)", page, re.M):
        names = [name for name in head.split(", ") if name in known]
        taken = set.union(*(known[name] for name in names)) if names else known[""]
        described = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", " ".join(re.findall(r"^\| *(`-[^|]*)\|", section, re.M))))
        assert described - taken == set(), head
        count += len(described)
    assert count > 50


def test_every_label_is_described():
    labels = re.findall(r'"(combu\.\w+)"', (ROOT / "src/docker/labels.hpp").read_text())
    assert "combu.run" in labels
    described = [name.strip("`") for name, _ in rows("docs/cli.md", "What belongs to an experiment")[1:]]
    assert sorted(described) == sorted(labels)


@pytest.mark.parametrize("page", ["docs/experiment.md", "docs/cli.md", "docs/compose.md"])
def test_links_lead_somewhere(page):
    def anchors(path):
        text = FENCE.sub("", path.read_text())
        named = set(re.findall(r'^<a id="([a-z-]+)"></a>$', text, re.M))
        return named | {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in re.findall(r"^#+ (.*)$", text, re.M)}

    here = ROOT / page
    for link in re.findall(r"\]\(([^)]+)\)", FENCE.sub("", here.read_text())):
        if link.startswith("https://"):
            continue
        file, _, anchor = link.partition("#")
        target = here.parent / file if file else here
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
