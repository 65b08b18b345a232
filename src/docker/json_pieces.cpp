#include "docker/json_pieces.hpp"

#include <utility>

#include "combu/base.hpp"

namespace combu::docker {

// From `at` to the end of the object, or of the bytes.
void JsonPieces::scan_object(std::string_view bytes, std::size_t& at) {
  constexpr std::size_t k_object_max = std::size_t{64} << 20U;
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
  object_ += part;
  if (object_.size() > k_object_max)
    throw Error(ErrorKind::corrupt, "", "the answer holds an object without an end");
  if (depth_ != 0) return;
  const std::string object = std::exchange(object_, {});
  take_(object);
}

void JsonPieces::feed(std::string_view bytes) {
  constexpr std::string_view k_between = " \t\r\n,";
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
    } else if (k_between.find(letter) == std::string_view::npos) {
      throw Error(ErrorKind::corrupt, "", "the answer is not the JSON that a Docker Engine gives");
    }
  }
}

void JsonPieces::finish() const {
  if (depth_ > 0 || in_list_) throw Error(ErrorKind::corrupt, "", "the answer's JSON ends in the middle");
}

}  // namespace combu::docker
