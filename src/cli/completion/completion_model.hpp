#pragma once
// Options and commands in the form that the completion scripts need.

#include <string>
#include <vector>

#include "cli/command_line.hpp"

namespace combu {

struct OptionModel {
  std::vector<std::string> names;  // "-f", "--file"
  std::string description;
  enum class Value { none, text, file, folder } value = Value::none;
  std::vector<std::string> choices;  // possible values; empty: any
  std::string kind;                  // kind of its value, as for candidates_of(); empty: none
};

struct CommandModel {
  std::string name;
  std::string description;
  std::vector<OptionModel> options;
  std::vector<std::string> choices;                        // possible values of its argument; empty: any
  std::string kind;                                        // kind of its arguments; empty: none
  OptionModel::Value argument = OptionModel::Value::none;  // file or folder: its argument is a path
};

struct CompletionModel {
  std::vector<OptionModel> options;  // may precede or follow any command
  std::vector<CommandModel> commands;
};
[[nodiscard]] CompletionModel completion_model_of(const CommandLine& line);

// Return the completion script for a shell.
[[nodiscard]] std::string bash_completion(const CompletionModel& model);
[[nodiscard]] std::string zsh_completion(const CompletionModel& model);
[[nodiscard]] std::string fish_completion(const CompletionModel& model);

}  // namespace combu
