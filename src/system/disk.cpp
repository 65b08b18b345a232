#include <sys/statvfs.h>

#include <cstdint>

#include "combu/system.hpp"

namespace combu {

std::optional<DiskSpace> disk_space(const std::string& path) {
  struct statvfs status {};
  if (::statvfs(path.c_str(), &status) != 0 || status.f_blocks == 0) return std::nullopt;
  const auto bytes = [&](std::uint64_t blocks) {
    return Bytes{static_cast<std::int64_t>(blocks * static_cast<std::uint64_t>(status.f_frsize))};
  };
  return DiskSpace{.free = bytes(status.f_bavail), .total = bytes(status.f_blocks)};
}

}  // namespace combu
