// Brings all files of a folder into a bucket, as the outputs of one trial come there, and prints the seconds
// that it took: bench_s3 s3://BUCKET/PREFIX FOLDER. Keys and server come from the environment. tests/bench/s3
// runs it beside other clients.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "combu/outputs.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

void bring(Parcel& parcel, const fs::path& folder) {
  std::vector<char> block(std::size_t{256} << 10U);
  for (const auto& file : fs::recursive_directory_iterator(folder)) {
    if (!file.is_regular_file()) continue;
    parcel.add({.path = fs::relative(file.path(), folder).string(),
                .mode = 0644,
                .size = static_cast<std::int64_t>(file.file_size())});
    std::ifstream bytes(file.path(), std::ios::binary);
    while (bytes.read(block.data(), static_cast<std::streamsize>(block.size())), bytes.gcount() > 0)
      parcel.write(std::string_view(block.data(), static_cast<std::size_t>(bytes.gcount())));
  }
}

int run(const std::string& place, const std::string& folder) {
  Caller caller{.home = "/nonexistent"};
  caller.env = [](const std::string& name) -> std::optional<std::string> {
    const char* const value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const auto began = std::chrono::steady_clock::now();
  const auto depot = open_s3(place, caller);
  const auto parcel = depot->open("trial", {});
  bring(*parcel, folder);
  parcel->close("");
  fmt::print("{:.3f}\n", Seconds(std::chrono::steady_clock::now() - began).count());
  return 0;
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "bench_s3 s3://BUCKET/PREFIX FOLDER\n");
    return 2;
  }
  try {
    return combu::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench_s3: {}\n", error.what());
    return 1;
  }
}
