"""`combu schema` against the reader: the same fields everywhere, good files are valid, and wrong ones where a schema can tell."""

import contextlib
import json
import re
import sqlite3
import subprocess

import pytest
from conftest import COMBU, ROOT
from docs_test import EXPERIMENTS, QUIET, blocks, library_name, options_of

jsonschema = pytest.importorskip("jsonschema")

GOLDEN = ROOT / "tests/golden"
# What is wrong there stands in several places, or in the words of a text.
BEYOND = {"cycle", "depends_on_itself", "inputs_cycle", "long_cycle", "nested_too_deep", "nul_character", "number_too_large", "port_shared",
          "port_twice", "repeated_name", "slots", "unknown_depends", "unterminated_quote", "waits_for_ever"}


@pytest.fixture(scope="module")
def schema():
    return json.loads(subprocess.run([COMBU, "schema"], capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def validator(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_it_is_a_schema_of_that_draft(schema, validator):
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert validator.is_valid([{"name": "ab", "image": "x"}])


def spellings():
    """Each spelling of a trial's field, and the field's name, as the reader has them; and the fields of the whole."""
    text = (ROOT / "src/spec/fields.cpp").read_text()
    names = dict(re.findall(r'FieldSpelling\{"(\w+)", Field::(\w+)\}', text))
    top = re.findall(r'"(\w+)"', re.search(r"k_fields\{(.*?)\};", text, re.S)[1])
    assert len(names) > 40 and "trials" in top
    return names, top


def test_it_has_every_spelling_of_every_field_and_no_other(schema):
    names, top = spellings()
    trial = schema["$defs"]["trial"]["properties"]
    assert sorted(trial) == sorted(names)
    assert sorted(schema["$defs"]["defaults"]["properties"]) == sorted(name for name in names if names[name] != "name")
    whole = next(form for form in schema["anyOf"] if form.get("type") == "object")
    assert sorted(whole["properties"]) == sorted(top)
    for spelling, name in names.items():
        same, other = ({key: value for key, value in trial[one].items() if key != "description"} for one in (spelling, name))
        assert same == other, spelling
        assert trial[spelling]["description"], spelling


# Each small object: where it is found, and what stands around it.
OBJECTS = {
    "ports": {"ports": ["HERE"]}, "volumes": {"volumes": ["HERE"]}, "depends": {"depends": ["HERE"]},
    "depends.compose": {"depends": {"other": "HERE"}}, "inputs": {"inputs": ["HERE"]}, "outputs": {"outputs": ["HERE"]},
    "healthcheck": {"healthcheck": "HERE"}, "gpus": {"gpus": "HERE"}, "deploy": {"deploy": "HERE"},
    "resources": {"deploy": {"resources": "HERE"}}, "limits": {"deploy": {"resources": {"limits": "HERE"}}},
    "reservations": {"deploy": {"resources": {"reservations": "HERE"}}},
    "devices": {"deploy": {"resources": {"reservations": {"devices": ["HERE"]}}}}, "retries": {"retries": "HERE"},
    "backoff": {"retries": {"max": 1, "backoff": "HERE"}}, "grow": {"retries": {"max": 1, "grow": "HERE"}},
    "logs": {"logs": "HERE"}, "metrics": {"metrics": "HERE"}, "cache": {"cache": "HERE"}, "collect": {"collect": "HERE"},
}


def put(value, what):
    if value == "HERE":
        return what
    if isinstance(value, dict):
        return {key: put(inner, what) for key, inner in value.items()}
    return [put(inner, what) for inner in value] if isinstance(value, list) else value


def document(name, what):
    around = put(OBJECTS[name], what)
    trials = [{"name": "trial", "image": "x"}, {"name": "other", "image": "x"}]
    if name == "collect":
        return {**around, "trials": trials}
    return {"trials": [{**trials[0], **around}, trials[1]]}


def objects_at(schema, name):
    """The properties of the objects that may stand there: found by way of the schema itself."""
    def opened(node):
        if node is True:
            return []
        if "$ref" in node:
            target = schema
            for key in node["$ref"].removeprefix("#/").split("/"):
                target = target[key]
            return opened(target)
        return [inner for one in node["anyOf"] for inner in opened(one)] if "anyOf" in node else [node]

    def steps(nodes, way):
        if way == "HERE":
            return [node["properties"] for node in nodes if "properties" in node]
        if isinstance(way, list):
            return steps([found for node in nodes if "items" in node for found in opened(node["items"])], way[0])
        key = "backoff" if "backoff" in way else "grow" if "grow" in way else next(iter(way))
        inner = [node.get("properties", {}).get(key, node.get("additionalProperties", False)) for node in nodes]
        return steps([found for one in inner if one not in (True, False) for found in opened(one)], way[key])

    whole = next(form for form in schema["anyOf"] if form.get("type") == "object")
    begin = [whole] if name == "collect" else opened({"$ref": "#/$defs/trial"})
    return steps(begin, OBJECTS[name])


@pytest.mark.parametrize("name", OBJECTS)
def test_a_small_object_has_the_reader_s_fields(combu, write, schema, validator, name):
    """The reader says itself which fields it knows, when it is given one that is like none of them."""
    write(json.dumps(document(name, {"qqqqqqqqqqqqqqqq": 1})))
    told = re.findall(r"unknown field `q+`; known here: (.*?)(?: \(trial `.*)?$", combu(*QUIET, "-f", "experiment.jsonnet", "validate").stderr, re.M)
    assert len(told) == 1, "the reader tells what it knows"
    (properties,) = objects_at(schema, name)
    assert sorted(properties) == sorted(told[0].split(", "))
    assert not validator.is_valid(document(name, {"qqqqqqqqqqqqqqqq": 1}))
    assert not any("q" * 16 in error.message for error in validator.iter_errors(document(name, {"x-own": 1})))


def test_every_object_of_the_reader_is_looked_at():
    """An array of spellings in the reader for each of them."""
    arrays = [name for file in (ROOT / "src/spec").glob("*.cpp") for name in re.findall(r"std::array (k_\w+_fields)\{", file.read_text())]
    assert len(arrays) == len(OBJECTS)


def load(path):
    try:
        return json.loads(path.read_text())
    except (ValueError, RecursionError):
        return None


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("plan_*.json")), ids=lambda path: path.stem)
def test_a_good_golden_file_is_valid(validator, path):
    assert [error.message for error in validator.iter_errors(load(path))] == []


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("error_*.json")), ids=lambda path: path.stem)
def test_a_wrong_golden_file_is_not(validator, path):
    value = load(path)
    if value is not None:  # no JSON at all
        assert validator.is_valid(value) == (path.stem.removeprefix("error_") in BEYOND)


