#include "cli/completion/words.hpp"

#include <sstream>

namespace combu {
namespace {

// A type tells its choices: "SHELL:{bash,zsh,fish}".
std::vector<std::string> choices_of(const std::string& type) {
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::istringstream list(type.substr(open + 1, close - open - 1));
  std::vector<std::string> choices;
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionWords::Value value_of(const OptionDescription& option) {
  if (!option.takes_value) return OptionWords::Value::none;
  if (option.type == "FILE") return OptionWords::Value::file;
  if (option.type == "FOLDER") return OptionWords::Value::folder;
  return OptionWords::Value::text;
}

// candidates_of() knows these.
std::string_view kind_of(const OptionDescription& option, const std::string& command) {
  const std::string& name = option.name;
  const std::string& type = option.type;
  if (name == "run" || name == "resume" || name == "RUN") return "runs";
  if (name == "experiment") return "experiments";
  if (name == "only") return "only";
  if (name == "name") return "";  // a new one
  if (name == "TRIAL") return command == "retry" ? "only" : "trials";
  if (name == "SETTING") return "settings";
  if (name == "METRIC" || type == "NAME" || type.starts_with("NAMES")) return "columns";
  if (type == "CONDITION") return command == "ps" ? "ps_conditions" : "conditions";
  return "";
}

std::vector<OptionWords> options_of(const CommandDescription& command) {
  std::vector<OptionWords> options;
  for (const OptionDescription& option : command.options)
    if (!option.names.empty())
      options.push_back({.names = option.names,
                         .description = option.description,
                         .value = value_of(option),
                         .choices = choices_of(option.type),
                         .kind = std::string(kind_of(option, command.name))});
  return options;
}

CommandWords command_words(const CommandDescription& command) {
  CommandWords words{.name = command.name,
                     .description = command.description,
                     .options = options_of(command),
                     .choices = {},
                     .kind = {},
                     .argument = OptionWords::Value::none};
  for (const OptionDescription& argument : command.options)
    if (argument.names.empty()) {
      if (words.choices.empty()) words.choices = choices_of(argument.type);
      if (words.kind.empty()) words.kind = kind_of(argument, command.name);
      if (argument.name == "FOLDER") words.argument = OptionWords::Value::folder;
      if (argument.name == "FILE") words.argument = OptionWords::Value::file;
    }
  return words;
}

}  // namespace

Words words_of(const CommandLine& line) {
  Words words{.options = options_of(line.describe_program()), .commands = {}};
  for (const CommandDescription& command : line.describe_commands())
    if (!command.is_hidden) words.commands.push_back(command_words(command));
  return words;
}

}  // namespace combu
