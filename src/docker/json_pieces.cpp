#include "docker/json_pieces.hpp"

#include <fmt/core.h>

#include <cstdint>
#include <utility>

#include "combu/base.hpp"

namespace combu::docker {
namespace {

constexpr std::size_t k_object_max = std::size_t{16} << 20U;

Error too_large(const char* what, std::size_t bytes_max) {
  return {ErrorKind::corrupt, "",
          fmt::format("{} is larger than {}", what, to_string(Bytes{static_cast<std::int64_t>(bytes_max)}))};
}

// True for characters that may separate two objects.
bool is_between(char letter) {
  return letter == ' ' || letter == '\t' || letter == '\r' || letter == '\n' || letter == ',';
}

}  // namespace

// Scans `bytes` from `at` to the end of the current JSON object, or to the end of `bytes`.
void JsonPieces::scan_object(std::string_view bytes, std::size_t& at) {
  const std::size_t begin = at;
  for (; at < bytes.size(); ++at) {
    const char letter = bytes[at];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (letter == '\\') {
        escaped_ = true;
      } else if (letter == '"') {
        in_string_ = false;
      }
    } else if (letter == '"') {
      in_string_ = true;
    } else if (letter == '{' || letter == '[') {
      ++depth_;
    } else if ((letter == '}' || letter == ']') && --depth_ == 0) {
      ++at;
      break;
    }
  }
  const std::string_view part = bytes.substr(begin, at - begin);
  if (depth_ == 0 && object_.empty()) {
    take_(part);
    return;
  }
  if (part.size() > k_object_max - object_.size()) throw too_large("an object of the answer", k_object_max);
  object_ += part;
  if (depth_ != 0) return;
  const std::string object = std::exchange(object_, {});
  take_(object);
}

void JsonPieces::feed(std::string_view bytes) {
  if (bytes.size() > bytes_max_ - bytes_) throw too_large("the answer", bytes_max_);
  bytes_ += bytes.size();
  for (std::size_t at = 0; at < bytes.size();) {
    if (depth_ > 0 || bytes[at] == '{') {
      scan_object(bytes, at);
      continue;
    }
    const char letter = bytes[at++];
    if (letter == '[' && !in_list_) {
      in_list_ = true;
    } else if (letter == ']' && in_list_) {
      in_list_ = false;
    } else if (!is_between(letter)) {
      throw Error(ErrorKind::corrupt, "", "the answer is not the JSON of a Docker Engine");
    }
  }
}

void JsonPieces::finish() const {
  if (depth_ > 0 || in_list_) throw Error(ErrorKind::corrupt, "", "the answer's JSON is incomplete");
}

}  // namespace combu::docker
