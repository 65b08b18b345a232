#include "cli/completion/completion_model.hpp"

#include <sstream>

namespace combu {
namespace {

// Extracts the choices from a type such as "SHELL:{bash,zsh,fish}".
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::istringstream list(type.substr(open + 1, close - open - 1));
  std::vector<std::string> choices;
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionModel::Value value_of(const OptionDescription& option) {
  if (!option.takes_value) return OptionModel::Value::none;
  if (option.type == "FILE") return OptionModel::Value::file;
  if (option.type == "FOLDER") return OptionModel::Value::folder;
  return OptionModel::Value::text;
}

// Returns the kind of candidates for an option; candidates_of() defines the kinds.
std::string_view kind_of(const OptionDescription& option, const std::string& command) {
  const std::string& name = option.name;
  const std::string& type = option.type;
  if (name == "run" || name == "resume" || name == "RUN") return "runs";
  if (name == "experiment") return "experiments";
  if (name == "only") return "only";
  if (name == "engine") return "engines";
  if (name == "name") return "";  // the name of a new experiment has no candidates
  if (name == "TRIAL") return command == "retry" ? "only" : "trials";
  if (name == "SETTING") return "settings";
  if (name == "METRIC" || type == "NAME" || type.starts_with("NAMES")) return "columns";
  if (type == "CONDITION") return command == "ps" ? "ps_conditions" : "conditions";
  return "";
}

std::vector<OptionModel> options_of(const CommandDescription& command) {
  std::vector<OptionModel> options;
  for (const OptionDescription& option : command.options)
    if (!option.names.empty())
      options.push_back({.names = option.names,
                         .description = option.description,
                         .value = value_of(option),
                         .choices = choices_of(option.type),
                         .kind = std::string(kind_of(option, command.name))});
  return options;
}

CommandModel command_model(const CommandDescription& command) {
  CommandModel model{.name = command.name,
                     .description = command.description,
                     .options = options_of(command),
                     .choices = {},
                     .kind = {},
                     .argument = OptionModel::Value::none};
  for (const OptionDescription& argument : command.options)
    if (argument.names.empty()) {
      if (model.choices.empty()) model.choices = choices_of(argument.type);
      if (model.kind.empty()) model.kind = kind_of(argument, command.name);
      if (argument.name == "FOLDER") model.argument = OptionModel::Value::folder;
      if (argument.name == "FILE") model.argument = OptionModel::Value::file;
    }
  return model;
}

}  // namespace

CompletionModel completion_model_of(const CommandLine& line) {
  CompletionModel model{.options = options_of(line.describe_program()), .commands = {}};
  for (const CommandDescription& command : line.describe_commands())
    if (!command.is_hidden) model.commands.push_back(command_model(command));
  return model;
}

}  // namespace combu
