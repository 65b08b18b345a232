#pragma once
// A stream of JSON objects, or a list of them, taken apart as it comes.

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace combu::docker {

// Calls `take` with the text of each object, whether they come one behind the other, one a line, or as the
// elements of a list, and however they are cut into pieces. A list of thousands of containers so never stands
// in memory as a whole.
class JsonPieces {
 public:
  // `bytes_max`: of all objects together.
  explicit JsonPieces(std::function<void(std::string_view)> take,
                      std::size_t bytes_max = std::numeric_limits<std::size_t>::max())
      : take_(std::move(take)), bytes_max_(bytes_max) {}

  // Throws Error(corrupt), with an empty subject, for what is no JSON object, an object larger than 16 MiB,
  // and more than `bytes_max`.
  void feed(std::string_view bytes);
  // At the stream's end: throws Error(corrupt) when an object or a list is open.
  void finish() const;

 private:
  void scan_object(std::string_view bytes, std::size_t& at);

  std::function<void(std::string_view)> take_;
  std::size_t bytes_max_;
  std::size_t bytes_ = 0;  // so far
  std::string object_;     // as far as it came in earlier pieces
  std::size_t depth_ = 0;
  bool in_list_ = false;
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace combu::docker
