#pragma once
// Types and functions that all rooms use: the error type, ids, units, text functions, files, the clock,
// in_parallel() and BytePipe.

#include <sys/types.h>

#include <charconv>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace combu {

// The kinds of errors. Callers choose their reaction by the kind, never by the text of the message.
enum class ErrorKind {
  invalid,      // a file or an argument is wrong; the user must correct it
  not_found,    // the named object does not exist
  conflict,     // the name, the port or the path is already in use
  refused,      // the engine or the system understood and refused the request; a repeat would be refused, too
  unavailable,  // the engine's or server's answer is missing or incomplete; a repeat may succeed
  timeout,      // the operation took longer than its limit
  cancelled,    // the caller stopped the operation by its stop token
  corrupt,      // the answer or the data is malformed
  lost,         // the named object was lost because its host has failed
};
[[nodiscard]] std::string_view to_string(ErrorKind kind);

// The only exception type of combu. `subject` names the object that the error is about: a field's path, a
// trial or an address. `subject` may be empty. `message` is one line for the user: the failure, the reason
// and, if known, the next step.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string subject, std::string message);

  [[nodiscard]] ErrorKind kind() const { return kind_; }
  [[nodiscard]] const std::string& subject() const { return subject_; }
  [[nodiscard]] const std::string& message() const { return message_; }
  // Returns "subject: message", or only the message if the subject is empty.
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

// A number of CPUs, in billionths of a CPU (Docker's unit NanoCpus).
struct Cpus {
  std::int64_t nano = 0;
  auto operator<=>(const Cpus&) const = default;
};

// Parses a timestamp of RFC 3339, such as "2026-01-31T12:00:00Z" or "2026-01-31T13:00:00.5+01:00". A date
// without a time of day means midnight UTC. Returns nullopt if `text` is not a timestamp, or if Instant
// cannot hold its year. For example, returns nullopt for the year 1, which Docker writes for a time that is
// not set.
[[nodiscard]] std::optional<Instant> parse_timestamp(std::string_view text);

// Converts a file's timestamp, in seconds and nanoseconds since 1970, to an Instant. Instant holds the years
// 1677 to 2262. An earlier or later timestamp becomes the first or the last second that Instant can hold.
[[nodiscard]] Instant file_time(std::int64_t seconds, std::int64_t nanoseconds = 0);

// Parses a duration such as "90s", "1h30m", "500ms" or "1.5h", or a plain number of seconds. Throws
// Error(invalid) with an empty subject if `text` is malformed, negative or longer than 100 years.
[[nodiscard]] Seconds parse_duration(std::string_view text);
// Parses a size such as "512m", "2GiB", "2gb" or "100k", or a plain number of bytes. Units are powers of two,
// as in Docker. Throws Error(invalid) with an empty subject if `text` is malformed, negative, or 2^63 or
// more.
[[nodiscard]] Bytes parse_bytes(std::string_view text);
// Parses a number of CPUs, such as "1.5" or "0.25". Throws Error(invalid) with an empty subject if `text` is
// malformed, negative or more than a million.
[[nodiscard]] Cpus parse_cpus(std::string_view text);
// Returns a duration for the user, rounded to about three significant digits, such as "850 ms", "3.2 s" or
// "4m10s".
[[nodiscard]] std::string to_string(Seconds duration);
// Returns a size for the user, rounded to about three significant digits, such as "512 MiB" or "1.5 GiB".
[[nodiscard]] std::string to_string(Bytes bytes);
// Returns the exact number of CPUs, such as "1.5".
[[nodiscard]] std::string to_string(Cpus cpus);

// ---- Ids

// Identifies a run: 12 random characters of [a-z0-9], or the value of --run-id.
class RunId {
 public:
  RunId() = default;
  // Throws Error(invalid) unless `text` is 1 to 64 characters of [a-zA-Z0-9_.-] and begins with a letter or a
  // digit.
  explicit RunId(std::string text);
  // Returns a new id at every call, from the system's random source.
  [[nodiscard]] static RunId random();
  [[nodiscard]] const std::string& text() const { return text_; }
  auto operator<=>(const RunId&) const = default;

 private:
  std::string text_;
};

// Identifies an attempt: the run, the trial's name, and the number of the attempt.
struct Key {
  RunId run;
  std::string trial;
  int attempt = 1;
  auto operator<=>(const Key&) const = default;
};

// ---- Text

// Returns the known word that the user most likely meant by `word`, or nullopt.
//
// The first choice is the known word with the smallest edit distance, where a transposition counts as one
// edit. The edit distance must not exceed max(1, length of `word` / 3). If no known word is close enough,
// nearest() returns the shortest known word that `word` abbreviates, as "img" abbreviates "image".
[[nodiscard]] std::optional<std::string_view> nearest(std::string_view word,
                                                      const std::vector<std::string_view>& known);

