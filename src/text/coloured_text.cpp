#include <algorithm>
#include <cstddef>
#include <utility>

#include "combu/text.hpp"

namespace combu {
namespace {

constexpr char k_escape = '\x1b';
constexpr std::string_view k_reset = "\x1b[0m";
// Maximum length of an SGR sequence in bytes; longer sequences are escaped.
constexpr std::size_t k_sequence_max = 64;

// Returns the length of the SGR sequence at the beginning of `text`. Returns 0 if `text` does not begin with
// an SGR sequence, and npos if `text` is too short to decide.
std::size_t colour_size(std::string_view text) {
  constexpr std::string_view k_parameters = "0123456789;:";
  if (text.size() == 1) return std::string_view::npos;
  if (text[1] != '[') return 0;
  const std::size_t end = text.find_first_not_of(k_parameters, 2);
  if (std::min(end, text.size()) > k_sequence_max) return 0;
  if (end == std::string_view::npos) return end;
  return text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

std::string ColouredText::add(std::string_view piece) {
  held_ += piece;
  std::string out;
  move_to(out, false);
  return out;
}

std::string ColouredText::end() {
  std::string out;
  move_to(out, true);
  reset(out);
  return out;
}

void ColouredText::reset(std::string& out) {
  if (std::exchange(is_coloured_, false)) out += k_reset;
}

void ColouredText::move_to(std::string& out, bool is_end) {
  std::string_view rest = held_;
  while (!rest.empty()) {
    const std::string_view plain = rest.substr(0, rest.find_first_of("\x1b\r\n"));
    const bool may_go_on = plain.size() == rest.size() && !is_end;
    const std::size_t whole = may_go_on ? whole_characters(plain) : plain.size();
    out += escape_controls(plain.substr(0, whole));
    rest.remove_prefix(whole);
    if (rest.empty() || whole < plain.size()) break;
    const std::size_t size = rest.front() == k_escape ? colour_size(rest) : 1;
    const bool is_cut = size == std::string_view::npos || rest == "\r";
    if (is_cut && !is_end) break;
    if (rest.front() == '\n') reset(out);
    if (rest.front() != k_escape) {
      out += rest.front();
    } else if (size == 0 || is_cut) {
      out += escape_controls(rest.substr(0, 1));
    } else {
      out += rest.substr(0, size);
      is_coloured_ = true;
    }
    const bool is_return = rest.front() == '\r';
    rest.remove_prefix(size == 0 || is_cut ? 1 : size);
    if (is_return && !rest.empty() && rest.front() != '\r' && rest.front() != '\n') out += prefix_;
  }
  held_.erase(0, held_.size() - rest.size());
}

}  // namespace combu
