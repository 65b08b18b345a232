"""Each file includes the headers of the functions that it calls."""

from pathlib import Path

from declared import missing_includes

ROOT = Path(__file__).resolve().parents[2]


def test_each_file_includes_the_headers_of_the_functions_that_it_calls():
    assert missing_includes(ROOT) == []


def test_a_missing_header_is_found(tmp_path):
    files = {
        "include/combu/text.hpp": "[[nodiscard]] std::string shell_word(std::string_view text);\nbool is_name(int c);\n",
        "include/combu/plan.hpp": '#include "combu/text.hpp"\n',
        "src/cli/names.hpp": "std::string name_of(int id);\n",
        "src/cli/direct.cpp": '#include "combu/text.hpp"\nauto a = shell_word("x");\n',
        "src/cli/by_other.cpp": '#include "combu/plan.hpp"\nauto a = shell_word("x");\n',
        "src/cli/absent.cpp": '#include "names.hpp"\nauto a = f(1, shell_word(name_of(2)));\n',
        "src/cli/absent_too.cpp": "auto a = name_of(2);  // shell_word(a)\n",
        "src/cli/own.cpp": "bool is_name(int c) { return a.shell_word(c) && other::shell_word(c); }\nbool b = is_name(1);\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert missing_includes(tmp_path) == [
        "src/cli/absent.cpp: shell_word() of include/combu/text.hpp",
        "src/cli/absent_too.cpp: name_of() of src/cli/names.hpp",
    ]
