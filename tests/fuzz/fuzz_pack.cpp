// Reads the input as a pack of a log (as a zstd frame, or as the content of a frame), or as packed telemetry.
// Each function must return a result or throw Error(corrupt). Memory and time must be bounded.

#include <fuzzer/FuzzedDataProvider.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include "combu/telemetry.hpp"
#include "telemetry/pack.hpp"

namespace {

template <class Body>
void expect_corrupt_only(const Body& body) {
  try {
    body();
  } catch (const combu::Error& error) {
    if (error.kind() != combu::ErrorKind::corrupt) throw;
  }
}

void read_pack(const std::string& data, std::size_t first) {
  using namespace combu::telemetry;
  std::int64_t size = -1;
  expect_corrupt_only([&] { size = checked(data, std::numeric_limits<std::int64_t>::max()).text.count; });
  std::int64_t reported = 0;
  expect_corrupt_only([&] {
    unpack(data, [&](const combu::LogPiece& piece) {
      reported += static_cast<std::int64_t>(piece.text.size());
      return true;
    });
  });
  if (size >= 0 && reported != size) std::abort();
  expect_corrupt_only([&] {
    const Pack rest = without_first(data, first);
    if (rest.size.count > reported) std::abort();
    unpack(rest.data, [](const combu::LogPiece&) { return true; });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static combu::Telemetry telemetry = [] {
    static std::string folder = "/tmp/combu-fuzz.XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    std::atexit([] { std::filesystem::remove_all(folder); });
    return combu::Telemetry(folder, combu::RunId("run"));
  }();
  FuzzedDataProvider choices(data, size);
  const auto form = choices.ConsumeIntegralInRange(0, 2);
  const auto first = choices.ConsumeIntegral<std::uint16_t>();
  const std::string bytes = choices.ConsumeRemainingBytesAsString();
  if (form == 0) read_pack(bytes, first);
  if (form == 1) read_pack(combu::telemetry::compressed(bytes), first);
  if (form == 2) expect_corrupt_only([&] { telemetry.adopt(bytes, "a"); });
  return 0;
}
