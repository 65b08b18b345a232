#pragma once
// Where in the evaluated file something stands, and the errors and warnings found so far.

#include <cstddef>
#include <map>
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

// Kinds of values that are legal but rarely meant.
enum class Warning {
  shell,          // a command that is written for a shell, and is given to none
  identifier,     // a text that was to be the run's id
  mounted_cache,  // `cache` beside a volume whose content does not count
};

class Report {
 public:
  // The trial that the following errors and warnings are about; empty for none that is known.
  void enter(std::string_view trial) { trial_ = trial; }
  void add(const Place& place, const std::string& message);
  void forget() { errors_.clear(); }
  [[nodiscard]] std::vector<Error> take() { return std::move(errors_); }

  // Keeps the first warning of each kind, and counts the others. `where`: "cmd", "env.RUN".
  void warn(Warning kind, const std::string& where, const std::string& message);
  // A line for each kind: "solver-1 and 9 more: cmd: …".
  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  struct First {
    std::string subject;
    std::string message;
    std::size_t others = 0;
  };

  std::string trial_;
  std::vector<Error> errors_;
  std::map<Warning, First> warned_;
};

}  // namespace combu::spec
