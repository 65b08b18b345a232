#pragma once
// The program's options and commands, and the parser of its arguments. CLI11 costs each file that
// includes it about four seconds of compile time, so only command_line.cpp does.

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

// An option, or an argument, that a CliCommand has been given. A copy is the same option.
class CliOption {
 public:
  explicit CliOption(CLI::Option& option) : option_(&option) {}

  CliOption required();
  // What --help calls its value; empty: nothing.
  CliOption type_name(const std::string& name);
  // --help tells the value that it has now.
  CliOption show_default();
  // Of a list: each time it is given it takes one value, not all words that follow.
  CliOption one_value_each();
  CliOption value_may_be_absent();
  // Refused together with the option of this name ("--only"), which its command has already.
  CliOption excludes(const std::string& name);

  // Each refuses other values.
  CliOption one_of(const std::vector<std::string>& choices);
  CliOption between(int least, int greatest);
  CliOption positive();
  // A number of `things` ("lines") from 0 to 999,999,999.
  CliOption count_of(const std::string& things);
  // `fault` says what is wrong with a value; empty: nothing.
  CliOption check(const std::function<std::string(const std::string& value)>& fault);

 private:
  CLI::Option* option_;
};

// A command of a CommandLine, or its program. A copy is the same command. Valid as long as the CommandLine.
class CliCommand {
 public:
  explicit CliCommand(CLI::App& command) : command_(&command) {}

  [[nodiscard]] std::string name() const;

  // `names`: "-f,--file"; an argument's has no dashes: "TRIAL". CommandLine::parse() writes to `value`.
  CliOption add_option(const std::string& names, std::string& value, const std::string& description = {});
  CliOption add_option(const std::string& names, std::vector<std::string>& value,
                       const std::string& description);
  CliOption add_option(const std::string& names, int& value, const std::string& description);
  CliOption add_option(const std::string& names, std::int64_t& value, const std::string& description);
  CliOption add_option(const std::string& names, std::size_t& value, const std::string& description);
  void add_flag(const std::string& names, bool& value, const std::string& description);
  // Each time it is given adds what follows `=`, or "true", to `values`.
  void add_flag(const std::string& name, std::vector<std::string>& values, const std::string& description);

  // The end of its help.
  void footer(const std::string& text);
  // Help and completion do not show it.
  void hide();
  // Called by CommandLine::parse() when this command was given.
  void callback(const std::function<void()>& call);

  // How often the option of this name ("--wait") was given.
  [[nodiscard]] std::size_t count(const std::string& name) const;

 private:
  CLI::App* command_;
};

struct OptionDescription {
  std::string name;                // "file", "TRIAL"
  std::vector<std::string> names;  // "-f", "--file"; none: an argument
  std::string description;
  std::string type;  // of its value: "FILE", with choices "BOOL:{true,false}"
  bool takes_value = false;
};

struct CommandDescription {
  std::string name;
  std::string description;
  std::vector<OptionDescription> options;  // and arguments
  bool is_hidden = false;
};

// The result of parse().
struct Parsed {
  std::string command;              // the given one's name; empty: none
  std::optional<std::string> help;  // what was asked for instead: the text of --help or --version
  struct Misuse {
    std::string what;                // as CLI11 tells it
    std::vector<std::string> extra;  // the arguments that no option or command takes
    bool lacks_required = false;     // a command, an option or an argument that has to be given
  };
  std::optional<Misuse> misuse;
};

class CommandLine {
 public:
  // `version`: the text of --version. One command has to be given; the program's own options may stand
  // before or after it.
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Its options are those that may stand before or after any command.
  [[nodiscard]] CliCommand program();
  [[nodiscard]] CliCommand add_command(const std::string& name, const std::string& description);

  [[nodiscard]] CommandDescription describe_program() const;
  // In the order in which they were added.
  [[nodiscard]] std::vector<CommandDescription> describe_commands() const;

  // Calls the callback of the given command, unless there is help or misuse to tell. `argv` begins with the
  // program's name.
  [[nodiscard]] Parsed parse(int argc, const char* const* argv);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace combu
