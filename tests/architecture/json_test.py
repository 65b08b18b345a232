"""Only three files call the JSON library's parser: they limit the depth of nested values. All other code uses these files."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# document.cpp and metrics.cpp use sax_parse, which builds no value by itself, and have depth limits of their own.
READERS = {"src/json/json.cpp", "src/spec/document.cpp", "src/telemetry/metrics.cpp"}
CALL = re.compile(r"\b\w*json\w*(?:<[^<>]*>)?::(?:parse|accept|sax_parse|from_\w+)\s*\(", re.IGNORECASE)


def callers(root):
    sources = [path for folder in ("src", "include") for path in (root / folder).rglob("*.?pp")]
    return {str(path.relative_to(root)) for path in sources if CALL.search(path.read_text(encoding="utf-8"))}


def test_no_other_file_calls_the_librarys_parser():
    assert callers(ROOT) == READERS


def test_a_call_is_found(tmp_path):
    (tmp_path / "src").mkdir()
    calls = ["json::parse(file)", "nlohmann::ordered_json::parse (x)", "basic_json<>::accept(x)", "Json::sax_parse(a, &b)"]
    for number, call in enumerate(calls):
        (tmp_path / f"src/{number}.cpp").write_text(f"auto x = {call};\n", encoding="utf-8")
    (tmp_path / "src/none.cpp").write_text("auto x = parse_json(text); auto y = json::object();\n", encoding="utf-8")
    assert callers(tmp_path) == {f"src/{number}.cpp" for number in range(len(calls))}
