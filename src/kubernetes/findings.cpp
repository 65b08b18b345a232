#include "kubernetes/findings.hpp"

#include <fmt/format.h>

namespace combu::kubernetes {

void Findings::add_at(const Trial& trial, const std::string& path, const std::string& field,
                      const std::string& message) {
  const std::size_t known = findings_.size();
  Finding& finding = find(path, field, message);
  const bool is_new = findings_.size() > known;
  if (is_new) finding.first = &trial;
  if (finding.first == nullptr || finding.last == &trial) return;
  finding.last = &trial;
  ++finding.trials;
}

void Findings::add_to_defaults(const std::string& field, const std::string& message) {
  find("defaults." + field, field, message);
}

std::vector<Error> Findings::errors() const {
  std::vector<Error> errors;
  errors.reserve(findings_.size());
  for (const Finding& finding : findings_) {
    std::string message = finding.message;
    if (finding.first != nullptr)
      message += fmt::format(" (trial `{}`{})", shortened(finding.first->name),
                             finding.trials > 1 ? fmt::format(" and {} more", finding.trials - 1) : "");
    errors.emplace_back(kind_, finding.path, std::move(message));
  }
  return errors;
}

Findings::Finding& Findings::find(const std::string& path, const std::string& field,
                                  const std::string& message) {
  const auto [at, is_new] = indices_.try_emplace(field + '\n' + message, findings_.size());
  if (is_new) findings_.push_back({path, message});
  return findings_[at->second];
}

}  // namespace combu::kubernetes
