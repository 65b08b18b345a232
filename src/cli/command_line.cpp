#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <sstream>
#include <utility>

namespace combu {
namespace {

OptionDescription describe(const CLI::Option& option) {
  OptionDescription description{.name = option.get_single_name(),
                                .names = {},
                                .description = option.get_description(),
                                .type = option.get_type_name(),
                                .takes_value = option.get_items_expected_max() > 0};
  for (const std::string& name : option.get_snames()) description.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) description.names.push_back("--" + name);
  return description;
}

CommandDescription describe(const CLI::App& command) {
  CommandDescription description{.name = command.get_name(),
                                 .description = command.get_description(),
                                 .options = {},
                                 .is_hidden = command.get_group().empty()};
  for (const CLI::Option* option : command.get_options()) description.options.push_back(describe(*option));
  return description;
}

}  // namespace

CliOption CliOption::required() {
  option_->required();
  return *this;
}

CliOption CliOption::type_name(const std::string& name) {
  option_->type_name(name);
  return *this;
}

CliOption CliOption::show_default() {
  option_->capture_default_str();
  return *this;
}

CliOption CliOption::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

CliOption CliOption::value_may_be_absent() {
  option_->expected(0, 1);
  return *this;
}

CliOption CliOption::excludes(const std::string& name) {
  option_->excludes(name);
  return *this;
}

CliOption CliOption::one_of(const std::vector<std::string>& choices) {
  option_->check(CLI::IsMember(choices));
  return *this;
}

CliOption CliOption::between(int least, int greatest) {
  option_->check(CLI::Range(least, greatest));
  return *this;
}

CliOption CliOption::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}

CliOption CliOption::count_of(const std::string& things) {
  return check([things](const std::string& text) {
    const bool is_count =
        !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
    return is_count ? "" : "must be a number of " + things + ", not " + text;
  });
}

CliOption CliOption::check(const std::function<std::string(const std::string& value)>& fault) {
  option_->check(fault);
  return *this;
}

std::string CliCommand::name() const {
  return command_->get_name();
}

CliOption CliCommand::add_option(const std::string& names, std::string& value,
                                 const std::string& description) {
  return CliOption(*command_->add_option(names, value, description));
}

CliOption CliCommand::add_option(const std::string& names, std::vector<std::string>& value,
                                 const std::string& description) {
  return CliOption(*command_->add_option(names, value, description));
}

CliOption CliCommand::add_option(const std::string& names, int& value, const std::string& description) {
  return CliOption(*command_->add_option(names, value, description));
}

CliOption CliCommand::add_option(const std::string& names, std::int64_t& value,
                                 const std::string& description) {
  return CliOption(*command_->add_option(names, value, description));
}

CliOption CliCommand::add_option(const std::string& names, std::size_t& value,
                                 const std::string& description) {
  return CliOption(*command_->add_option(names, value, description));
}

void CliCommand::add_flag(const std::string& names, bool& value, const std::string& description) {
  command_->add_flag(names, value, description);
}

void CliCommand::add_flag(const std::string& name, std::vector<std::string>& values,
                          const std::string& description) {
  command_->add_flag(name, values, description);
}

void CliCommand::footer(const std::string& text) {
  command_->footer(text);
}

void CliCommand::hide() {
  command_->group("");
}

void CliCommand::callback(const std::function<void()>& call) {
  command_->callback(call);
}

std::size_t CliCommand::count(const std::string& name) const {
  return command_->count(name);
}

CommandLine::CommandLine(const std::string& name, const std::string& description, const std::string& version)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->set_version_flag("--version", version, "Print the program's version");
  app_->fallthrough();
  app_->require_subcommand(1);
}

CommandLine::~CommandLine() = default;

CliCommand CommandLine::program() {
  return CliCommand(*app_);
}

CliCommand CommandLine::add_command(const std::string& name, const std::string& description) {
  return CliCommand(*app_->add_subcommand(name, description));
}

CommandDescription CommandLine::describe_program() const {
  return describe(*app_);
}

std::vector<CommandDescription> CommandLine::describe_commands() const {
  std::vector<CommandDescription> commands;
  for (const CLI::App* command : std::as_const(*app_).get_subcommands({}))
    commands.push_back(describe(*command));
  return commands;
}

Parsed CommandLine::parse(int argc, const char* const* argv) {
  Parsed parsed;
  const auto note_command = [&] {
    if (const auto given = app_->get_subcommands(); !given.empty())
      parsed.command = given.front()->get_name();
  };
  try {
    app_->parse(argc, argv);
    note_command();
  } catch (const CLI::ParseError& error) {
    note_command();
    // CLI11 also throws exceptions for --help and --version.
    if (error.get_exit_code() == 0) {
      std::ostringstream text;
      std::ostringstream nothing;
      (void)app_->exit(error, text, nothing);
      parsed.help = text.str();
    } else {
      parsed.misuse = {.what = error.what(),
                       .extra = app_->remaining(true),
                       .lacks_required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr};
    }
  }
  return parsed;
}

}  // namespace combu