@pytest.mark.parametrize("page, block", EXPERIMENTS)
def test_an_example_is_valid(combu, write, tmp_path, validator, page, block):
    for _, library in blocks(page, "jsonnet"):
        if library_name(library):
            write(library, library_name(library))
    write(block)
    assert combu("-f", "experiment.jsonnet", *options_of(block), "validate").returncode == 0
    run = combu("-f", "experiment.jsonnet", *options_of(block), "--engine", "simulated:?speed=0&trial=0&gpus=8", "run", "--replace")
    if "nothing was started" in run.stderr:
        return  # the model's host is too small, or an input is missing: it is not on record
    with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite")) as record:
        (evaluated,), = record.execute("SELECT evaluated FROM texts").fetchall()
    assert [error.message for error in validator.iter_errors(json.loads(evaluated))] == []


def test_what_is_wrong_in_any_field_is_found(validator):
    """A value of a kind that no field takes."""
    names, _ = spellings()
    for spelling in names:
        trial = {"name": "trial", "image": "x", spelling: [[[1]]]}
        assert not validator.is_valid([trial]), spelling


@pytest.mark.parametrize("field", [{"cpus": "1g"}, {"cpus": "1 2"}, {"inputs": "data"}, {"inputs": ["data"]}])
def test_what_the_reader_refuses_is_not_valid(combu, write, validator, field):
    experiment = [{"name": "trial", "image": "x", **field}]
    write(json.dumps(experiment))
    assert combu(*QUIET, "-f", "experiment.jsonnet", "validate").returncode == 2
    assert not validator.is_valid(experiment)


@pytest.mark.parametrize("field", [{"cpus": " 1.5 "}, {"cpus": ".5"}, {"inputs": "experiment.jsonnet:/in"}])
def test_what_the_reader_takes_is_valid(combu, write, validator, field):
    experiment = [{"name": "trial", "image": "x", **field}]
    write(json.dumps(experiment))
    assert combu(*QUIET, "-f", "experiment.jsonnet", "validate").returncode == 0
    assert validator.is_valid(experiment)
