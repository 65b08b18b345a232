#pragma once
// The program's options and commands, and the parser of its arguments. Only command_line.cpp includes CLI11,
// because CLI11 adds about four seconds of compile time to each file that includes it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace combu {

// An option or argument of a CliCommand. A copy refers to the same option.
class CliOption {
 public:
  explicit CliOption(CLI::Option& option) : option_(&option) {}

  CliOption required();
  // Sets the placeholder that --help shows for the value. An empty name removes the placeholder.
  CliOption type_name(const std::string& name);
  // Shows the current value as the default in --help.
  CliOption show_default();
  // For a list: each use of the option takes one value instead of all following words.
  CliOption one_value_each();
  CliOption value_may_be_absent();
  // Makes the parser refuse arguments that contain both this option and the option `name`, such as "--only".
  // The option `name` must already have been added to the command.
  CliOption excludes(const std::string& name);

  // The following functions restrict the valid values.
  CliOption one_of(const std::vector<std::string>& choices);
  CliOption between(int least, int greatest);
  CliOption positive();
  // Allows integers from 0 to 999,999,999. `things`: the noun for messages, such as "lines".
  CliOption count_of(const std::string& things);
  // `fault` returns why a value is invalid, or an empty string for a valid value.
  CliOption check(const std::function<std::string(const std::string& value)>& fault);

 private:
  CLI::Option* option_;
};

// A command of a CommandLine, or the program itself. A copy refers to the same command. A CliCommand is valid
// as long as its CommandLine exists.
class CliCommand {
 public:
  explicit CliCommand(CLI::App& command) : command_(&command) {}

  [[nodiscard]] std::string name() const;

  // `names`: for an option, its names, such as "-f,--file"; for an argument, a name without dashes, such as
  // "TRIAL". CommandLine::parse() writes to `value`.
  CliOption add_option(const std::string& names, std::string& value, const std::string& description = {});
  CliOption add_option(const std::string& names, std::vector<std::string>& value,
                       const std::string& description);
  CliOption add_option(const std::string& names, int& value, const std::string& description);
  CliOption add_option(const std::string& names, std::int64_t& value, const std::string& description);
  CliOption add_option(const std::string& names, std::size_t& value, const std::string& description);
  void add_flag(const std::string& names, bool& value, const std::string& description);
  // Each use of the flag appends the text after `=` to `values`, or "true" if the flag is given without `=`.
  void add_flag(const std::string& name, std::vector<std::string>& values, const std::string& description);

  // Sets the text at the end of the command's help.
  void footer(const std::string& text);
  // Hides the command from help and completion.
  void hide();
  // Sets the function that CommandLine::parse() calls if this command is given.
  void callback(const std::function<void()>& call);

  // Returns how often the option `name`, such as "--wait", was given.
  [[nodiscard]] std::size_t count(const std::string& name) const;

 private:
  CLI::App* command_;
};

struct OptionDescription {
  std::string name;                // "file", "TRIAL"
  std::vector<std::string> names;  // the option's names, such as "-f" and "--file"; empty for an argument
  std::string description;
  std::string type;  // type of the value, such as "FILE", or "BOOL:{true,false}" if there are choices
  bool takes_value = false;
};

struct CommandDescription {
  std::string name;
  std::string description;
  std::vector<OptionDescription> options;  // including arguments
  bool is_hidden = false;
};

// The result of parse().
struct Parsed {
  std::string command;              // name of the command that the user gave; empty if the user gave none
  std::optional<std::string> help;  // text to print for --help or --version; nullopt if neither is given
  struct Misuse {
    std::string what;                // message of CLI11
    std::vector<std::string> extra;  // arguments that no option or command accepts
    bool lacks_required = false;     // true if a required command, option or argument is missing
  };
  std::optional<Misuse> misuse;
};

class CommandLine {
 public:
  // `version`: the text that --version prints. The user must give exactly one command. Options of the program
  // may precede or follow the command.
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Options of program() may precede or follow any command.
  [[nodiscard]] CliCommand program();
  [[nodiscard]] CliCommand add_command(const std::string& name, const std::string& description);

  [[nodiscard]] CommandDescription describe_program() const;
  // Returns the commands in the order in which they were added.
  [[nodiscard]] std::vector<CommandDescription> describe_commands() const;

  // Parses the arguments. Calls the callback of the given command, unless the result contains `help` or
  // `misuse`. argv[0] is the program's name.
  [[nodiscard]] Parsed parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace combu
