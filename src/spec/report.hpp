#pragma once
// Locations in the evaluated file, and the errors and warnings found so far.

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu::spec {

// A location as a linked list on the stack. text() formats the location only when a message needs it. A Place
// must not outlive its parent.
class Place {
 public:
  Place() = default;
  [[nodiscard]] Place key(std::string_view name) const { return {this, name, 0}; }
  [[nodiscard]] Place index(std::size_t at) const { return {this, {}, at}; }
  // Returns the location as text, for example "trials[17].ports[0].host"; empty for the file as a whole.
  [[nodiscard]] std::string text() const;

 private:
  Place(const Place* parent, std::string_view name, std::size_t at)
      : parent_(parent), name_(name), index_(at) {}

  const Place* parent_ = nullptr;
  // name of a field; if name_.data() is nullptr, the location is element `index_` of an array
  std::string_view name_;
  std::size_t index_ = 0;
};

// Kinds of warnings about legal values that are probably mistakes.
enum class Warning {
  shell,          // a command that uses shell syntax but runs without a shell
  identifier,     // a text "UUID" that combu does not replace with the run's id
  mounted_cache,  // `cache` with a volume whose content is not part of the cache key
  unused_secret,  // a source of a secret that no trial uses
};

class Report {
 public:
  // Sets the trial that the following errors and warnings are about; empty: unknown, or no trial.
  void enter(std::string_view trial) { trial_ = trial; }
  void add(const Place& place, const std::string& message) { add_at(place.text(), message); }
  // `path`: the text of a Place.
  void add_at(const std::string& path, const std::string& message);
  void forget() { errors_.clear(); }
  [[nodiscard]] std::vector<Error> take() { return std::move(errors_); }

  // Keeps the first warning of each kind and counts the others. `where` is the location within the trial, for
  // example "cmd" or "env.RUN".
  void warn(Warning kind, const std::string& where, const std::string& message);
  // Returns one line for each kind, for example "solver-1 and 9 more: cmd: …".
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
