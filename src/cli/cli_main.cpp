#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/cli.hpp"
#include "combu/docker.hpp"
#include "combu/kubernetes.hpp"

namespace combu {
namespace {

constexpr std::array<std::string_view, 6> k_without_file{"init",       "doctor",  "schema",
                                                         "completion", "version", "help"};

// Adds an option that may be repeated. Each use takes one value, because the next word may be the command.
void add_list(CliCommand program, const std::string& names, std::vector<std::string>& list, const char* type,
              const std::string& description) {
  program.add_option(names, list, description).type_name(type).one_value_each();
}

void add_global_options(CliCommand program, Invocation& invocation) {
  program.add_option("-f,--file", invocation.file, "The experiment's file; - is standard input")
      .type_name("FILE");
  add_list(program, "-V,--ext-str", invocation.ext_str, "K[=V]",
           "Value of std.extVar(K), a string; without =V, taken from the environment");
  add_list(program, "--ext-code", invocation.ext_code, "K[=CODE]", "Value of std.extVar(K), as Jsonnet code");
  add_list(program, "-A,--tla-str", invocation.tla_str, "K[=V]",
           "Argument K, a string, if the file is a function");
  add_list(program, "--tla-code", invocation.tla_code, "K[=CODE]",
           "Argument K, as Jsonnet code, if the file is a function");
  add_list(program, "-J,--jpath", invocation.import_dirs, "FOLDER",
           "A folder for imports; the last given folder is searched first, JSONNET_PATH last");
  program.add_option("--evaluate-memory", invocation.evaluate_memory, "Memory limit of the file's evaluation")
      .type_name("BYTES")
      .show_default();
  program.add_option("--evaluate-time", invocation.evaluate_time, "Time limit of the file's evaluation")
      .type_name("TIME")
      .show_default();
  program
      .add_option("--engine", invocation.engine,
                  "Address of the engine: unix:///path, tcp://host:port, kubernetes[:context[/namespace]] or "
                  "simulated:[?options]; "
                  "default: the value of DOCKER_HOST, else the address of Docker's context")
      .type_name("ADDRESS");
  program.add_option("--progress", invocation.progress, "Form of the progress output on standard error")
      .one_of({"auto", "tty", "plain", "json", "quiet"})
      .type_name("FORM")
      .show_default();
  program.add_option("--trace", invocation.trace, "Append a line for each call of the engine to this file")
      .type_name("FILE");
}

std::string command_meant_by(const std::string& word, const std::vector<CommandDescription>& commands) {
  if (word == "resume")
    return "; `combu unpause` continues a paused run, `combu run --resume` an interrupted one";
  std::vector<std::string_view> names;
  names.reserve(commands.size());
  for (const CommandDescription& command : commands)
    if (!command.is_hidden) names.emplace_back(command.name);
  const auto near = nearest(word, names);
  return near ? fmt::format("; did you mean {}?", *near) : "; see combu --help";
}

int parse_and_act(int argc, const char* const* argv);

// Adds the command `help`. `combu help COMMAND` prints the same text as `combu COMMAND --help`.
void add_help(CommandLine& line, Action& action) {
  CliCommand command = line.add_command("help", "Print the usage of a command");
  command.footer("Example:\n  combu help run");
  const auto name = std::make_shared<std::string>();
  command.add_option("COMMAND", *name, "The command; default: combu itself").type_name("");
  command.callback([&line, &action, name] {
    action = [&line, name] {
      const std::vector<CommandDescription> commands = line.describe_commands();
      std::vector<const char*> words{"combu", "--help"};
      if (!name->empty()) words.insert(words.begin() + 1, name->c_str());
      if (!name->empty() && std::ranges::find(commands, *name, &CommandDescription::name) == commands.end())
        throw Error(ErrorKind::invalid, "",
                    fmt::format("there is no command {}{}", *name, command_meant_by(*name, commands)));
      return parse_and_act(static_cast<int>(words.size()), words.data());
    };
  });
}

void add_commands(CommandLine& line, const Invocation& invocation, Action& action) {
  add_init(line, action);
  add_run(line, invocation, action);
  add_retry(line, invocation, action);
  add_apply(line, invocation, action);
  add_attach(line, invocation, action);
  add_set(line, invocation, action);
  add_pause(line, invocation, action);
  add_unpause(line, invocation, action);
  add_kill(line, invocation, action);
  add_validate(line, invocation, action);
  add_plan(line, invocation, action);
  add_ps(line, invocation, action);
  add_logs(line, invocation, action);
  add_why(line, invocation, action);
  add_show(line, invocation, action);
  add_events(line, invocation, action);
  add_times(line, invocation, action);
  add_results(line, invocation, action);
  add_compare(line, invocation, action);
  add_plot(line, invocation, action);
  add_export(line, invocation, action);
  add_wait(line, invocation, action);
  add_stop(line, invocation, action);
  add_rm(line, invocation, action);
  add_prune(line, invocation, action);
  add_doctor(line, invocation, action);
  add_schema(line, action);
  add_completion(line, invocation, action);
  add_version(line, action);
  add_help(line, action);
}

// Suggests the most similar long option of the command or the program; returns an empty string if no option
// is similar.
std::string option_meant_by(const std::string& word, const CommandDescription& program,
                            const CommandDescription& command) {
  std::vector<std::string_view> options;
  for (const CommandDescription* one : {&program, &command})
    for (const OptionDescription& option : one->options)
      for (const std::string& name : option.names)
        if (name.starts_with("--")) options.emplace_back(name);
  const auto near = nearest(word.substr(0, word.find('=')), options);
  return near ? fmt::format("; did you mean {}?", *near) : "";
}

// Returns the message for a word that the parser does not accept. `command`: the command that the user gave;
// nullptr if the user gave none.
std::string extra_message(const std::string& word, const CommandLine& line,
                          const CommandDescription* command) {
  const bool option = word.starts_with('-');
  const CommandDescription program = line.describe_program();
  if (command == nullptr) {
    if (!option)
      return fmt::format("there is no command {}{}", word, command_meant_by(word, line.describe_commands()));
    return fmt::format("there is no option {}{}", word, option_meant_by(word, program, program));
  }
  const std::string& name = command->name;
  if (option)
    return fmt::format("{} has no option {}{}", name, word, option_meant_by(word, program, *command));
  if (word.ends_with("sonnet") || word.ends_with(".json"))
    return fmt::format("the experiment's file must be given with -f: combu -f {} {}", word, name);
  return fmt::format("{} takes no argument {}", name, word);
}

// Returns the short names of the option `name`, which belongs to the command or the program.
std::vector<std::string> short_names(const std::string& name, const CommandDescription& program,
                                     const CommandDescription* command) {
  for (const CommandDescription* one : {command, &program}) {
    if (one == nullptr) continue;
    for (const OptionDescription& option : one->options) {
      if (std::ranges::find(option.names, name) == option.names.end()) continue;
      std::vector<std::string> names = option.names;
      std::erase_if(names, [](const std::string& text) { return text.starts_with("--"); });
      return names;
    }
  }
  return {};
}

// Returns a message such as "-f, --file needs a value: -f FILE".
std::string value_needed(const std::string& name, std::string_view type, const CommandDescription& program,
                         const CommandDescription* command) {
  std::vector<std::string> names = short_names(name, program, command);
  names.push_back(name);
  return fmt::format("{} needs a value: {} {}{}", fmt::join(names, ", "), names.front(), type,
                     names.front() == "-V" ? "; --version prints the version" : "");
}

// Rewords the parser's messages about an option that is given too often, and about a missing value. Returns
// other messages unchanged.
std::string parser_message(std::string_view text, const CommandDescription& program,
                           const CommandDescription* command) {
  constexpr std::string_view k_too_often = ": At Most 1 required but received ";
  constexpr std::string_view k_required = ": 1 required ";
  constexpr std::string_view k_missing = " missing";
  if (const std::size_t at = text.find(k_too_often); at != std::string_view::npos)
    return fmt::format("{} must be given once, not {} times", text.substr(0, at),
                       text.substr(at + k_too_often.size()));
  if (const std::size_t at = text.find(k_required);
      at != std::string_view::npos && text.ends_with(k_missing)) {
    const std::size_t type = at + k_required.size();
    return value_needed(std::string(text.substr(0, at)),
                        text.substr(type, text.size() - k_missing.size() - type), program, command);
  }
  return std::string(text);
}

std::string usage_message(const CommandLine& line, const std::string& given, const Parsed::Misuse& misuse) {
  const std::vector<CommandDescription> commands = line.describe_commands();
  const auto found = std::ranges::find(commands, given, &CommandDescription::name);
  const CommandDescription* command = found == commands.end() ? nullptr : &*found;
  const std::vector<std::string>& extra = misuse.extra;
  const auto word =
      std::ranges::find_if(extra, [](const std::string& text) { return !text.starts_with('-'); });
  if (word != extra.end() && command == nullptr) return extra_message(*word, line, command);
  if (!extra.empty()) return extra_message(extra.front(), line, command);
  if (command == nullptr && misuse.lacks_required)
    return "no command is given; combu --help lists the commands";
  return fmt::format("{}; see combu {}{}--help",
                     parser_message(misuse.what, line.describe_program(), command), given,
                     given.empty() ? "" : " ");
}

int parse_and_act(int argc, const char* const* argv) {
  Invocation invocation;
  invocation.arguments.assign(argv, argv + argc);
  invocation.check_sections = [&invocation](const Experiment& experiment) {
    std::vector<Error> errors = check_docker_sections(experiment);
    std::ranges::move(check_kubernetes_sections(experiment), std::back_inserter(errors));
    if (names_cluster(invocation.engine))
      std::ranges::move(check_kubernetes_fields(experiment), std::back_inserter(errors));
    return errors;
  };
  Action action;
  CommandLine line("combu",
                   "combu runs an experiment on a Docker Engine or in a Kubernetes cluster: a Jsonnet file "
                   "describes the trials, and each trial is a container.",
                   std::string(version_text()));
  line.program().footer(
      "Example:\n  combu -f experiment.jsonnet run\n  combu -f experiment.jsonnet kill\n\n"
      "These options may precede or follow the command; combu COMMAND --help shows the command's own "
      "options.");
  add_global_options(line.program(), invocation);
  add_commands(line, invocation, action);
  const Parsed parsed = line.parse(argc, argv);
  if (parsed.misuse) {
    (void)put_err(fmt::format("combu: {}\n", usage_message(line, parsed.command, *parsed.misuse)));
    return 2;
  }
  if (parsed.help) {
    (void)put_out(*parsed.help);
    return 0;
  }
  invocation.named_engine = named_engine(invocation.engine);
  const std::string& command = parsed.command;
  if (!invocation.file.empty() && std::ranges::find(k_without_file, command) != k_without_file.end())
    throw Error(ErrorKind::invalid, command,
                fmt::format("the command reads no experiment; leave out -f {}", invocation.file));
  return action();
}

// Keeps failed writes from ending the program. A write to a pipe or socket without a reader, or beyond the
// maximum file size, then returns an error. Uses handlers instead of SIG_IGN: exec() resets handlers to the
// default action, which child processes need.
void make_errors_of_write_signals() {
  for (const int number : {SIGPIPE, SIGXFSZ}) {
    struct sigaction action {};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    (void)sigaction(number, &action, nullptr);
  }
}

}  // namespace

int cli_main(int argc, const char* const* argv) {
  hold_standard_files();
  make_errors_of_write_signals();
  try {
    return parse_and_act(argc, argv);
  } catch (const Error& error) {
    std::fputs(escape_controls(error_line(error) + "\n").c_str(), stderr);
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    std::fputs(escape_controls(fmt::format("combu: {}\n", error.what())).c_str(), stderr);
    return 1;
  }
}

}  // namespace combu
