// evaluate FILE [--ext-str K=V] [--ext-code K=CODE] [--tla-str K=V] [--tla-code K=CODE]…: prints the JSON
// that combu makes of an experiment's file, or what is wrong with it. For comparing evaluators, and for
// measuring them.

#include <cstdio>
#include <span>
#include <string>
#include <string_view>

#include "combu/jsonnet.hpp"

namespace {

combu::Evaluation evaluation_of(std::span<char*> arguments) {
  combu::Evaluation evaluation;
  evaluation.file = arguments.front();
  evaluation.run = combu::RunId("0123456789ab");
  for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
    const std::string_view option = arguments[i];
    const std::string given = arguments[i + 1];
    const std::size_t equals = given.find('=');
    auto& pairs = option == "--ext-str"    ? evaluation.ext_str
                  : option == "--ext-code" ? evaluation.ext_code
                  : option == "--tla-str"  ? evaluation.tla_str
                                           : evaluation.tla_code;
    pairs.emplace_back(given.substr(0, equals), given.substr(equals + 1));
  }
  return evaluation;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  try {
    const std::string json =
        combu::evaluate(evaluation_of({argv + 1, static_cast<std::size_t>(argc - 1)})).json;
    return std::fwrite(json.data(), 1, json.size(), stdout) == json.size() ? 0 : 1;
  } catch (const combu::Error& error) {
    (void)std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
