// Exits with 0 if the functions of texts.cpp replace those of the linked libjsonnet. CMakeLists.txt runs this
// program to select a library.

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <libjsonnet.h>
}

#include "jsonnet/format.hpp"
#include "jsonnet/number.hpp"
#include "jsonnet/system/texts.hpp"

namespace combu {

std::string text_of_number(double /*value*/) {
  return "number";
}
std::string format(std::string_view /*call*/) {
  return "format";
}
std::vector<std::string> format_fields(std::string_view /*call*/) {
  return {};
}

}  // namespace combu

int main() {
  JsonnetVm* vm = jsonnet_make();
  combu::set_texts(vm);
  int failed = 0;
  const char* text = jsonnet_evaluate_snippet(vm, "check", "'%d' % 1 + 0.5", &failed);
  return std::strcmp(text, "\"formatnumber\"\n") == 0 && combu::texts_are_set() ? 0 : 1;
}
