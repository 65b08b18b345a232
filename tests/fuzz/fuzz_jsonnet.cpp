// Evaluates Jsonnet texts in this process with src/jsonnet/rsjsonnet and the code of the room jsonnet. The
// evaluation must not crash. An import finds only the libraries that the program contains.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "combu/jsonnet.hpp"
#include "jsonnet/importer.hpp"
#include "jsonnet/machine.hpp"
#include "jsonnet/text.hpp"
#include "jsonnet/trace.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string source(reinterpret_cast<const char*>(data), size);
  if (source.find('\0') != std::string::npos || combu::find_bad_utf8(source))
    return 0;  // evaluate() refuses such texts
  const combu::Evaluation evaluation{.file = "fuzz.jsonnet", .run = combu::RunId("fuzz")};
  combu::Importer importer({});
  combu::run_machine("fuzz.jsonnet", source, evaluation, importer, [&](bool ok, std::string_view text) {
    if (!ok) (void)combu::explain(text, "fuzz.jsonnet", source, combu::Columns(source, {}, 4));
  });
  return 0;
}
