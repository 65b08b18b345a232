// Another process replaces a file while combu opens it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "combu/base.hpp"

namespace {
std::function<void()> after_look;  // called once, after the next stat() or fstat()
void look() {
  if (after_look) std::exchange(after_look, nullptr)();
}
}  // namespace

// Replace the functions of the C library.
extern "C" int stat(const char* path, struct stat* state) noexcept {
  const auto result = static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, state, 0));
  look();
  return result;
}
extern "C" int fstat(int file, struct stat* state) noexcept {
  const auto result = static_cast<int>(syscall(SYS_newfstatat, file, "", state, AT_EMPTY_PATH));
  look();
  return result;
}

namespace combu {
namespace {

namespace fs = std::filesystem;

TEST(ReadRegularFile, AFileReplacedDuringTheCallIsNotOpened) {
  const fs::path folder = testing::TempDir() + "exchange." + std::to_string(getpid());
  fs::create_directories(folder);
  const std::string path = folder / "file";
  std::ofstream(path) << "text";
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), S_IRUSR | S_IWUSR), 0);
  bool is_exchanged = false;
  after_look = [&] {
    fs::rename(folder / "pipe", path);
    is_exchanged = true;
  };
  EXPECT_EQ(read_regular_file(path, Bytes{16}), "text");
  EXPECT_TRUE(is_exchanged);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace combu
