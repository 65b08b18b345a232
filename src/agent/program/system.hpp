#pragma once
// Descriptors, clocks and small files.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace combu::agent {

inline constexpr std::int64_t k_second = 1'000'000'000;  // nanoseconds
inline constexpr std::int64_t k_millisecond = 1'000'000;

// Owns a file descriptor; -1 if there is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor reader;
  Descriptor writer;
};

// Opens a pipe whose ends are closed on exec. Returns false and sets errno on failure.
bool open_pipe(Pipe& pipe);
void set_nonblocking(int descriptor);
void set_blocking(int descriptor);

// Nanoseconds since 1970.
std::int64_t real_time();
// Nanoseconds since the boot of the machine: the clock of /proc/PID/stat, which never goes back.
std::int64_t steady_time();

// Returns at most `bytes_max` bytes of a file; an empty text if it cannot be read.
std::string read_file(const char* path, std::size_t bytes_max);
// Reads from the beginning of an open file into `out`. Returns false if that fails.
bool read_again(int descriptor, std::string& out);
// Writes everything to a blocking descriptor. Returns false and sets errno on failure.
bool write_all(int descriptor, std::string_view bytes);

// Writes a line about this process to standard error.
void complain(std::string_view text);

// Returns the digits of a number.
std::string to_text(std::uint64_t number);
// Reads a decimal number that takes up the whole text. Returns false if the text is none.
bool read_number(std::string_view text, std::uint64_t& number);
// Returns "WHAT: the message of the errno".
std::string problem_text(std::string_view what, int error);

}  // namespace combu::agent
