#include "jsonnet/system/texts.hpp"

#include <dlfcn.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <libjsonnet.h>
}

#include "combu/base.hpp"
#include "jsonnet/format.hpp"
#include "jsonnet/number.hpp"

// libjsonnet calls two of its own functions through the table of the dynamic linker. The linker prefers
// functions of the same name in the program, so combu can replace both functions of libjsonnet. combu
// replaces jsonnet_unparse_number(), because the function of libjsonnet writes 0.1 as 0.10000000000000001.
// combu also replaces jsonnet_lex(), which reads all code. jsonnet_lex() first reads libjsonnet's own library
// in Jsonnet, which contains std.format. combu's jsonnet_lex() replaces this std.format, which rounds wrongly
// and takes 5 ms a call. In release 0.20 of libjsonnet and later releases, both functions are in a namespace.

// libjsonnet's list of tokens, which combu returns unchanged.
// NOLINTNEXTLINE(misc-use-internal-linkage): functions with external linkage return it
struct JsonnetTokens {
  JsonnetTokens() = delete;
  JsonnetTokens(const JsonnetTokens&) = delete;
  JsonnetTokens& operator=(const JsonnetTokens&) = delete;
};

namespace {

using Lex = JsonnetTokens (*)(const std::string&, const char*);

// New code for fields of libjsonnet's object std. The code avoids `==`, which would call a function written
// in Jsonnet.
constexpr std::string_view k_mod = R"(
  mod(a, b)::
    if std.primitiveEquals(std.type(a), 'string') then
      std.format(a, b)
    else if std.primitiveEquals(std.type(a), 'number') && std.primitiveEquals(std.type(b), 'number') then
      std.modulo(a, b)
    else
      error 'binary operator % requires matching types, got ' + std.type(a) + ' and ' + std.type(b) + '.',
)";
constexpr std::string_view k_format = R"(
  format(str, vals)::
    local type = std.type(vals);
    local values =
      if std.primitiveEquals(type, 'array') then vals
      else if !std.primitiveEquals(type, 'object') then [vals]
      else [
        if std.objectHasAll(vals, field) then vals[field]
        else error 'missing field "' + field + '" in object formatting'
        for field in std.native('combu.fields')('' + [str])
      ];
    local text = std.native('combu.format')('' + [str, values]);
    if std.primitiveEquals(std.type(text), 'string') then text else std.join('\u0000', text),
)";

// Replaces the field of `code` that begins with the same line as `field`. The first line of a field is
// indented by two blanks, and the other lines by more blanks.
bool put(std::string_view field, std::string& code) {
  constexpr std::string_view k_indentation = "\n  ";
  const std::size_t begin = code.find(field.substr(0, field.find('\n', 1)));
  if (begin == std::string::npos) return false;
  std::size_t end = code.find(k_indentation, begin + 1);
  while (end != std::string::npos && code.substr(end + k_indentation.size(), 1) == " ")
    end = code.find(k_indentation, end + 1);
  if (end == std::string::npos) return false;
  code.replace(begin, end - begin, field);
  return true;
}

bool are_set = false;

JsonnetTokens lex(Lex original, const std::string& file, const char* code) {
  if (file != "std.jsonnet") return original(file, code);
  std::string ours = code;
  if (put(k_mod, ours) && put(k_format, ours)) are_set = true;
  return original(file, ours.c_str());
}

Lex find_lex(const char* symbol) {
  return reinterpret_cast<Lex>(::dlsym(RTLD_NEXT, symbol));
}

}  // namespace

// NOLINTBEGIN(misc-use-internal-linkage): the dynamic linker finds these functions in place of the library's
std::string jsonnet_unparse_number(double value) {
  return combu::text_of_number(value);
}

JsonnetTokens jsonnet_lex(const std::string& file, const char* code) {
  static const Lex original =
      find_lex("_Z11jsonnet_lexRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPKc");
  return lex(original, file, code);
}

namespace jsonnet::internal {

std::string jsonnet_unparse_number(double value) {
  return combu::text_of_number(value);
}

JsonnetTokens jsonnet_lex(const std::string& file, const char* code) {
  static const Lex original =
      find_lex("_ZN7jsonnet8internal11jsonnet_lexERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPKc");
  return lex(original, file, code);
}

}  // namespace jsonnet::internal
// NOLINTEND(misc-use-internal-linkage)

namespace combu {
namespace {

// libjsonnet accepts only C strings, which end at a NUL byte. If the text contains NUL bytes, returns an
// array of the texts between the NUL bytes.
JsonnetJsonValue* value_of(JsonnetVm* vm, const std::string& text) {
  if (text.find('\0') == std::string::npos) return jsonnet_json_make_string(vm, text.c_str());
  JsonnetJsonValue* texts = jsonnet_json_make_array(vm);
  for (std::size_t begin = 0; begin <= text.size();) {
    const char* one = text.c_str() + begin;
    jsonnet_json_array_append(vm, texts, jsonnet_json_make_string(vm, one));
    begin += std::strlen(one) + 1;
  }
  return texts;
}

JsonnetJsonValue* call_format(JsonnetVm* vm, const char* call) {
  return value_of(vm, format(call));
}

JsonnetJsonValue* call_format_fields(JsonnetVm* vm, const char* call) {
  JsonnetJsonValue* fields = jsonnet_json_make_array(vm);
  for (const std::string& field : format_fields(call))
    jsonnet_json_array_append(vm, fields, jsonnet_json_make_string(vm, field.c_str()));
  return fields;
}

template <JsonnetJsonValue* (*call)(JsonnetVm*, const char*)>
JsonnetJsonValue* answer(void* context, const JsonnetJsonValue* const* arguments, int* success) {
  auto* vm = static_cast<JsonnetVm*>(context);
  const char* text = jsonnet_json_extract_string(vm, *arguments);
  try {
    *success = 1;
    return call(vm, text == nullptr ? "" : text);
  } catch (const Error& error) {
    *success = 0;
    return jsonnet_json_make_string(vm, error.what());
  }
}

}  // namespace

void set_texts(JsonnetVm* vm) {
  constexpr std::array<const char*, 2> k_parameters{"call", nullptr};
  jsonnet_native_callback(vm, "combu.format", &answer<call_format>, vm, k_parameters.data());
  jsonnet_native_callback(vm, "combu.fields", &answer<call_format_fields>, vm, k_parameters.data());
}

bool texts_are_set() {
  return are_set;
}

}  // namespace combu