// Removes spaces, tabs and line ends at the beginning and the end of `text`.
[[nodiscard]] std::string_view trimmed(std::string_view text);

// Parses the whole text as a decimal number, without spaces and without a leading `+`. Returns nullopt if
// `text` is not a number, or if Number cannot hold its value. If Number is `double`, the result may be NaN or
// infinite ("nan", "inf").
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return fault == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}
// Returns the enumerator whose to_string() is `word`, or nullopt. `count` is the number of enumerators, whose
// values must be 0 to `count` - 1.
template <class Enum>
[[nodiscard]] std::optional<Enum> parse_enum(std::string_view word, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (to_string(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  return std::nullopt;
}

// Returns the first `named_max` names and the number of the remaining names, such as "a, b and 4 more".
[[nodiscard]] std::string list_text(const std::vector<std::string>& names, std::size_t named_max);

// A valid UTF-8 character (RFC 3629). Surrogates and overlong encodings are invalid.
struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
};
// Returns the first character of `text`, or nullopt if `text` does not begin with a valid character. `text`
// must not be empty.
[[nodiscard]] std::optional<Character> first_character(std::string_view text);
// Returns true if all characters of `text` are valid UTF-8. An empty text is valid.
[[nodiscard]] bool is_utf8(std::string_view text);
// Returns true if `byte` is a continuation byte of UTF-8.
[[nodiscard]] bool is_inside_character(char byte);
// Returns the number of columns that `text` takes on a terminal. `text` must not contain control characters.
//
// Each character from U+1100 (Hangul Jamo) on counts as two columns, except punctuation, arrows and box
// drawing. An invalid UTF-8 byte counts as one column. The result is an estimate, which is too large for some
// characters, such as combining marks. An estimate that is too small would let lines wrap.
[[nodiscard]] std::size_t columns_of(std::string_view text);

// Returns true for a character that controls the terminal or changes the order of the displayed text. Such
// characters are C0 and C1 controls, DEL, bidirectional controls (Unicode UAX #9), line and paragraph
// separators, and U+FEFF.
[[nodiscard]] bool is_control(char32_t code);
// Returns the length of `text` in bytes, not counting an incomplete UTF-8 character at the end of `text`.
[[nodiscard]] std::size_t whole_characters(std::string_view text);
// Replaces each control character, except newline and tab, by an escape sequence with its code, such as
// `\u001b`. Replaces each byte that is not UTF-8 by an escape sequence with its value, such as `\x9b`. JSON
// text keeps its meaning, because control characters occur in JSON only within strings.
[[nodiscard]] std::string escape_controls(std::string_view text);
// Appends `more` to `text`. If the result is longer than twice `size`, append_to_tail() keeps only the last
// `size` bytes.
void append_to_tail(std::string& text, std::string_view more, std::size_t size);

// Shortens a text from outside combu, so that a message can contain it. Returns one line of at most 60
// characters, with control characters escaped. The text is cut only between characters.
[[nodiscard]] std::string shortened(std::string_view text);
// Returns a message from outside combu as one line of at most 500 bytes: replaces each sequence of blanks and
// control characters by one space. The text is cut only between characters.
[[nodiscard]] std::string one_line(std::string_view text);

// ---- Hashes and Base64

// Computes the SHA-256 (FIPS 180-4) of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void add(std::string_view bytes);
  // Returns the hash in hexadecimal digits. The caller must not call add() or text() afterwards.
  [[nodiscard]] std::string text();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};
// Returns the SHA-256 of `bytes` as 64 hexadecimal digits.
[[nodiscard]] std::string sha256_of(std::string_view bytes);

// Encodes `bytes` as Base64 (RFC 4648), with padding. `bytes` must be smaller than 1 GiB.
[[nodiscard]] std::string encode_base64(std::string_view bytes);
// Like encode_base64(), but in the URL-safe alphabet.
[[nodiscard]] std::string encode_base64url(std::string_view bytes);
// Decodes Base64 in the standard or the URL-safe alphabet, with or without padding. Skips all characters
// outside of the Base64 alphabets. `text` must be smaller than 1 GiB.
[[nodiscard]] std::string decode_base64(std::string_view text);

// ---- Files

// Returns true if `path` is `folder` or lies below `folder`. Both paths must be normalised. If `folder` is
// empty, the result is true for every path.
[[nodiscard]] bool holds_path(std::string_view folder, std::string_view path);

// Owns a file descriptor and closes it on destruction. The number -1 means that the object owns no
// descriptor.
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
  // True if the object owns a descriptor.
  [[nodiscard]] bool is_open() const { return number_ >= 0; }
  // Closes the owned descriptor, if any.
  void close();

 private:
  int number_;
};

