"""Compares `combu schema` with the reader: both have the same fields everywhere. Valid files match the schema. Invalid files do
not, if a schema can express the rule."""

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
# Errors that a schema cannot express: they involve several places, or the content of a text.
BEYOND = {"cycle", "depends_on_itself", "inputs_cycle", "long_cycle", "nested_too_deep", "nul_character", "number_too_large", "port_shared",
          "port_twice", "repeated_name", "secrets_of_defaults", "secrets_without_sources", "unknown_depends", "unterminated_quote", "waits_for_ever"}


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
    """Returns the reader's spellings of a trial's fields with the names of the fields, and the fields of the file."""
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


# Where each small object is found, with its surroundings.
OBJECTS = {
    "ports": {"ports": ["HERE"]}, "volumes": {"volumes": ["HERE"]}, "depends": {"depends": ["HERE"]},
    "depends.compose": {"depends": {"other": "HERE"}}, "inputs": {"inputs": ["HERE"]}, "outputs": {"outputs": ["HERE"]},
    "healthcheck": {"healthcheck": "HERE"}, "gpus": {"gpus": "HERE"}, "deploy": {"deploy": "HERE"},
    "resources": {"deploy": {"resources": "HERE"}}, "limits": {"deploy": {"resources": {"limits": "HERE"}}},
    "reservations": {"deploy": {"resources": {"reservations": "HERE"}}},
    "devices": {"deploy": {"resources": {"reservations": {"devices": ["HERE"]}}}}, "retries": {"retries": "HERE"},
    "backoff": {"retries": {"max": 1, "backoff": "HERE"}}, "grow": {"retries": {"max": 1, "grow": "HERE"}},
    "logs": {"logs": "HERE"}, "metrics": {"metrics": "HERE"}, "cache": {"cache": "HERE"},
    "worker": {"worker": "HERE"}, "collect": {"collect": "HERE"}, "kubernetes": {"kubernetes": "HERE"}, "secrets": {"secrets": ["HERE"]},
    "source": {"secrets": {"token": "HERE"}}, "source.kubernetes": {"secrets": {"token": {"kubernetes": "HERE"}}},
}
OF_FILE = {"collect", "source", "source.kubernetes"}


def put(value, what):
    if value == "HERE":
        return what
    if isinstance(value, dict):
        return {key: put(inner, what) for key, inner in value.items()}
    return [put(inner, what) for inner in value] if isinstance(value, list) else value


def document(name, what):
    around = put(OBJECTS[name], what)
    trials = [{"name": "trial", "image": "x"}, {"name": "other", "image": "x"}]
    if name in OF_FILE:
        return {**around, "trials": trials}
    return {"trials": [{**trials[0], **around}, trials[1]]}


def objects_at(schema, name):
    """Returns the properties of the objects that may be in this place, according to the schema."""
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
    begin = [whole] if name in OF_FILE else opened({"$ref": "#/$defs/trial"})
    return steps(begin, OBJECTS[name])


@pytest.mark.parametrize("name", OBJECTS)
def test_a_small_object_has_the_reader_s_fields(combu, write, schema, validator, name):
    """The reader's error message for an unknown field lists the known fields."""
    write(json.dumps(document(name, {"qqqqqqqqqqqqqqqq": 1})))
    told = re.findall(r"unknown field `q+`; known fields: (.*?)(?: \(trial `.*)?$", combu(*QUIET, "-f", "experiment.jsonnet", "validate").stderr, re.M)
    assert len(told) == 1, "the reader tells what it knows"
    (properties,) = objects_at(schema, name)
    assert sorted(properties) == sorted(told[0].split(", "))
    assert not validator.is_valid(document(name, {"qqqqqqqqqqqqqqqq": 1}))
    assert not any("q" * 16 in error.message for error in validator.iter_errors(document(name, {"x-own": 1})))


def test_every_object_of_the_reader_is_looked_at():
    """The reader has an array of spellings for each of these objects."""
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
    if value is not None:  # None: the file is not JSON
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
        return  # no run is on record, because the simulated host is too small or an input is missing
    with contextlib.closing(sqlite3.connect(tmp_path / ".local/state/combu/record.sqlite")) as record:
        (evaluated,), = record.execute("SELECT evaluated FROM texts").fetchall()
    assert [error.message for error in validator.iter_errors(json.loads(evaluated))] == []


def test_what_is_wrong_in_any_field_is_found(validator):
    """A value of a type that no field accepts."""
    names, _ = spellings()
    for spelling in names:
        trial = {"name": "trial", "image": "x", spelling: [[[1]]]}
        assert not validator.is_valid([trial]), spelling


# Values that the reader accepts or refuses, and the schema as well.
BYTES = [0, 6291456, 2**62, "0", "6m", "512m", "512 m", " 2GiB ", "2gib", "1.5g", ".5g", "8.gb", "6291456b", "1T", "0.5p"], [
    "", "512mm", "2gi", "m", "1.2.3m", "5 k b", -1, "-1m", 2**63, True, []]
