#pragma once
// What every room shares: the error type, ids, units, the clock, and one loop over many workers.

#include <sys/types.h>

#include <charconv>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace combu {

// What a caller can do about an error; nobody branches on a message's text.
enum class ErrorKind {
  invalid,      // the file or the arguments are wrong: the person corrects them
  not_found,    // what was named does not exist
  conflict,     // something else holds the name, the port, the place
  refused,      // the engine understood and would not; a repeat will be refused again
  unavailable,  // nobody answered, or the answer was cut: a repeat may succeed
  timeout,      // it took longer than its limit
  cancelled,    // its stop token was set
  corrupt,      // an answer that makes no sense
};
[[nodiscard]] std::string_view to_string(ErrorKind kind);

// The one exception type. `subject` is what it is about (a field's path, a trial, an address; may be empty),
// `message` one line for a person: what failed, why, and what to do next when that is known.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string subject, std::string message);

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] const std::string& subject() const { return subject_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  // "subject: message", or the message alone.
  [[nodiscard]] const char* what() const noexcept override { return text_.c_str(); }

 private:
  ErrorKind kind_;
  std::string subject_;
  std::string message_;
  std::string text_;
};

// ---- Units

using Seconds = std::chrono::duration<double>;
using Instant = std::chrono::system_clock::time_point;

struct Bytes {
  std::int64_t count = 0;
  auto operator<=>(const Bytes&) const = default;
};

// Processor time, in billionths of a CPU, as Docker counts it.
struct Cpus {
  std::int64_t nano = 0;
  auto operator<=>(const Cpus&) const = default;
};

// RFC 3339: "2026-01-31T12:00:00Z", "2026-01-31T13:00:00.5+01:00"; a date alone is its beginning in UTC.
// nullopt for what is none, and for years that an Instant does not reach (Docker's year 1 stands for no
// moment).
[[nodiscard]] std::optional<Instant> parse_timestamp(std::string_view text);

// A file's time, since 1970. An Instant reaches from 1677 to 2262: a time beyond becomes the first or the
// last second that it holds.
[[nodiscard]] Instant file_time(std::int64_t seconds, std::int64_t nanoseconds = 0);

// "90s", "1h30m", "500ms", "1.5h", or a plain number of seconds. Throws Error(invalid) with an empty subject;
// also when negative or longer than 100 years.
[[nodiscard]] Seconds parse_duration(std::string_view text);
// "512m", "2GiB", "2gb", "100k", or a plain number of bytes: powers of two, as Docker means them. Throws
// Error(invalid) with an empty subject; also when negative or beyond 2^63.
[[nodiscard]] Bytes parse_bytes(std::string_view text);
// "1.5", "0.25": throws Error(invalid) with an empty subject; also when negative or more than a million.
[[nodiscard]] Cpus parse_cpus(std::string_view text);
// "850 ms", "3.2 s", "4m10s", "2h05m": at most three significant places, for people.
[[nodiscard]] std::string to_string(Seconds duration);
// "512 MiB", "1.5 GiB".
[[nodiscard]] std::string to_string(Bytes bytes);
// "1.5", exact.
[[nodiscard]] std::string to_string(Cpus cpus);

// ---- Ids

// One execution of an experiment: 12 characters of [a-z0-9], or what --run-id gave.
class RunId {
 public:
  RunId() = default;
  // Throws Error(invalid) unless `text` is 1 to 64 characters of [a-zA-Z0-9_.-] beginning with a letter or
  // digit.
  explicit RunId(std::string text);
  // New at every call, from the system's random source.
  [[nodiscard]] static RunId random();
  [[nodiscard]] const std::string& text() const { return text_; }
  auto operator<=>(const RunId&) const = default;

 private:
  std::string text_;
};

// One try of a trial of a run.
struct Key {
  RunId run;
  std::string trial;
  int attempt = 1;
  auto operator<=>(const Key&) const = default;
};

// ---- Words

// The known word that `word` is likely to mean: the nearest by edit distance (a transposition counts one)
// that is at most a third of the word's length away, at least 1; else the shortest that it abbreviates
// ("img", "image"); else nullopt.
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      const std::vector<std::string_view>& known);

