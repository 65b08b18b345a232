// Unpacks bytes as an engine's archive of an output into a folder. The code must not crash or write outside
// the folder. Every file in the manifest must exist and have its checksum. The first byte of the input sets
// the size of the pieces in which the other bytes are read.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "guarded_folder.hpp"
#include "outputs/folder.hpp"
#include "outputs/manifest.hpp"
#include "outputs/removal.hpp"
#include "outputs/unpack.hpp"

namespace {

namespace fs = std::filesystem;
using combu::Descriptor;
using combu::fuzz::GuardedFolder;

// Returns the content of a file below `root`. Aborts if a part of the path is a symbolic link.
std::string content_of(const fs::path& root, const std::string& path) {
  Descriptor at(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (std::string_view left = path; !left.empty();) {
    const std::size_t slash = std::min(left.find('/'), left.size());
    at = Descriptor(
        openat(at.number(), std::string(left.substr(0, slash)).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!at.is_open()) std::abort();
    left.remove_prefix(std::min(slash + 1, left.size()));
  }
  std::string content;
  char piece[4096];
  for (ssize_t count = 0; (count = ::read(at.number(), piece, sizeof piece)) > 0;)
    content.append(piece, static_cast<std::size_t>(count));
  return content;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const GuardedFolder guarded;
  if (size == 0) return 0;
  const std::size_t piece = std::size_t{data[0]} * 16 + 1;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto read = [&] {
    const std::string_view next = bytes.substr(0, piece);
    bytes.remove_prefix(next.size());
    return next;
  };
  combu::CollectionResult collection;
  combu::outputs::Checksums written;
  bool is_whole = false;
  try {
    const auto writer = combu::outputs::open_passing(guarded.results(), "t");
    combu::outputs::unpack(read,
                           {.place = "out/here", .size_max = combu::Bytes{1 << 20U}, .subject = "/out/here"},
                           *writer, collection, written);
    writer->close(combu::outputs::manifest_of(written));
    is_whole = true;
  } catch (const combu::Error&) {
  }
  guarded.expect_untouched();
  if (GuardedFolder::names_in(guarded.results()) !=
      (is_whole ? std::set<std::string>{"t"} : std::set<std::string>{}))
    std::abort();
  if (!is_whole) return 0;
  const auto sums = combu::outputs::sums_in_manifest(combu::outputs::manifest_of(written));
  if (sums != written || sums.size() != collection.files) std::abort();
  for (const auto& [path, sum] : sums)
    if (combu::sha256_of(content_of(guarded.results() / "t", path)) != sum) std::abort();
  const Descriptor results(::open(guarded.results().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  combu::outputs::expect_removed(results.number(), "t", "");
  guarded.expect_untouched();
  return 0;
}
