#include "spec/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace combu::spec {

namespace {

bool plain_key(std::string_view key) {
  return std::ranges::all_of(key,
                             [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; });
}

}  // namespace

std::string Place::text() const {
  std::vector<const Place*> chain;
  for (const Place* place = this; place->parent_ != nullptr; place = place->parent_) chain.push_back(place);
  std::string text;
  std::ranges::reverse(chain);
  for (const Place* place : chain) {
    if (place->name_.data() == nullptr) {
      text += fmt::format("[{}]", place->index_);
    } else if (place->name_.empty() || !plain_key(place->name_)) {
      text += fmt::format("[\"{}\"]", shortened(place->name_));
    } else {
      if (!text.empty()) text += '.';
      text += shortened(place->name_);
    }
  }
  return text;
}

void Report::add_at(const std::string& path, const std::string& message) {
  const std::string about = trial_.empty() ? "" : fmt::format(" (trial `{}`)", shortened(trial_));
  errors_.emplace_back(ErrorKind::invalid, path, message + about);
}

void Report::warn(Warning kind, const std::string& where, const std::string& message) {
  const auto [at, is_first] = warned_.try_emplace(kind);
  if (!is_first) {
    ++at->second.others;
  } else if (trial_.empty()) {
    at->second = {.subject = where, .message = message};
  } else {
    at->second = {.subject = std::string(shortened(trial_)),
                  .message = fmt::format("{}: {}", where, message)};
  }
}

std::vector<std::string> Report::warnings() const {
  std::vector<std::string> lines;
  lines.reserve(warned_.size());
  for (const auto& [kind, first] : warned_)
    lines.push_back(fmt::format("{}{}: {}", first.subject,
                                first.others == 0 ? "" : fmt::format(" and {} more", first.others),
                                first.message));
  return lines;
}

}  // namespace combu::spec
