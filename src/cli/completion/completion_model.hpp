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
  std::vector<std::string> choices;  // possible values; empty if every value is possible
  std::string kind;  // kind of the value for candidates_of(); empty if there are no candidates
};

struct CommandModel {
  std::string name;
  std::string description;
  std::vector<OptionModel> options;
  std::vector<std::string> choices;  // possible values of the argument; empty if every value is possible
  std::string kind;  // kind of the arguments for candidates_of(); empty if there are no candidates
  OptionModel::Value argument = OptionModel::Value::none;  // file or folder if the argument is a path
};

struct CompletionModel {
  std::vector<OptionModel> options;  // options of the program, which may precede or follow any command
  std::vector<CommandModel> commands;
};
[[nodiscard]] CompletionModel completion_model_of(const CommandLine& line);

// The following functions return the completion script for one shell.
[[nodiscard]] std::string bash_completion(const CompletionModel& model);
[[nodiscard]] std::string zsh_completion(const CompletionModel& model);
[[nodiscard]] std::string fish_completion(const CompletionModel& model);

}  // namespace combu
