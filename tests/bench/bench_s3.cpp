// bench_s3 s3://BUCKET/PREFIX ARCHIVE: collects the outputs of one trial into a bucket, as a run does. The
// tar archive ARCHIVE, which has the outputs in its folder `out`, replaces the engine's answer. Keys and
// server come from environment variables. tests/bench/s3 compares this program with other clients.

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "combu/outputs.hpp"
#include "combu/simulated.hpp"
#include "passing_engine.hpp"

namespace combu {
namespace {

class Archive : public test::PassingEngine {
 public:
  Archive(Engine& engine, std::string path) : PassingEngine(engine), path_(std::move(path)) {}
  bool copy_out(const Key& /*key*/, const std::string& /*path*/,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    std::ifstream bytes(path_, std::ios::binary);
    if (!bytes) throw Error(ErrorKind::refused, path_, "cannot be opened");
    // A real engine's socket delivers blocks of about this size.
    std::array<char, std::size_t{64} << 10U> block{};
    while (bytes.read(block.data(), block.size()), bytes.gcount() > 0)
      on_bytes(std::string_view(block.data(), static_cast<std::size_t>(bytes.gcount())));
    return true;
  }

 private:
  std::string path_;
};

void bench_s3(const std::string& place, const std::string& archive) {
  Caller caller{.home = "/nonexistent"};
  caller.env = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  World world({});
  const std::unique_ptr<Engine> none = open_simulated(world, 0);
  Archive engine(*none, archive);
  const std::unique_ptr<OutputStore> output_store = open_s3(place, caller);
  (void)collect_outputs(engine, {.run = RunId("run"), .trial = "trial"}, {Output{.path = "/out"}},
                        *output_store, {});
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "bench_s3 s3://BUCKET/PREFIX ARCHIVE\n");
    return 2;
  }
  try {
    combu::bench_s3(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_s3: {}\n", error.what());
    return 1;
  }
}
