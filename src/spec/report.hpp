#pragma once
// Where in the evaluated file something stands, and the errors found so far.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu::spec {

// A path as a chain on the stack, made to text only when a message needs it. A place must not outlive its
// parent.
class Place {
 public:
  Place() = default;
  [[nodiscard]] Place key(std::string_view name) const { return {this, name, 0}; }
  [[nodiscard]] Place index(std::size_t at) const { return {this, {}, at}; }
  // "trials[17].ports[0].host"; empty for the whole file.
  [[nodiscard]] std::string text() const;

 private:
  Place(const Place* parent, std::string_view name, std::size_t at)
      : parent_(parent), name_(name), index_(at) {}

  const Place* parent_ = nullptr;
  std::string_view name_;  // empty: an element of an array
  std::size_t index_ = 0;
};

class Report {
 public:
  // The trial that the following errors are about; empty for none that is known.
  void enter(std::string_view trial) { trial_ = trial; }
  void add(const Place& place, const std::string& message);
  void forget() { errors_.clear(); }
  [[nodiscard]] std::vector<Error> take() { return std::move(errors_); }

 private:
  std::string trial_;
  std::vector<Error> errors_;
};

}  // namespace combu::spec
