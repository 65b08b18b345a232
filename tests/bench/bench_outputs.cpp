// bench_outputs ADDRESS RUN TRIAL PATH FOLDER: collects PATH from a trial's first attempt into FOLDER/TRIAL,
// as a run does.

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "combu/docker.hpp"
#include "combu/outputs.hpp"

namespace combu {
namespace {

int bench_outputs(const std::string& address, const Key& key, const std::string& path,
                  const std::string& folder) {
  const std::unique_ptr<Engine> engine =
      open_docker(find_docker([](const std::string&) { return std::nullopt; }, address));
  const std::unique_ptr<OutputStore> output_store = open_folder(folder);
  (void)collect_outputs(*engine, key, {Output{.path = path}}, *output_store, {});
  return 0;
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  constexpr int k_arguments = 6;
  if (argc != k_arguments) {
    fmt::print(stderr, "bench_outputs ADDRESS RUN TRIAL PATH FOLDER\n");
    return 2;
  }
  try {
    return combu::bench_outputs(argv[1], {.run = combu::RunId(argv[2]), .trial = argv[3]}, argv[4], argv[5]);
  } catch (const combu::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
