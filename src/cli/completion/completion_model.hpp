#pragma once
// The options and commands, as a shell's completion needs them.

#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace combu {

struct OptionModel {
  std::vector<std::string> names;  // "-f", "--file"
  std::string description;
  enum class Value { none, text, file, folder } value = Value::none;
  std::vector<std::string> choices;  // of a value of which only these are possible
  std::string kind;                  // of its value, as candidates_of() knows it; empty: none
};

struct CommandModel {
  std::string name;
  std::string description;
  std::vector<OptionModel> options;
  std::vector<std::string> choices;                        // of its own argument
  std::string kind;                                        // the same of its arguments
  OptionModel::Value argument = OptionModel::Value::none;  // file or folder: what its argument names
};

struct CompletionModel {
  std::vector<OptionModel> options;  // that stand before or after any command
  std::vector<CommandModel> commands;
};
[[nodiscard]] CompletionModel completion_model_of(const CommandLine& line);

// The program of one shell: "bash", "zsh" or "fish".
[[nodiscard]] std::string bash_completion(const CompletionModel& model);
[[nodiscard]] std::string zsh_completion(const CompletionModel& model);
[[nodiscard]] std::string fish_completion(const CompletionModel& model);

}  // namespace combu
