"""Files on which an evaluator could crash: each causes one plain error within the limits of time and memory."""

import os
import subprocess
import threading

import pytest
from conftest import COMBU, SIMULATED

MEMORY = 512 << 20
SECONDS = 5
TOO_DEEP = "nested too deeply"
TOO_MUCH = "--evaluate-memory"
TOO_LONG = "--evaluate-time"
STACK = "max stack frames exceeded"


def evaluate(folder):
    """Validates a file with limited memory and time. Returns (exit code, standard output, standard error)."""
    with open(folder / "out", "w+b") as out, open(folder / "err", "w+b") as err:
        process = subprocess.Popen(
            [COMBU, "-f", "experiment.jsonnet", "--evaluate-memory", str(MEMORY), "--evaluate-time", f"{SECONDS}s", "validate"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        hung = threading.Timer(100, process.kill)
        hung.start()
        _, status, used = os.wait4(process.pid, 0)
        hung.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        answers = []
        for file in (out, err):
            file.seek(0)
            answers.append(file.read().decode())
    assert used.ru_maxrss << 10 < MEMORY + (64 << 20)
    assert process.returncode >= 0, "it hung, or has crashed"
    lines = [line for line in answers[1].splitlines(keepends=True) if not line.startswith("evaluating ")]
    return process.returncode, answers[0], "".join(lines)


HOSTILE = {
    "brackets": ("[" * 1_000_000, [TOO_DEEP, TOO_MUCH, STACK]),
    "closed brackets": ("[" * 1_000_000 + "]" * 1_000_000, [TOO_DEEP, TOO_MUCH, STACK]),
    "parentheses": ("(" * 1_000_000, [TOO_DEEP, TOO_MUCH, STACK]),
    "recursion": ("local f(n) = if n == 0 then 0 else 1 + f(n - 1); f(100000)", [STACK]),
    "recursion without end": ("local f(n) = f(n + 1) tailstrict; f(0)", [TOO_LONG]),
    "array that grows": ("local f(a) = f(a + a) tailstrict; f([1, 2])", [TOO_MUCH]),
    "long array": ("std.makeArray(1e9, function(i) { name: 't%d' % i })", [TOO_MUCH, TOO_LONG]),
    "long range": ("[{ name: 't%d' % i, image: 'x' } for i in std.range(1, 1e9)]", [TOO_MUCH, TOO_LONG]),
    "gigabyte": ("local d(s, n) = if n == 0 then s else d(s + s, n - 1); d('x', 30)", [TOO_MUCH]),
    "number beyond all": ("[std.parseJson('1e999')]", ["number overflow"]),
    "object in itself": ("local a = { a: a }; a", [TOO_MUCH, TOO_DEEP, TOO_LONG, STACK]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_would_kill_the_evaluator_is_one_plain_error(write, tmp_path, name):
    text, reasons = HOSTILE[name]
    write(text)
    code, out, err = evaluate(tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("experiment.jsonnet:")
    assert any(reason in err for reason in reasons), err
    assert len(err) < 4000 and err.count("\n") <= 20


def test_a_sum_of_a_million_terms_is_its_value_or_one_plain_error(write, tmp_path):
    write("[{ name: 'one', image: 'x', cmd: '' + (" + "1+" * 999_999 + "1) }]")
    code, out, err = evaluate(tmp_path)
    if code != 0:
        assert (code, out) == (2, "")
        assert any(reason in err for reason in (TOO_DEEP, TOO_MUCH, TOO_LONG, STACK)), err
        assert err.startswith("experiment.jsonnet:") and err.count("\n") <= 8


def test_an_import_of_itself(write, tmp_path):
    write("import 'other.jsonnet'")
    write("import 'experiment.jsonnet'", "other.jsonnet")
    code, out, err = evaluate(tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("experiment.jsonnet:") or err.startswith("other.jsonnet:")
    assert len(err) < 4000


@pytest.mark.parametrize("how", ["import", "importstr"])
def test_an_import_of_what_is_no_text(write, tmp_path, how):
    (tmp_path / "folder").mkdir()
    with open(tmp_path / "large", "wb") as file:
        file.truncate(2 << 30)
    (tmp_path / "latin").write_bytes(b"'caf\xe9'")
    for what, why in [("folder", "folder"), ("large", "is larger than 1 GiB"), ("latin", "is not UTF-8 (byte 5)"), ("absent", "absent")]:
        write(f"[{{ name: 'a', image: 'x', cmd: '' + ({how} '{what}') }}]")
        code, out, err = evaluate(tmp_path)
        assert (code, out) == (2, ""), what
        assert err.startswith("experiment.jsonnet:"), what
        assert why in err and what in err, err
        assert err.count("\n") <= 8


NO_FILE = "is a pipe, a device or a socket; it must be a regular file"


@pytest.mark.parametrize("path", ["pipe", "/dev/zero", "/dev/stdin"])
def test_what_the_file_names_and_is_no_file_is_not_opened(combu, write, tmp_path, path):
    os.mkfifo(tmp_path / "pipe")
    write(f"[{{ name: 'aa', image: 'x', cmd: importstr '{path}' }}]", "import.jsonnet")
    write(f"[{{ name: 'aa', image: 'x', env_file: '{path}' }}]", "env.jsonnet")
    for name in ("import", "env"):
        result = combu("-f", f"{name}.jsonnet", "plan", input="")
        assert (result.returncode, result.stdout) == (2, "")
        assert NO_FILE in result.stderr and path in result.stderr
        completed = combu("-f", f"{name}.jsonnet", "complete", "trials", "", input="")
        assert completed.stdout == "" and completed.returncode == 0


def test_init_does_not_wait_for_a_pipe(combu, tmp_path):
    os.mkfifo(tmp_path / ".gitignore")
    result = combu("init", "--name", "lab")
    assert result.returncode == 0
    assert ".gitignore (add /results/ to it)" in result.stdout


def test_the_file_itself_may_be_a_pipe(combu, write, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("[{ name: 'aa', image: 'x' }]"))
    writer.start()
    assert combu("-f", "pipe", "validate").returncode == 0
    writer.join()
    assert combu("-f", "/dev/stdin", "validate", input="[{ name: 'aa', image: 'x' }]").returncode == 0


@pytest.mark.parametrize("name", ["experiment.jsonnet", "docker/experiment.jsonnet"])
@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_file_that_is_found_by_its_name_must_be_regular(combu, tmp_path, name, is_pipe):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name) if is_pipe else (tmp_path / name).symlink_to("/dev/zero")
    for command in ("validate", "plan", "run"):
        result = combu("--engine", SIMULATED, command)
        assert (result.returncode, result.stdout, result.stderr) == (2, "", f"{name}: {NO_FILE}\n")


def test_a_file_that_the_record_names_must_be_regular(combu, write, tmp_path):
    file = write("[{ name: 'aa', image: 'x' }]")
    assert combu("-f", file, "--engine", SIMULATED, "run", "--run-id", "mine").returncode == 0
    file.unlink()
    os.mkfifo(file)
    result = combu("--engine", SIMULATED, "apply", "mine")
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"{file}: {NO_FILE}\n")
    result = combu("--engine", SIMULATED, "retry", "--run", "mine", "--edited", "aa")
    assert result.returncode == 2 and NO_FILE in result.stderr


def test_a_large_import_that_is_text_is_refused_within_the_limits(write, tmp_path):
    with open(tmp_path / "large", "wb") as file:
        block = b" " * (1 << 20)
        for _ in range(600):
            file.write(block)
    write("importstr 'large'")
    code, out, err = evaluate(tmp_path)
    assert (code, out) == (2, "")
    assert TOO_MUCH in err or TOO_LONG in err


@pytest.mark.parametrize("field", ["name", "image", "cmd", "env"])
def test_a_nul_byte_in_a_string(write, tmp_path, field):
    value = "{ A: 'a\\u0000b' }" if field == "env" else "'a\\u0000b'"
    fields = {"name": "'a'", "image": "'x'", field: value}
    write("[{ " + ", ".join(f"{key}: {text}" for key, text in fields.items()) + " }]")
    code, out, err = evaluate(tmp_path)
    assert (code, out) == (2, "")
    assert f"[0].{field}" in err and "NUL" in err, err
    assert "\0" not in err


def test_what_is_not_utf8_is_named_with_its_place(tmp_path):
    (tmp_path / "experiment.jsonnet").write_bytes(b"[{ name: 'a',\n  image: 'caf\xe9' }]")
    code, out, err = evaluate(tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("experiment.jsonnet:2:14:")


def test_a_nul_byte_in_the_file_is_named_with_its_place(tmp_path):
    (tmp_path / "experiment.jsonnet").write_bytes(b"[{ name: 'a',\n\0 }]")
    code, out, err = evaluate(tmp_path)
    assert (code, out) == (2, "")
    assert err.startswith("experiment.jsonnet:2:1:")