// Opens the file of `opened` again, with the flags `how` of open(2). Does not resolve the file's name again,
// because another process could have replaced the file. So both descriptors refer to the same file. If
// reopen() fails, the returned descriptor is not open, and errno holds the reason.
[[nodiscard]] Descriptor reopen(const Descriptor& opened, int how);

struct OpenedFolder {
  Descriptor folder;        // opened with O_PATH
  std::string failed = {};  // path of the first folder that could not be opened; empty: no failure
  // errno of the failure; ENOTDIR if the path contains a file or symbolic link instead of a folder
  int code = 0;
};
// Opens a folder by its absolute path without following symbolic links. If a folder of the path does not
// exist, calls `make` with the descriptor of the parent folder and the name of the missing folder. `make`
// must create the folder and return 0, or return the errno of its failure.
[[nodiscard]] OpenedFolder open_without_links(
    const std::string& path, const std::function<int(int above, const std::string& name)>& make = {});

// An entry of a folder. `kind` holds the S_IFMT bits of the entry's mode, or 0 if the file system does not
// report them.
struct FolderEntry {
  std::string name;
  mode_t kind = 0;
};
// Returns all entries of an open folder except "." and "..", in no particular order. Returns nullopt on
// failure, with the reason in errno.
[[nodiscard]] std::optional<std::vector<FolderEntry>> list_folder(int folder);

// A position in a folder tree that the caller walks from a root folder. FolderPath never follows symbolic
// links. FolderPath keeps at most k_open_max descriptors open, however deep the position is. Not thread-safe.
class FolderPath {
 public:
  static constexpr std::size_t k_open_max = 8;

  // `root` must be an open folder. Throws std::system_error if the system cannot examine `root`.
  explicit FolderPath(Descriptor root);

  [[nodiscard]] int number() const { return levels_.back().folder.number(); }
  [[nodiscard]] std::size_t depth() const { return levels_.size() - 1; }  // 0: the root
  // Moves the position to the subfolder `name`. On failure, changes nothing and returns false, with the
  // reason in errno.
  [[nodiscard]] bool enter(const std::string& name);
  // Moves the position to the parent folder. The position must not be the root. On failure, changes nothing
  // and returns false, with the reason in errno. ESTALE means that another process has moved the current
  // folder to another parent.
  [[nodiscard]] bool leave();

 private:
  struct Level {
    Descriptor folder;  // descriptor of the folder; closed while the position is more than k_open_max levels
                        // below this folder
    dev_t device = 0;
    ino_t inode = 0;
  };
  [[nodiscard]] bool push(Descriptor folder);

  std::vector<Level> levels_;
};

// Reads from `descriptor` to the end. Throws Error(invalid, subject) if reading fails or yields more than
// `most` bytes.
[[nodiscard]] std::string read_all(int descriptor, const std::string& subject, Bytes most);

// Returns the content of a file whose path comes from an untrusted text, or nullopt if the file does not
// exist. The function never waits for the writer of a pipe and never opens a device. Throws Error(invalid,
// path) if the file is not a regular file, is larger than `most`, or cannot be read.
[[nodiscard]] std::optional<std::string> read_regular_file(const std::string& path, Bytes most);

// ---- Time and threads

// Source of the current time: combu uses real_clock(), and tests use clocks of their own.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual Instant now() = 0;
  // Blocks for `duration`, or until `stop` requests a stop.
  virtual void wait(Seconds duration, std::stop_token stop) = 0;
};
[[nodiscard]] Clock& real_clock();

// Calls body(i) for each i in [0, count) from at most `width` threads, including the calling thread. Starts
// the calls in ascending order of i, and blocks until all calls have returned. If a call throws,
// in_parallel() starts no further calls, waits for the running calls, and rethrows the first exception.
void in_parallel(std::size_t count, std::size_t width, const std::function<void(std::size_t)>& body);

// A bounded queue of bytes between one writer thread and one reader thread.
class BytePipe {
 public:
  // Blocks while the queue is full. Returns false if the reader has called leave().
  bool write(std::string_view bytes);
  // Ends the stream; no write() may follow. `fault`: the exception that cut the stream; null: the stream is
  // complete.
  void end(std::exception_ptr fault);

  // Blocks until bytes are available, and returns true; returns false at the end of the stream.
  [[nodiscard]] bool await_bytes();
  // Blocks until bytes are available and returns them; returns an empty view at the end of the stream. The
  // view is valid until the next call. After the last bytes, throws the exception that the writer passed to
  // end(), if any.
  [[nodiscard]] std::string_view read();
  // Ends reading: the reader will not call read() again.
  void leave();

 private:
  bool flush();

  std::string filling_;  // used only by the writer's thread
  std::string reading_;  // used only by the reader's thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> chunks_;
  std::vector<std::string> spare_;  // buffers for reuse: page faults of new memory take longer than copying
  bool ended_ = false;
  bool left_ = false;
  std::exception_ptr fault_;
};

}  // namespace combu
