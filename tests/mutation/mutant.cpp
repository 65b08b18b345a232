// combu_mutant(NUMBER) returns true if the environment variable COMBU_MUTANT is NUMBER. If
// COMBU_MUTANTS_REACHED names a file, each test appends a line to the file: the name of the test, its
// duration in milliseconds, and the numbers of the mutants that the test executed.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <string>

namespace {

constexpr int k_mutants_max = 1 << 14;
using Reached = std::array<std::atomic<bool>, k_mutants_max>;

int chosen() {
  const char* number = std::getenv("COMBU_MUTANT");
  return number == nullptr ? -1 : std::atoi(number);
}

// A file holds the array, so that child processes of a test share it: a death test may run in a new process.
// The bytes of the new file are 0.
Reached* array_of_reached() {
  const char* path = std::getenv("COMBU_MUTANTS_REACHED");
  if (path == nullptr) return nullptr;
  const int file = open((std::string(path) + ".array").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, sizeof(Reached)) != 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(Reached), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return memory == MAP_FAILED ? nullptr : static_cast<Reached*>(memory);
}

Reached* reached() {
  static Reached* const the_array = array_of_reached();
  return the_array;
}

class Writer : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& test) override {
    std::ofstream file(std::getenv("COMBU_MUTANTS_REACHED"), std::ios::app);
    file << test.test_suite_name() << '.' << test.name() << ' ' << test.result()->elapsed_time();
    for (int number = 0; number < k_mutants_max; ++number)
      if ((*reached())[number].exchange(false)) file << ' ' << number;
    file << '\n';
  }
};

const bool k_listens = [] {
  if (reached() != nullptr) testing::UnitTest::GetInstance()->listeners().Append(new Writer);
  return true;
}();

}  // namespace

extern "C" bool combu_mutant(int number) noexcept {
  static const int the_chosen = chosen();
  if (Reached* const all = reached(); all != nullptr) (*all)[number] = true;
  return number == the_chosen;
}