DURATIONS = [0.5, 90, 3155760000, "90s", "1h30m", "500ms", "1.5h", " 90s ", "90", ".5s", "1.s", "1us2ns", "1d\n"], [
    "", "1x", "90 s", "1h30", "1h 30m", "1H", ".", "1.2.3s", "-1s", -1, 3155760001, "s", "1e3s", True]
PORTS = [80, "80", "8080:80", "8080:80/UDP", "127.0.0.1:8080:80", "[::1]:8080:80/tcp", "[127.0.0.1]:80", "00080"], [
    "", ":80", "80:", "80/xyz", "a:80", "8080-8081:80", "1:2:3", "localhost:80:80", 0, 65536, 1.5, "123456"]
VALUES = {
    "max_failures": ([1, 10, "10%", "0.1%", ".5%", "5.%", "100%", "100.0%", "007%", "1e1%"],
                     [0, 1.5, "0%", "0.0%", "101%", "100.5%", "1.2.3%", "%", "10", "5 %", " 5%", "-5%", "123%"]),
    "deadline": ([value for value in DURATIONS[0] if value != 0], DURATIONS[1] + [0, "0s", "0.0h"]),
    "collect": ([{"every": 1}, {"every": "1s"}, {"every": None}], [{"every": 0}, {"every": 0.5}, {"every": "0s"}, {"every": "1x"}]),
    "stop_grace": (DURATIONS[0] + [0, "0s"], DURATIONS[1]),
    "timeout": (DURATIONS[0], DURATIONS[1] + [0, "0s", "0.0h"]),
    "cpus": ([0, 0.01, 0.06 - 0.05, 1.5, 64, "0", "1.5", " 1.5 ", ".5", "2."], ["1g", "1 2", "", ".", "1.2.3", 0.001, 1e-12, -1, "-1", True]),
    "memory": (BYTES[0], BYTES[1] + [1, 6291455]),
    "mem_limit": (BYTES[0], BYTES[1] + [1, 6291455]),
    "shm_size": (BYTES[0] + [1], BYTES[1]),
    "logs": ([{"max_size": 1}, {"max_size": "1m"}, {"max_size": 0}, {"max_size": "0m"}], [{"max_size": -1}, {"max_size": "1x"}]),
    "outputs": ([{"path": "/a", "max_size": 1}, {"path": "/a", "max_size": "1m"}],
                [{"path": "/a", "max_size": 0}, {"path": "/a", "max_size": "0m"}, {"path": "/a", "max_size": "1x"}]),
    "ports": ([[port] for port in PORTS[0]], [[port] for port in PORTS[1]]),
    "publish": ([[{"host": "127.0.0.1:80", "container": "80/udp"}], [{"host": "[::1]:80", "container": 80}], [{"host": 80, "target": 80, "host_ip": "::1"}]],
                [[{"host": "", "container": 80}], [{"host": 80, "container": "8080:80"}], [{"host": 80, "container": 80, "host_ip": ""}]]),
    "env": ([{"A": 1, "b.c": None}, ["A=1", "B"], ["A=b=c"]], [{"": 1}, {"A=B": 1}, ["=x"], [""]]),
    "labels": ([{"a": 1, "b=c": None}, ["a=1", "b"]], [{"": 1}, {"combu.run": 1}, ["=x"], ["combu.run=1"], [""]]),
    "inputs": (["experiment.jsonnet:/in"], ["data", ["data"]]),
    "worker": ([True, False, {}, {"count": 2, "concurrency": 4, "trials_max": 1, "age_max": "1s", "idle": 1}, {"count": None, "idle": None}],
               [1, "yes", [], {"count": 0}, {"concurrency": 0}, {"concurrency": 1.5}, {"trials_max": 0}, {"age_max": 0}, {"idle": "0s"}, {"idle": 0.5}]),
    "name": (["combu-worker"], ["combu-worker-1"]),
    "secrets": ([{}, None, {"a": {"file": "a"}}, {"a": {"env": "A"}}, {"a": {"environment": "A"}}, {"a": {"command": "a b"}},
                 {"a": {"command": ["a", "b"]}}, {"A.b_c-1": {"kubernetes": {"secret": "a", "key": "b"}}}, {"a": None}, {"x-own": 1}],
                [[], "a", {"a": {}}, {"a": "b"}, {"a": {"file": ""}}, {"a": {"file": "a", "env": "A"}}, {"a": {"env": "A=B"}}, {"a": {"command": []}},
                 {"a": {"command": " "}}, {"a": {"kubernetes": {"secret": "a"}}}, {"a": {"kubernetes": {"secret": "a", "key": ""}}}, {".a": {"file": "a"}},
                 {"a b": {"file": "a"}}, {"": {"file": "a"}}, {"a" * 64: {"file": "a"}}]),
    "keep": (["ended", "volume", None], ["volumes", "", True]),
    "ttl": ([value for value in DURATIONS[0] if value not in (0.5, ".5s", "500ms", "1us2ns")], DURATIONS[1] + [0, 0.5, "0s"]),
    "isolate": ([True, False, None], ["yes", 1]),
    "kubernetes": ([{}, None, {"pod": None}, {"pod": {}, "container": {}, "metadata": {}, "x-own": 1}],
                   ["x", [], {"pod": []}, {"container": 1}, {"metadata": "x"}, {"spec": {}}]),
    "volumes": ([[{"host": "/a", "container": "/a", "remote": True}], [{"source": "/a", "target": "/a", "remote": True}],
                 [{"host": "./a", "container": "/a", "remote": False}], [{"host": "a1", "container": "/a", "remote": None}]],
                [[{"host": "./a", "container": "/a", "remote": True}], [{"host": "~/a", "container": "/a", "remote": True}],
                 [{"source": "a1", "container": "/a", "remote": True}], [{"host": "/a", "container": "/a", "remote": "yes"}]]),
}
TABLE = [(field, value, is_taken) for field, values in VALUES.items() for is_taken in (True, False) for value in values[not is_taken]]


