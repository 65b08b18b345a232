#include <string>
#include <string_view>
#include <utility>

#include "combu/base.hpp"

namespace combu {

std::string_view to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid:
      return "invalid";
    case ErrorKind::not_found:
      return "not_found";
    case ErrorKind::conflict:
      return "conflict";
    case ErrorKind::refused:
      return "refused";
    case ErrorKind::unavailable:
      return "unavailable";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::cancelled:
      return "cancelled";
    case ErrorKind::corrupt:
      return "corrupt";
    case ErrorKind::lost:
      return "lost";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, std::string subject, std::string message)
    : kind_(kind),
      subject_(std::move(subject)),
      message_(std::move(message)),
      text_(subject_.empty() ? message_ : subject_ + ": " + message_) {}

}  // namespace combu
