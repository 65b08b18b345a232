"""Both evaluators return the same JSON for every experiment, byte for byte, and the same error message for a wrong file.

$COMBU_BUILDS names two folders, each with a program `evaluate`; default: build/release and build/release/rsjsonnet."""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILDS = os.environ.get("COMBU_BUILDS", f"{ROOT}/build/release {ROOT}/build/release/rsjsonnet").split()
FENCE = re.compile(r"^```jsonnet\n(.*?)^```$", re.M | re.S)
OPTIONS = {"-V": "--ext-str", "-A": "--tla-str"}


def evaluate(build, file, *options):
    environment = {name: value for name, value in os.environ.items() if name != "JSONNET_PATH"}
    return subprocess.run([f"{build}/evaluate", file.name, *options], cwd=file.parent, env=environment, capture_output=True, timeout=120)


def lines(text):
    return text.decode(errors="backslashreplace").splitlines(keepends=True)


def agreed(file, *options):
    """Evaluates the file with both evaluators, fails if their results differ, and returns the result."""
    one, other = (evaluate(build, file, *options) for build in BUILDS)
    assert lines(one.stdout) == lines(other.stdout)
    assert lines(one.stderr) == lines(other.stderr)
    assert one.returncode == other.returncode
    return one


def options_of(block):
    """Returns the options in the command at the beginning of a code block, `// combu -f experiment.jsonnet … plan`."""
    match = re.match(r"// combu -f experiment\.jsonnet (.*) plan\n", block)
    words = shlex.split(match[1]) if match else []
    return [OPTIONS.get(word, word) for word in words]


def files(pattern):
    found = sorted(ROOT.glob(pattern))
    assert found
    return [pytest.param(file, id=str(file.relative_to(ROOT))) for file in found]


def test_the_builds_have_two_evaluators():
    shown = [subprocess.run([f"{build}/combu", "version", "--verbose"], capture_output=True, text=True, check=True).stdout
             for build in BUILDS]
    assert "evaluator: libjsonnet " in shown[0] and "evaluator: rsjsonnet " in shown[1]


@pytest.mark.parametrize("file", files("examples/*/experiment.jsonnet") + files("tests/evaluators/files/*.jsonnet"))
def test_both_evaluate_a_file_to_the_same_json(file):
    done = agreed(file)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("page", ["README.md", "docs/experiment.md", "docs/cli.md"])
def test_both_evaluate_the_documented_examples_to_the_same_json(tmp_path, page):
    blocks = FENCE.findall((ROOT / page).read_text())
    for block in blocks:
        if name := re.match(r"// (\S+\.libsonnet)\n", block):
            (tmp_path / name[1]).write_text(block)
    file = tmp_path / "experiment.jsonnet"
    for block in blocks:
        if re.match(r"// \S+\.libsonnet\n", block):
            continue
        file.write_text(block)
        assert agreed(file, *options_of(block)).returncode == 0, block


@pytest.mark.parametrize("file", files("tests/evaluators/wrong/*.jsonnet"))
def test_both_print_the_same_error_for_a_wrong_file(file):
    """FILE.expected, written by hand, is the message that both must print."""
    done = agreed(file)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode() == file.with_suffix(".expected").read_text()


def library(build, tmp_path):
    file = tmp_path / "library.jsonnet"
    file.write_text("std.objectFieldsAll(std)")
    return set(json.loads(evaluate(build, file).stdout))


def test_a_function_that_libjsonnet_lacks_is_named_in_the_error_and_documented(tmp_path):
    lacking = library(BUILDS[1], tmp_path) - library(BUILDS[0], tmp_path)
    page = (ROOT / "docs/experiment.md").read_text()
    assert set(re.search(r"and the\s+`std`\s+functions\s+`([^`]*)`", page)[1].split()) == lacking
    file = tmp_path / "lacking.jsonnet"
    for name in lacking:
        file.write_text(f"[std.{name}]")
        said = evaluate(BUILDS[0], file).stderr.decode()
        assert said.startswith(f"lacking.jsonnet:1:2: std.{name} is not supported by this build's evaluator, libjsonnet "), said
