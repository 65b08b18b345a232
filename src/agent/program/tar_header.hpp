#pragma once
// The header of an entry of a tar archive: POSIX.1-2017, pax, "ustar Interchange Format".

#include <array>
#include <cstddef>

namespace combu::agent {

inline constexpr std::size_t k_tar_block = 512;

struct TarHeader {
  std::array<char, 100> name;
  std::array<char, 8> mode;
  std::array<char, 8> uid;
  std::array<char, 8> gid;
  std::array<char, 12> size;
  std::array<char, 12> mtime;
  std::array<char, 8> checksum;
  char type;
  std::array<char, 100> link;
  std::array<char, 6> magic;
  std::array<char, 2> version;
  std::array<char, 32> user;
  std::array<char, 32> group;
  std::array<char, 8> major;
  std::array<char, 8> minor;
  std::array<char, 155> prefix;
  std::array<char, 12> padding;
};
static_assert(sizeof(TarHeader) == k_tar_block);

inline constexpr char k_tar_file = '0';
inline constexpr char k_tar_hard_link = '1';
inline constexpr char k_tar_symlink = '2';
inline constexpr char k_tar_folder = '5';
inline constexpr char k_tar_pax = 'x';

}  // namespace combu::agent
