#include <fmt/format.h>

#include "combu/curl.hpp"

namespace combu::curl {
namespace {

constexpr std::size_t k_headers_max = std::size_t{256} << 10U;

}  // namespace

bool BufferedAnswer::add_header(std::size_t bytes) {
  header_bytes += bytes;
  if (header_bytes > k_headers_max)
    excess = fmt::format("has more than {} KiB of headers", k_headers_max >> 10U);
  return excess.empty();
}

bool BufferedAnswer::add(std::string_view piece) {
  if (piece.size() > body_max - body.size()) {
    excess = fmt::format("is larger than {} MiB", body_max >> 20U);
    return false;
  }
  body += piece;
  return true;
}

}  // namespace combu::curl
