#pragma once
// Splits a stream of JSON objects, or a JSON list of objects, while the stream arrives.

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace combu::docker {

// Calls `take` with the text of each object. The objects may follow each other directly or on separate lines,
// or be the elements of a list. The stream may arrive in pieces of any size. A list of thousands of
// containers is never in memory as a whole.
class JsonPieces {
 public:
  // `bytes_max`: maximum size in bytes of the whole stream.
  explicit JsonPieces(std::function<void(std::string_view)> take,
                      std::size_t bytes_max = std::numeric_limits<std::size_t>::max())
      : take_(std::move(take)), bytes_max_(bytes_max) {}

  // Throws Error(corrupt) with an empty subject if the stream contains anything but JSON objects. Throws the
  // same error for an object larger than 16 MiB, and for a stream larger than `bytes_max`.
  void feed(std::string_view bytes);
  // Must be called at the end of the stream. Throws Error(corrupt) if an object or a list is incomplete.
  void finish() const;

 private:
  void scan_object(std::string_view bytes, std::size_t& at);

  std::function<void(std::string_view)> take_;
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;  // bytes received
  std::string object_;     // the part of the current object that arrived in earlier pieces
  std::size_t depth_ = 0;
  bool in_list_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace combu::docker
