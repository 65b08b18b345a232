"""Only the listed files include headers that take seconds to compile; docs/performance.md lists the compile times."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = {
    "CLI/CLI.hpp": {"src/cli/command_line.cpp"},
    "httplib.h": {"src/http/channel.cpp"},
    "nlohmann/json.hpp": {"include/combu/json.hpp"},
    "boost/beast/websocket/stream.hpp": {"src/kubernetes/exec.cpp"},
    "yaml-cpp/yaml.h": {"src/kubernetes/kubeconfig.cpp"},
    "archive.h": {"src/engine/read_archive.cpp", "src/engine/tar.cpp", "src/inputs/pack.cpp", "src/outputs/unpack.cpp",
                  "src/simulated/agent.cpp"},
    "SQLiteCpp/SQLiteCpp.h": {
        "include/combu/database.hpp",
        "src/record/impl.hpp",
        "src/record/reading.cpp",
        "src/export/sqlite.cpp",
    },
}


@pytest.mark.parametrize("header", FILES)
def test_a_slow_header_is_included_by_these_files_only(header):
    include = re.compile(rf'^\s*#\s*include\s*[<"]{re.escape(header)}[>"]', re.MULTILINE)
    sources = [path for folder in ("src", "include") for path in (ROOT / folder).rglob("*.?pp")]
    found = {str(path.relative_to(ROOT)) for path in sources if include.search(path.read_text(encoding="utf-8"))}
    assert found == FILES[header]