@pytest.mark.parametrize("field, value, is_taken", TABLE, ids=[f"{field}: {json.dumps(value)}" for field, value, _ in TABLE])
def test_reader_and_schema_agree(combu, write, validator, field, value, is_taken):
    _, top = spellings()
    trial = {"name": "trial", "image": "x", **({} if field in top else {field: value})}
    experiment = {"trials": [trial], **({field: value} if field in top else {})}
    write(json.dumps(experiment))
    assert (combu(*QUIET, "-f", "experiment.jsonnet", "plan").returncode == 0) == is_taken
    assert validator.is_valid(experiment) == is_taken


@pytest.mark.parametrize("field, value", [
    ("outputs", "out"), ("outputs", [{"path": "out/x"}]), ("inputs", "experiment.jsonnet:in"),
    ("inputs", {"from": "experiment.jsonnet", "to": "in/"}), ("metrics", {"file": "m.csv"}),
])
def test_relative_paths_need_a_worker(combu, write, validator, field, value):
    """A schema cannot express the rule, because `worker` may be in `defaults`."""
    trial = {"name": "trial", "image": "x", field: value}
    for experiment, is_taken in [([trial], False), ({"defaults": {"worker": True}, "trials": [trial]}, True)]:
        write(json.dumps(experiment))
        result = combu(*QUIET, "-f", "experiment.jsonnet", "plan")
        assert (result.returncode == 0) == is_taken, result.stderr
        assert is_taken or "`worker`" in result.stderr
        assert validator.is_valid(experiment)


@pytest.mark.parametrize("secrets, is_taken", [
    ([], True), (None, True), ("a", True), (["a"], True), ([{"source": "a"}], True), ([{"source": "a", "target": "/a", "env": None}], True),
    ([{"source": "a", "env": "A"}], True), ([{"source": "a", "environment": "A", "x-own": 1}], True),
    ([{}], False), ([{"source": ""}], False), ([{"source": "a", "target": "a"}], False), ([{"source": "a", "env": "A=B"}], False),
    ([{"source": "a", "env": ""}], False), ([{"source": "a", "target": "/a", "env": "A"}], False), ([{"source": "a", "mode": 256}], False),
    ([1], False), ({"a": {"file": "a"}}, False), ({}, False),
])
def test_secrets_of_a_trial(combu, write, validator, secrets, is_taken):
    experiment = {"secrets": {"a": {"file": "a"}}, "trials": [{"name": "trial", "image": "x", "secrets": secrets}]}
    write(json.dumps(experiment))
    assert (combu(*QUIET, "-f", "experiment.jsonnet", "plan").returncode == 0) == is_taken
    assert validator.is_valid(experiment) == is_taken


@pytest.mark.parametrize("experiment, is_taken", [
    ([{"name": "aa"}], False),
    ([{"name": "aa", "image": None}], False),
    ({"trials": [{"name": "aa"}]}, False),
    ({"trials": [{"name": "aa", "image": "x"}]}, True),
    ({"trials": [{"name": "aa", "image": "x"}, {"name": "bb"}]}, False),
    ({"defaults": {"image": "x"}, "trials": [{"name": "aa"}]}, True),
    ({"defaults": {"image": "x"}, "trials": [{"name": "aa", "image": None}]}, False),
    ({"defaults": {"image": None}, "trials": [{"name": "aa"}]}, False),
    ({"defaults": {"image": None}, "trials": [{"name": "aa", "image": "x"}]}, True),
    ({"defaults": None, "trials": [{"name": "aa"}]}, False),
    ({"defaults": {"init": False}, "trials": [{"name": "aa"}]}, False),
    ({"defaults": {"init": False}, "trials": [{"name": "aa", "image": "x"}]}, True),
])
def test_where_an_image_may_stand(combu, write, validator, experiment, is_taken):
    write(json.dumps(experiment))
    assert (combu(*QUIET, "-f", "experiment.jsonnet", "plan").returncode == 0) == is_taken
    assert validator.is_valid(experiment) == is_taken
