#pragma once
// Errors about fields that many trials can share, for example because the fields are in `defaults`.

#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu::kubernetes {

// Merges equal errors of several trials into one error, which names the first trial and the number of the
// others. The errors stay in the order of their first occurrence.
class Findings {
 public:
  explicit Findings(ErrorKind kind) : kind_(kind) {}

  // Adds an error about a field of a trial, such as "gpus.kind".
  void add(const Trial& trial, const std::string& field, const std::string& message) {
    add_at(trial, trial.path + "." + field, field, message);
  }
  // Adds an error whose location in the evaluated file is known. Errors with the same `field` and `message`
  // are equal.
  void add_at(const Trial& trial, const std::string& path, const std::string& field,
              const std::string& message);
  // Adds an error about a field of `defaults`. Later equal errors of trials are left out.
  void add_to_defaults(const std::string& field, const std::string& message);

  [[nodiscard]] std::vector<Error> errors() const;

 private:
  struct Finding {
    std::string path;
    std::string message;
    const Trial* first = nullptr;  // nullptr: the error is about `defaults`
    const Trial* last = nullptr;
    std::size_t trials = 0;
  };
  Finding& find(const std::string& path, const std::string& field, const std::string& message);

  ErrorKind kind_;
  std::vector<Finding> findings_;
  std::unordered_map<std::string, std::size_t> indices_;
};

}  // namespace combu::kubernetes