// Without the blanks (spaces, tabs, ends of lines) at both its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// The whole text as a decimal number: no blanks, no `+` before it. nullopt: it is none, or beyond what Number
// holds. A `double` may be NaN or infinite ("nan", "inf").
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}
// The value that to_string() calls `word`, among those of an enumeration from 0 to `count` - 1.
template <class Enum>
[[nodiscard]] std::optional<Enum> parse_enum(std::string_view word, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (to_string(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  return std::nullopt;
}

// "a, b and 4 more": the first `named_max` names, and the number of the other ones.
[[nodiscard]] std::string list_text(const std::vector<std::string>& names, std::size_t named_max);

// A character of UTF-8 (RFC 3629: no surrogates, nothing overlong).
struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
};
// The one that `text`, which is not empty, begins with; nullopt: its first byte is of none.
[[nodiscard]] std::optional<Character> first_character(std::string_view text);
// Whether it is a byte of a UTF-8 character, and not its first.
[[nodiscard]] bool is_inside_character(char byte);
// What a text without control characters takes of a line of a terminal. Two columns for each character beyond
// Hangul Jamo, but for punctuation, arrows and box drawing; a byte that is no UTF-8 takes one. Rather one too
// many (a combining mark) than one too few, since a line that is too long would wrap.
[[nodiscard]] std::size_t columns_of(std::string_view text);

// True for a character that a terminal acts on, or that changes the order in which text is shown: C0 and C1
// controls, DEL, bidirectional controls (Unicode UAX #9), line and paragraph separators, U+FEFF.
[[nodiscard]] bool is_control(char32_t code);
// The length of `text` without an incomplete UTF-8 character at its end.
[[nodiscard]] std::size_t whole_characters(std::string_view text);
// `text` with each control character except newline and tab as `\u001b`, and each byte that is not UTF-8 as
// `\x9b`. JSON keeps its meaning: control characters occur only in its strings.
[[nodiscard]] std::string escape_controls(std::string_view text);
// Appends `more`. Of a text that is longer than twice `size` then, only the last `size` bytes stay.
void append_to_tail(std::string& text, std::string_view more, std::size_t size);

// What a message shows of a text from outside: at most 60 characters, cut between characters, on one line
// (control characters are escaped).
[[nodiscard]] std::string shortened(std::string_view text);

// ---- Sums

// SHA-256 (FIPS 180-4) of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view bytes);
  // In hexadecimal digits. Nothing is added after it.
  [[nodiscard]] std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
[[nodiscard]] std::string sha256_of(std::string_view bytes);

// Base64 (RFC 4648) of less than 1 GiB, with the alphabet for URLs, padded.
[[nodiscard]] std::string encode_base64url(std::string_view bytes);
// Takes either alphabet, padded or not, and skips all other characters. Less than 1 GiB.
[[nodiscard]] std::string decode_base64(std::string_view text);

// ---- Files

// True if `path` is `folder` or below it. Both are normalised; the empty `folder` holds every path.
[[nodiscard]] bool holds_path(std::string_view folder, std::string_view path);

// A file descriptor that closes itself; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  void close();

 private:
  int number_;
};

// Opens the file behind `opened` once more, with the flags `how` of open(2). The call looks up no name that
// another process could exchange, so fstat() reports the same file for both descriptors. On failure the
// result is not open, and errno has the reason.
[[nodiscard]] Descriptor reopen(const Descriptor& opened, int how);

struct OpenedFolder {
  Descriptor folder;        // by O_PATH
  std::string failed = {};  // the path of the first folder that could not be opened; empty: none
  int code = 0;             // errno of that; ENOTDIR also of a symbolic link
};
// Opens a folder by its absolute path, and follows no symbolic link. `make` is called for a name that does
// not exist in the open folder `above`; it returns 0 when it has made a folder of that name, or an errno.
[[nodiscard]] OpenedFolder open_without_links(
    const std::string& path, const std::function<int(int above, const std::string& name)>& make = {});

// One entry of a folder. `kind` is its S_IFMT bits; 0 if the file system does not list kinds.
struct FolderEntry {
  std::string name;
  mode_t kind = 0;
};
// All entries of an open folder except "." and "..", in no order; nullopt on failure, with the reason in
// errno.
[[nodiscard]] std::optional<std::vector<FolderEntry>> list_folder(int folder);

// A folder, and the path by which it was entered from a root folder. No symbolic link is followed. However
// deep the path is, at most k_open_max descriptors are open. Belongs to one thread.
class FolderPath {
 public:
  static constexpr std::size_t k_open_max = 8;

  // `root` must be an open folder.
  explicit FolderPath(Descriptor root);

  [[nodiscard]] int number() const { return levels_.back().folder.number(); }
  [[nodiscard]] std::size_t depth() const { return levels_.size() - 1; }  // 0: the root
  // Both change nothing and return false on failure, with the reason in errno.
  [[nodiscard]] bool enter(const std::string& name);
  // Not at the root. ESTALE: the folder has been moved out of the folder that it was entered from.
  [[nodiscard]] bool leave();

 private:
  struct Level {
    Descriptor folder;  // closed if it is far above the last one
    dev_t device = 0;
    ino_t inode = 0;
  };
  [[nodiscard]] bool push(Descriptor folder);

  std::vector<Level> levels_;
};

// All that `descriptor` gives until its end. Throws Error(invalid, subject) if it cannot be read, or gives
// more than `most`.
[[nodiscard]] std::string read_all(int descriptor, const std::string& subject, Bytes most);

// The content of a file that foreign text names. Never waits for a pipe's writer and never opens a device.
// nullopt: there is no such file. Throws Error(invalid, path) if it is not a regular file, is larger than
// `most`, or cannot be read.
[[nodiscard]] std::optional<std::string> read_regular_file(const std::string& path, Bytes most);

// ---- Time and threads

// Where time comes from. The real one is the system's; the simulated engine brings a virtual one.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() = 0;
  // Returns after `duration`, or at once when `stop` is set.
  virtual void wait(Seconds duration, std::stop_token stop) = 0;
};
[[nodiscard]] Clock& real_clock();

// Calls body(i) for each i in [0, count) from at most `width` threads (in order of i, the calling thread
// among them) and returns when all are done. The first exception stops further calls and is thrown again.
void in_parallel(std::size_t count, std::size_t width, const std::function<void(std::size_t)>& body);

}  // namespace combu
