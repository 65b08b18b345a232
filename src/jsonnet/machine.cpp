#include "jsonnet/machine.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstring>
#include <memory>
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

// The callback's type changed between 0.18 and 0.19, and LIB_JSONNET_VERSION is a string: only the type
// itself can tell.
using TextCallback = char*(void*, const char*, const char*, char**, int*);
using BytesCallback = int(void*, const char*, const char*, char**, char**, std::size_t*);
static_assert(std::is_same_v<JsonnetImportCallback, TextCallback> ||
              std::is_same_v<JsonnetImportCallback, BytesCallback>);

struct ImportContext {
  JsonnetVm* vm;
  const Importer* importer;
};

// The library frees what callbacks give it, so it must come from its own allocator.
char* copy_for(JsonnetVm* vm, std::string_view text) {
  char* copy = jsonnet_realloc(vm, nullptr, text.size() + 1);
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

// Where content goes over as a C string, it would be lost beyond a NUL byte in silence; elsewhere bytes that
// are no UTF-8 would be replaced. A file means the same to all of the library's releases.
Importer::Found find_text(const Importer& importer, const char* base, const char* wanted) {
  Importer::Found found = importer.find(base, wanted);
  if (found.content.find('\0') != std::string::npos)
    throw Error(ErrorKind::invalid, found.path, "holds a NUL byte; only text can be imported");
  if (const auto bad = find_bad_utf8(found.content))
    throw Error(ErrorKind::invalid, found.path, fmt::format("is not UTF-8 (byte {})", *bad + 1));
  return found;
}

[[maybe_unused]] char* import_text(void* context, const char* base, const char* wanted, char** found_here,
                                   int* success) {
  const auto& [vm, importer] = *static_cast<ImportContext*>(context);
  *success = 0;
  *found_here = nullptr;
  try {
    const Importer::Found found = find_text(*importer, base, wanted);
    *found_here = copy_for(vm, found.path);
    *success = 1;
    return copy_for(vm, found.content);
  } catch (const Error& error) {
    return copy_for(vm, error.what());
  }
}

[[maybe_unused]] int import_bytes(void* context, const char* base, const char* wanted, char** found_here,
                                  char** buffer, std::size_t* length) {
  const auto& [vm, importer] = *static_cast<ImportContext*>(context);
  *found_here = nullptr;
  std::string text;
  int failed = 0;
  try {
    Importer::Found found = find_text(*importer, base, wanted);
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

// A template, so that the assignment that does not fit the library at hand is never compiled.
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

void set_arguments(JsonnetVm* vm, const Evaluation& evaluation) {
  for (const auto& [name, value] : evaluation.ext_str) jsonnet_ext_var(vm, name.c_str(), value.c_str());
  for (const auto& [name, code] : evaluation.ext_code) jsonnet_ext_code(vm, name.c_str(), code.c_str());
  for (const auto& [name, value] : evaluation.tla_str) jsonnet_tla_var(vm, name.c_str(), value.c_str());
  for (const auto& [name, code] : evaluation.tla_code) jsonnet_tla_code(vm, name.c_str(), code.c_str());
  jsonnet_ext_var(vm, "combu.run", evaluation.run.text().c_str());
}

}  // namespace

MachineAnswer run_machine(const std::string& name, const std::string& code, const Evaluation& evaluation,
                          const Importer& importer) {
  const std::unique_ptr<JsonnetVm, decltype(&jsonnet_destroy)> vm(jsonnet_make(), &jsonnet_destroy);
  ImportContext context{vm.get(), &importer};
  set_import_callback<JsonnetImportCallback>(vm.get(), context);
#ifdef COMBU_SYSTEM_JSONNET
  set_texts(vm.get());
#endif
  set_arguments(vm.get(), evaluation);
  int failed = 0;
  char* output = jsonnet_evaluate_snippet(vm.get(), name.c_str(), code.c_str(), &failed);
  MachineAnswer answer{failed == 0, output};
  jsonnet_realloc(vm.get(), output, 0);
#ifdef COMBU_SYSTEM_JSONNET
  if (answer.ok && !texts_are_set())
    return {false,
            fmt::format("the library libjsonnet {} cannot be given combu's own way to write numbers; take a "
                        "build with -DCOMBU_JSONNET=rsjsonnet",
                        jsonnet_version())};
#endif
  return answer;
}

}  // namespace combu
