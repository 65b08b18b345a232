#pragma once
// Tar archives that libarchive does not write.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace combu::test {

// Returns an archive entry in the format of POSIX (pax, "ustar Interchange Format").
inline std::string raw_entry(const std::string& path, char type, const std::string& content) {
  constexpr std::size_t k_block = 512;
  std::string header(k_block, '\0');
  const auto put = [&](std::size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](std::size_t value, int digits) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%0*zo", digits, value);
    return std::string(text.data());
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(content.size(), 11));
  put(136, octal(0, 11));
  put(148, "        ");
  put(156, std::string(1, type));
  put(257, std::string("ustar\00000", 8));
  std::size_t sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  put(148, octal(sum, 6));
  header[154] = '\0';
  const std::size_t rest = content.size() % k_block;
  return header + content + std::string(rest == 0 ? 0 : k_block - rest, '\0');
}

// Returns an archive of one file that is a hole except for its last byte (GNU tar's manual, "Storing Sparse
// Files": version 1.0).
inline std::string sparse_archive(const std::string& path, std::int64_t size) {
  std::string records;
  const auto record = [&](const std::string& name, const std::string& value) {
    const std::string text = " " + name + "=" + value + "\n";
    std::size_t length = text.size() + 1;
    while (std::to_string(length).size() + text.size() != length) ++length;
    records += std::to_string(length) + text;
  };
  record("GNU.sparse.major", "1");
  record("GNU.sparse.minor", "0");
  record("GNU.sparse.name", path);
  record("GNU.sparse.realsize", std::to_string(size));
  std::string map = "1\n" + std::to_string(size - 1) + "\n1\n";
  map.resize(512);
  return raw_entry("pax", 'x', records) + raw_entry("GNUSparseFile.0/" + path, '0', map + "x") +
         std::string(1024, '\0');
}

}  // namespace combu::test
