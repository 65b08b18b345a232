#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/jsonnet.hpp"
#include "jsonnet/child.hpp"
#include "jsonnet/identifier.hpp"
#include "jsonnet/importer.hpp"
#include "jsonnet/machine.hpp"
#include "jsonnet/text.hpp"
#include "jsonnet/trace.hpp"
#include "jsonnet/yaml.hpp"

namespace combu {
namespace {

constexpr const char* k_standard_input = "<stdin>";

std::string read_source(const Evaluation& evaluation, const std::string& name) {
  if (evaluation.file == "-") return read_all(STDIN_FILENO, name, k_file_max);
  auto source = evaluation.must_be_regular ? read_regular_file(evaluation.file, k_file_max)
                                           : read_file(evaluation.file, name);
  if (source) return *std::move(source);
  throw Error(ErrorKind::not_found, name, "no such file; name the experiment's file with -f");
}

std::string place_in(const std::string& name, std::string_view source, std::size_t offset) {
  const std::string_view before = source.substr(0, offset);
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t line_begin = before.rfind('\n') + 1;  // in the first line: 0, since npos + 1 is 0
  return fmt::format("{}:{}:{}", name, line, offset - line_begin + 1);
}

// The evaluator takes a C string, and silently replaces bytes that are not UTF-8.
void check_source(const std::string& name, std::string_view source) {
  if (const auto nul = source.find('\0'); nul != std::string_view::npos) {
    throw Error(ErrorKind::invalid, place_in(name, source, nul),
                "must not contain a NUL byte; the file must be UTF-8 text");
  }
  if (const auto bad = find_bad_utf8(source)) {
    throw Error(ErrorKind::invalid, place_in(name, source, *bad),
                fmt::format("byte 0x{:02x} is not UTF-8; save the file as UTF-8",
                            static_cast<unsigned char>(source[*bad])));
  }
  if (source.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    throw Error(ErrorKind::invalid, name, "the file is empty; an experiment is an array of trials");
  }
}

// Refuses a result that is too large: later steps need several times as much memory as the result.
void check_size(const std::string& name, std::string_view json, Bytes memory_max) {
  const Bytes most{memory_max.count / 8};
  const Bytes size{static_cast<std::int64_t>(json.size())};
  if (size <= most) return;
  throw Error(
      ErrorKind::invalid, name,
      fmt::format("the result is {} long, which is more than {}, an eighth of --evaluate-memory; look for a "
                  "string or an array that is larger than intended",
                  to_string(size), to_string(most)));
}

void check_output(const std::string& name, std::string_view json) {
  const auto bad = find_bad_utf8(json);
  if (!bad) return;
  const std::size_t line_begin = json.rfind('\n', *bad) + 1;
  std::string_view near = json.substr(line_begin, *bad - line_begin);
  constexpr std::size_t k_shown_bytes = 60;
  if (near.size() > k_shown_bytes) near.remove_prefix(near.size() - k_shown_bytes);
  // The first bytes may be the rest of a character that the cut has split.
  while (find_bad_utf8(near)) near.remove_prefix(1);
  near.remove_prefix(std::min(near.find_first_not_of(' '), near.size()));
  throw Error(
      ErrorKind::invalid, name,
      fmt::format(
          "the result is not UTF-8 after `{}`; do not call std.char with a surrogate (55296 to 57343)",
          near));
}

std::vector<std::string> import_folders(const Evaluation& evaluation) {
  std::vector<std::string> folders(evaluation.import_dirs.rbegin(), evaluation.import_dirs.rend());
  // NOLINTNEXTLINE(concurrency-mt-unsafe): combu never sets environment variables
  const char* path = std::getenv("JSONNET_PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    if (!folder.empty()) folders.emplace_back(folder);
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
  }
  return folders;
}

// Returns, as one line, the reason that the evaluator's last message gives.
std::string why_it_gave_up(std::string_view said) {
  constexpr std::size_t k_bytes_max = 200;
  for (const std::string_view before : {"please report this: ", "ERROR: "}) {
    if (const auto at = said.find(before); at != std::string_view::npos)
      said.remove_prefix(at + before.size());
  }
  std::string why;
  for (const char one : trimmed(said.substr(0, find_bad_utf8(said).value_or(said.size())))) {
    const bool is_blank = static_cast<unsigned char>(one) <= ' ' || one == 0x7F;
    if (why.size() >= k_bytes_max && !is_inside_character(one)) return why + "…";
    if (!is_blank) why += one;
    if (is_blank && !why.ends_with(' ')) why += one == '\n' ? ", " : " ";
  }
  return why;
}

std::string gave_up(std::string_view said) {
  const std::string why = why_it_gave_up(said);
  const bool reads_text = why.find("json") != std::string::npos || why.find("JSON") != std::string::npos ||
                          why.find("yml") != std::string::npos;
  const bool is_rsjsonnet = evaluator().starts_with("rsjsonnet");
  return fmt::format("{} cannot evaluate the file: {}; {}use {}, which has another evaluator", evaluator(),
                     why, reads_text ? "check the arguments of std.parseJson and std.parseYaml, or " : "",
                     is_rsjsonnet ? "a build with -DCOMBU_JSONNET=system" : "the released binary");
}

[[noreturn]] void refuse(const Evaluation& evaluation, const std::string& name, const ChildEnd& end) {
  constexpr const char* k_nesting =
      "the file is nested too deeply (brackets, or a sum of very many terms); build long arrays and strings "
      "with an array comprehension, std.join or std.foldl";
  const std::string memory = fmt::format(
      "more than {} of memory; look for an array, a string or a recursion that grows without end, or raise "
      "--evaluate-memory",
      to_string(evaluation.memory_max));
  switch (end.kind) {
    case ChildEnd::Kind::interrupted:
      throw Error(ErrorKind::cancelled, name, "interrupted during the evaluation");
    case ChildEnd::Kind::timed_out:
      throw Error(ErrorKind::invalid, name,
                  fmt::format("the evaluation takes longer than the limit of {}; look for an endless "
                              "recursion, or raise --evaluate-time",
                              to_string(evaluation.time_max)));
    case ChildEnd::Kind::out_of_memory:
      throw Error(ErrorKind::invalid, name, "the evaluation needs " + memory);
    case ChildEnd::Kind::crashed:
      throw Error(ErrorKind::invalid, name, fmt::format("the evaluator crashed: {}", k_nesting));
    case ChildEnd::Kind::gave_up:
      throw Error(ErrorKind::invalid, name, gave_up(end.account));
    default:
      throw Error(ErrorKind::invalid, name,
                  fmt::format("the evaluator died ({}): either the evaluation needs {}; or {}", end.account,
                              memory, k_nesting));
  }
}

// Returns the location of an error in the result, in the form of lines of the error report. If the report
// lacks this location, evaluates the file again to find the location.
std::string where_in_result(const std::string& account, const std::string& name, const std::string& code,
                            const Evaluation& evaluation, const ChildLimits& limits, Importer& importer) {
  constexpr Seconds k_time_max{10};
  if (!is_without_items(account)) return {};
  const auto work = [&](const Write& write) { write(find_items(name, code, evaluation, importer)); };
  const ChildLimits rest{limits.memory_max, std::min(limits.deadline, timestamp_after(k_time_max))};
  try {
    // Traces are dropped, because the first evaluation has shown them.
    ChildEnd end = run_in_child(rest, Traces::dropped, work, {});
    return end.kind == ChildEnd::Kind::answered ? std::move(end.answer) : std::string();
  } catch (const Error&) {
    return {};  // the user then sees the error in the file, without its location in the result
  }
}

// With both evaluators, the report of a syntax error begins with this text.
constexpr std::string_view k_static_error = "STATIC ERROR: ";

// The first byte of the child's answer shows if JSON or an error report follows.
constexpr char k_json_mark = 'J';
constexpr char k_error_mark = 'E';
// The imports follow the JSON, which contains no NUL byte. k_import_mark precedes each path and each digest.
constexpr char k_import_mark = '\0';

void write_imports(const Write& write, const Importer& importer) {
  for (const auto& [path, sha256] : importer.found())
    for (const std::string& text : {path, sha256}) {
      write({&k_import_mark, 1});
      write(text);
    }
}

// Removes the imports from `answer` and returns them. The JSON stays.
std::vector<Import> cut_imports(std::string& answer) {
  const std::size_t json_end = std::min(answer.find(k_import_mark), answer.size());
  std::vector<std::string> texts;
  for (std::size_t at = json_end; at < answer.size();) {
    const std::size_t end = std::min(answer.find(k_import_mark, at + 1), answer.size());
    texts.push_back(answer.substr(at + 1, end - at - 1));
    at = end;
  }
  answer.resize(json_end);
  std::vector<Import> imports;
  for (std::size_t i = 0; i + 1 < texts.size(); i += 2)
    imports.push_back(
        {.path = std::filesystem::absolute(texts[i]).lexically_normal(), .sha256 = texts[i + 1]});
  return imports;
}

std::string_view without_byte_order_mark(std::string_view text) {
  // some editors write this mark at the beginning of a file
  constexpr std::string_view k_byte_order_mark = "\xEF\xBB\xBF";
  if (text.starts_with(k_byte_order_mark)) text.remove_prefix(k_byte_order_mark.size());
  return text;
}

}  // namespace

Evaluated evaluate(const Evaluation& evaluation, const std::function<void()>& slow) {
  const std::string name = evaluation.file == "-" ? k_standard_input : evaluation.file;
  std::string source(without_byte_order_mark(read_source(evaluation, name)));
  check_source(name, source);
  const std::string code = put_identifier(source, evaluation.run);
  Importer importer(import_folders(evaluation));
  const auto work = [&](const Write& write) {
    run_machine(name, code, evaluation, importer, [&](bool ok, std::string_view text) {
      write({ok ? &k_json_mark : &k_error_mark, 1});
      write(text);
      if (ok) write_imports(write, importer);
    });
  };
  const ChildLimits limits{evaluation.memory_max, timestamp_after(evaluation.time_max)};
  ChildEnd end = run_in_child(limits, Traces::shown, work, slow);
  if (end.kind != ChildEnd::Kind::answered) refuse(evaluation, name, end);

  const bool failed = end.answer.front() == k_error_mark;
  end.answer.erase(0, 1);
  if (failed) {
    const std::string fault = end.answer.starts_with(k_static_error) ? yaml_fault(name, source) : "";
    if (!fault.empty()) throw Error(ErrorKind::invalid, name, fault);
    end.answer += where_in_result(end.answer, name, code, evaluation, limits, importer);
    throw explain(end.answer, name, source,
                  Columns(source, find_identifiers(source), evaluation.run.text().size()));
  }
  std::vector<Import> imports = cut_imports(end.answer);
  check_size(name, end.answer, evaluation.memory_max);
  check_output(name, end.answer);
  return {std::move(end.answer), std::move(source), std::move(imports)};
}

bool is_unchanged(const std::string& file, const std::string& source, const std::vector<Import>& imports) {
  try {
    const auto now = read_regular_file(file, k_file_max);
    if (!now || without_byte_order_mark(*now) != source) return false;
    return std::ranges::all_of(imports, [](const Import& import) {
      const auto content = read_regular_file(import.path, k_file_max);
      return content && sha256_of(*content) == import.sha256;
    });
  } catch (const Error&) {
    return false;
  }
}

}  // namespace combu
