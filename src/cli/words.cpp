#include "cli/words.hpp"

#include <sstream>

namespace combu {
namespace {

// CLI11 tells a check's choices in the type's name only: "{auto,tty}".
std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {};
  std::istringstream list(type.substr(open + 1, close - open - 1));
  std::vector<std::string> choices;
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

OptionWords::Value value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return OptionWords::Value::none;
  if (option.get_type_name() == "FILE") return OptionWords::Value::file;
  if (option.get_type_name() == "FOLDER") return OptionWords::Value::folder;
  return OptionWords::Value::text;
}

// candidates_of() knows these.
std::string kind_of(const CLI::Option& option, const CLI::App& command) {
  const std::string& name = option.get_single_name();
  const std::string type = option.get_type_name();
  if (name == "run" || name == "resume" || name == "RUN") return "runs";
  if (name == "experiment") return "experiments";
  if (name == "only") return "only";
  if (name == "name") return "";  // a new one
  if (name == "TRIAL") return command.get_name() == "retry" ? "only" : "trials";
  if (name == "SETTING") return "settings";
  if (name == "METRIC" || type == "NAME" || type.starts_with("NAMES")) return "columns";
  if (type == "CONDITION") return command.get_name() == "ps" ? "ps_conditions" : "conditions";
  return "";
}

OptionWords option_words(const CLI::Option& option, const CLI::App& command) {
  OptionWords words{.names = {},
                    .description = option.get_description(),
                    .value = value_of(option),
                    .choices = choices_of(option),
                    .kind = kind_of(option, command)};
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  return words;
}

std::vector<OptionWords> options_of(const CLI::App& app) {
  std::vector<OptionWords> options;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) options.push_back(option_words(*option, app));
  return options;
}

CommandWords command_words(const CLI::App& command) {
  CommandWords words{.name = command.get_name(),
                     .description = command.get_description(),
                     .options = options_of(command),
                     .choices = {},
                     .kind = {},
                     .takes_folder = false};
  for (const CLI::Option* option : command.get_options())
    if (!option->nonpositional()) {
      if (words.choices.empty()) words.choices = choices_of(*option);
      if (words.kind.empty()) words.kind = kind_of(*option, command);
      words.takes_folder = words.takes_folder || option->get_single_name() == "FOLDER";
    }
  return words;
}

}  // namespace

Words words_of(const CLI::App& app) {
  Words words{.options = options_of(app), .commands = {}};
  for (const CLI::App* command : app.get_subcommands({}))
    if (!command->get_group().empty()) words.commands.push_back(command_words(*command));
  return words;
}

}  // namespace combu
