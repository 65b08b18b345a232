#include "jsonnet/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

extern "C" {
#include <libjsonnet.h>
}

#include "combu/base.hpp"
#include "jsonnet/system/texts.hpp"
#include "jsonnet/text.hpp"

namespace combu {
namespace {

// Release 0.19 of libjsonnet has another type of callback than release 0.18. LIB_JSONNET_VERSION is a string,
// so only the type of the callback shows the release at compile time.
using TextCallback = char*(void*, const char*, const char*, char**, int*);
using BytesCallback = int(void*, const char*, const char*, char**, char**, std::size_t*);
static_assert(std::is_same_v<JsonnetImportCallback, TextCallback> ||
              std::is_same_v<JsonnetImportCallback, BytesCallback>);

struct ImportContext {
  JsonnetVm* vm;
  Importer* importer;
  const Importer::Found* experiment;  // the file that code can import under the path k_experiment
};

// libjsonnet returns an error report as a C string, so a NUL byte in the message ends the report. A report
// that ends at a NUL byte lacks the final newline and the stack.
[[maybe_unused]] constexpr std::string_view k_cut =
    "… (the message contains a NUL byte; libjsonnet reports neither the rest nor the line)\n";

// The path under which code imports the experiment's file. No file on disk has this path.
constexpr std::string_view k_experiment = "<the experiment>";

// Copies a callback's result to memory of the library's allocator, because the library frees it.
char* copy_for(JsonnetVm* vm, std::string_view text) {
  char* copy = jsonnet_realloc(vm, nullptr, text.size() + 1);
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

// Refuses content that a release of libjsonnet would silently change. Some releases take a C string, which
// ends at a NUL byte. Other releases replace bytes that are not UTF-8. This check ensures that a file has the
// same meaning with every release.
[[maybe_unused]] void check_text(const Importer::Found& found) {
  if (found.content.find('\0') != std::string::npos)
    throw Error(ErrorKind::invalid, found.path, "contains a NUL byte; only text can be imported");
  if (const auto bad = find_bad_utf8(found.content))
    throw Error(ErrorKind::invalid, found.path, fmt::format("is not UTF-8 (byte {})", *bad + 1));
}

Importer::Found find_file(const ImportContext& context, const char* base, const char* wanted) {
  if (context.experiment != nullptr && wanted == k_experiment) return *context.experiment;
  Importer::Found found = context.importer->find(base, wanted);
#ifndef COMBU_JSONNET_RSJSONNET
  check_text(found);
#endif
  return found;
}

[[maybe_unused]] char* import_text(void* context, const char* base, const char* wanted, char** found_here,
                                   int* success) {
  const auto& imports = *static_cast<ImportContext*>(context);
  JsonnetVm* const vm = imports.vm;
  *success = 0;
  *found_here = nullptr;
  try {
    const Importer::Found found = find_file(imports, base, wanted);
    *found_here = copy_for(vm, found.path);
    *success = 1;
    return copy_for(vm, found.content);
  } catch (const Error& error) {
    return copy_for(vm, error.what());
  }
}

[[maybe_unused]] int import_bytes(void* context, const char* base, const char* wanted, char** found_here,
                                  char** buffer, std::size_t* length) {
  const auto& imports = *static_cast<ImportContext*>(context);
  JsonnetVm* const vm = imports.vm;
  *found_here = nullptr;
  std::string text;
  int failed = 0;
  try {
    Importer::Found found = find_file(imports, base, wanted);
    *found_here = copy_for(vm, found.path);
    text = std::move(found.content);
  } catch (const Error& error) {
    text = error.what();
    failed = 1;
  }
  *buffer = copy_for(vm, text);
  *length = text.size();
  return failed;
}

// This function is a template, so that the branch for the other type of callback is never compiled.
template <typename Callback>
void set_import_callback(JsonnetVm* vm, ImportContext& context) {
  Callback* callback = nullptr;
  if constexpr (std::is_same_v<Callback, TextCallback>) {
    callback = &import_text;
  } else {
    callback = &import_bytes;
  }
  jsonnet_import_callback(vm, callback, &context);
}

using Machine = std::unique_ptr<JsonnetVm, decltype(&jsonnet_destroy)>;

Machine make_machine() {
  Machine vm(jsonnet_make(), &jsonnet_destroy);
#ifndef COMBU_JSONNET_RSJSONNET
  set_texts(vm.get());
#endif
  return vm;
}

void set_arguments(JsonnetVm* vm, const Evaluation& evaluation) {
  for (const auto& [name, value] : evaluation.ext_str) jsonnet_ext_var(vm, name.c_str(), value.c_str());
  for (const auto& [name, code] : evaluation.ext_code) jsonnet_ext_code(vm, name.c_str(), code.c_str());
  for (const auto& [name, value] : evaluation.tla_str) jsonnet_tla_var(vm, name.c_str(), value.c_str());
  for (const auto& [name, code] : evaluation.tla_code) jsonnet_tla_code(vm, name.c_str(), code.c_str());
  jsonnet_ext_var(vm, "combu.run", evaluation.run.text().c_str());
}

}  // namespace

void run_machine(const std::string& name, const std::string& code, const Evaluation& evaluation,
                 Importer& importer, const TakeAnswer& take) {
  const Machine vm = make_machine();
  ImportContext context{vm.get(), &importer, nullptr};
  set_import_callback<JsonnetImportCallback>(vm.get(), context);
  set_arguments(vm.get(), evaluation);
  int failed = 0;
  char* output = jsonnet_evaluate_snippet(vm.get(), name.c_str(), code.c_str(), &failed);
  const bool ok = failed == 0;
#ifdef COMBU_JSONNET_RSJSONNET
  take(ok, output);
#else
  if (ok && !texts_are_set()) {
    take(false, fmt::format("combu cannot replace how the library {} writes numbers; use a build with "
                            "-DCOMBU_JSONNET=rsjsonnet",
                            evaluator()));
  } else if (!ok && !std::string_view(output).ends_with('\n')) {
    take(false, std::string(output).append(k_cut));
  } else {
    take(ok, output);
  }
#endif
  jsonnet_realloc(vm.get(), output, 0);
}

#ifdef COMBU_JSONNET_RSJSONNET

bool is_without_items(const std::string& /*account*/) {
  return false;
}

std::string find_items(const std::string& /*name*/, const std::string& /*code*/,
                       const Evaluation& /*evaluation*/, Importer& /*importer*/) {
  return {};
}

#else

bool is_without_items(const std::string& account) {
  return account.find("\n\tDuring manifestation") != std::string::npos || account.ends_with(k_cut);
}

namespace {

// Jsonnet code that writes each array item or field of a value separately, in the order in which the
// evaluator writes them. The code calls combu.at before each item or field. The code does not descend into
// items and fields, because recursion in Jsonnet is slow.
constexpr std::string_view k_parts = R"(
local at = std.native('combu.at');
local is_sound(object) = (object { 'combu.at':: true })['combu.at'];  // runs its asserts
local parts(value) =
  local kind = std.type(value);
  local write(key) = at(std.toString(key), kind) && std.length(std.toString(value[key])) >= 0;
  if kind == 'array' then std.foldl(function(_, i) write(i), std.range(0, std.length(value) - 1), true)
  else kind != 'object' || is_sound(value) && std.foldl(function(_, name) write(name), std.objectFields(value), true);
local experiment = import '<the experiment>';
)";
// Maximum number of parts of a path. Messages show the first 60 characters of a path, and each part has at
// least two characters.
constexpr std::size_t k_depth_max = 31;

// A part of a path in two forms: Jsonnet code that is appended to the code of the value, and a line of an
// error report.
struct PathPart {
  std::string index;
  std::string line;
};

struct Whereabouts {
  JsonnetVm* vm;
  std::optional<PathPart> part;
};

PathPart part_of(std::string key, bool is_item) {
  if (is_item) return {fmt::format("[{}]", key), fmt::format("\tarray item {}\n", key)};
  std::string quoted;
  for (const char one : key) quoted += one == '\'' ? "''" : std::string(1, one);
  std::ranges::replace(key, '\n', ' ');
  return {fmt::format("[@'{}']", quoted), fmt::format("\tfield <{}>\n", key)};
}

JsonnetJsonValue* note(void* context, const JsonnetJsonValue* const* given, int* success) {
  auto& [vm, part] = *static_cast<Whereabouts*>(context);
  const std::span arguments(given, 2);
  const std::string_view kind = jsonnet_json_extract_string(vm, arguments[1]);
  part = part_of(jsonnet_json_extract_string(vm, arguments[0]), kind == "array");
  *success = 1;
  return jsonnet_json_make_bool(vm, 1);
}

// Returns code that writes the parts of the value at `path`. `path` is Jsonnet code that follows the code of
// the whole value.
std::string code_of_parts(const Evaluation& evaluation, std::string_view path) {
  std::string names;
  std::string values;
  for (const auto* pairs : {&evaluation.tla_str, &evaluation.tla_code}) {
    for (const auto& [name, value] : *pairs) {
      names += name + ", ";
      values += fmt::format("{0}={0}, ", name);
    }
  }
  return fmt::format(
      "{}if std.isFunction(experiment) then (function({}) parts(experiment({}){}))\nelse parts(experiment{})",
      k_parts, names, values, path, path);
}

// Returns the first item or field of the value at `path` that has no JSON text, or nullopt if each has one.
std::optional<PathPart> find_part(const Importer::Found& experiment, const std::string& path,
                                  const Evaluation& evaluation, Importer& importer) {
  const Machine vm = make_machine();
  ImportContext context{vm.get(), &importer, &experiment};
  set_import_callback<JsonnetImportCallback>(vm.get(), context);
  set_arguments(vm.get(), evaluation);
  Whereabouts whereabouts{vm.get(), {}};
  const std::array<const char*, 3> names{"key", "kind", nullptr};
  jsonnet_native_callback(vm.get(), "combu.at", &note, &whereabouts, names.data());
  int failed = 0;
  char* output =
      jsonnet_evaluate_snippet(vm.get(), "<parts>", code_of_parts(evaluation, path).c_str(), &failed);
  jsonnet_realloc(vm.get(), output, 0);
  return failed == 0 ? std::nullopt : whereabouts.part;
}

}  // namespace

std::string find_items(const std::string& name, const std::string& code, const Evaluation& evaluation,
                       Importer& importer) {
  const Importer::Found experiment{name, code};
  std::string path;
  std::string lines;
  for (std::size_t depth = 0; depth < k_depth_max; ++depth) {
    const auto part = find_part(experiment, path, evaluation, importer);
    if (!part) break;
    path += part->index;
    lines.insert(0, part->line);
  }
  return lines;
}

#endif

// libjsonnet reports its version in a form such as "v0.18.0".
std::string evaluator() {
  const std::string_view version = jsonnet_version();
  return version.starts_with('v') ? fmt::format("libjsonnet {}", version.substr(1)) : std::string(version);
}

}  // namespace combu
