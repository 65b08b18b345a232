#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <sstream>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "combu/cli.hpp"

namespace combu {
namespace {

constexpr std::array<std::string_view, 4> k_without_file{"init", "schema", "completion", "version"};

// A vector takes one value for each time its option stands there: what follows it is the command.
void add_list(CLI::App& app, const std::string& names, std::vector<std::string>& list, const char* type,
              const std::string& description) {
  app.add_option(names, list, description)->type_name(type)->allow_extra_args(false);
}

void add_global_options(CLI::App& app, Invocation& invocation) {
  app.add_option("-f,--file", invocation.file, "The experiment's file; - is standard input")
      ->type_name("FILE");
  add_list(app, "-V,--ext-str", invocation.ext_str, "K[=V]",
           "std.extVar(K), a string; V from the environment without =V");
  add_list(app, "--ext-code", invocation.ext_code, "K[=CODE]", "std.extVar(K), Jsonnet code");
  add_list(app, "-A,--tla-str", invocation.tla_str, "K[=V]", "The file's function's argument K, a string");
  add_list(app, "--tla-code", invocation.tla_code, "K[=CODE]",
           "The file's function's argument K, Jsonnet code");
  add_list(app, "-J,--jpath", invocation.import_dirs, "FOLDER",
           "Searched for imports, the last one first; then JSONNET_PATH");
  app.add_option("--evaluate-memory", invocation.evaluate_memory, "Most memory for the file's evaluation")
      ->type_name("BYTES")
      ->capture_default_str();
  app.add_option("--evaluate-time", invocation.evaluate_time, "Most time for it")
      ->type_name("TIME")
      ->capture_default_str();
  app.add_option(
         "--engine", invocation.engine,
         "unix:///path, tcp://host:port or simulated:[?options]; else DOCKER_HOST, or Docker's context")
      ->type_name("ADDRESS");
  app.add_option("--progress", invocation.progress, "How progress is told, on standard error")
      ->check(CLI::IsMember({"auto", "tty", "plain", "json", "quiet"}))
      ->type_name("FORM")
      ->capture_default_str();
  app.add_option("--trace", invocation.trace, "Append a line for each call of the engine to this file")
      ->type_name("FILE");
}

void add_commands(CLI::App& app, const Invocation& invocation, Action& action) {
  add_init(app, action);
  add_run(app, invocation, action);
  add_retry(app, invocation, action);
  add_apply(app, invocation, action);
  add_attach(app, invocation, action);
  add_set(app, invocation, action);
  add_pause(app, invocation, action);
  add_resume(app, invocation, action);
  add_kill(app, invocation, action);
  add_validate(app, invocation, action);
  add_plan(app, invocation, action);
  add_ps(app, invocation, action);
  add_logs(app, invocation, action);
  add_why(app, invocation, action);
  add_show(app, invocation, action);
  add_events(app, invocation, action);
  add_times(app, invocation, action);
  add_results(app, invocation, action);
  add_compare(app, invocation, action);
  add_plot(app, invocation, action);
  add_export(app, invocation, action);
  add_wait(app, invocation, action);
  add_stop(app, invocation, action);
  add_rm(app, invocation, action);
  add_prune(app, invocation, action);
  add_schema(app, action);
  add_completion(app, invocation, action);
  add_version(app, action);
}

template <class Apps>
std::string meant_by(const std::string& word, const Apps& apps) {
  std::vector<std::string_view> names;
  names.reserve(apps.size());
  for (const CLI::App* app : apps)
    if (!app->get_group().empty()) names.emplace_back(app->get_name());
  const auto near = nearest(word, names);
  return near ? fmt::format("; is {} meant?", *near) : "; see combu --help";
}

// The long options that may stand at a command.
std::string option_meant_by(const std::string& word, const CLI::App& app, const CLI::App& command) {
  std::vector<std::string> options;
  for (const CLI::App* one : {&app, &command})
    for (const CLI::Option* option : one->get_options())
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  const auto near = nearest(word.substr(0, word.find('=')), {options.begin(), options.end()});
  return near ? fmt::format("; is {} meant?", *near) : "";
}

// What the parser could make nothing of.
std::string extra_message(const std::string& word, const CLI::App& app, const CLI::App* command) {
  const bool option = word.starts_with('-');
  if (command == nullptr) {
    if (!option)
      return fmt::format("there is no command {}{}", word, meant_by(word, app.get_subcommands({})));
    return fmt::format("there is no option {}{}", word, option_meant_by(word, app, app));
  }
  const std::string& name = command->get_name();
  if (option) return fmt::format("{} has no option {}{}", name, word, option_meant_by(word, app, *command));
  if (word.ends_with("sonnet") || word.ends_with(".json"))
    return fmt::format("the experiment's file is named before the command: combu -f {} {}", word, name);
  if (name == "logs")
    return fmt::format(
        "{} is one argument too many: logs shows one trial, and the experiment's -f stands before it", word);
  return fmt::format("{} takes no argument {}", name, word);
}

// "-f, --file needs a value: -f FILE"
std::string value_needed(const std::string& name, std::string_view type, const CLI::App& app,
                         const CLI::App* command) {
  const CLI::Option* option = command == nullptr ? nullptr : command->get_option_no_throw(name);
  if (option == nullptr) option = app.get_option_no_throw(name);
  std::vector<std::string> names;
  if (option != nullptr)
    for (const std::string& one : option->get_snames()) names.push_back("-" + one);
  names.push_back(name);
  return fmt::format("{} needs a value: {} {}{}", fmt::join(names, ", "), names.front(), type,
                     names.front() == "-V" ? ", and the version is told by --version" : "");
}

// The parser's own: "--sort: At Most 1 required but received 2", "--file: 1 required FILE missing"
std::string parser_message(const CLI::ParseError& error, const CLI::App& app, const CLI::App* command) {
  constexpr std::string_view k_too_often = ": At Most 1 required but received ";
  constexpr std::string_view k_required = ": 1 required ";
  constexpr std::string_view k_missing = " missing";
  const std::string_view text = error.what();
  if (const std::size_t at = text.find(k_too_often); at != std::string_view::npos)
    return fmt::format("{} is given {} times, and takes one value", text.substr(0, at),
                       text.substr(at + k_too_often.size()));
  if (const std::size_t at = text.find(k_required);
      at != std::string_view::npos && text.ends_with(k_missing)) {
    const std::size_t type = at + k_required.size();
    return value_needed(std::string(text.substr(0, at)),
                        text.substr(type, text.size() - k_missing.size() - type), app, command);
  }
  return std::string(text);
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const CLI::App* command = chosen.empty() ? nullptr : chosen.front();
  const std::vector<std::string> extra = app.remaining(true);
  const auto word =
      std::ranges::find_if(extra, [](const std::string& text) { return !text.starts_with('-'); });
  if (word != extra.end() && command == nullptr) return extra_message(*word, app, command);
  if (!extra.empty()) return extra_message(extra.front(), app, command);
  if (command == nullptr && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr)
    return "no command is given; combu --help shows them all";
  return fmt::format("{}; see combu {}{}--help", parser_message(error, app, command),
                     command == nullptr ? "" : command->get_name(), command == nullptr ? "" : " ");
}

// What the parser throws is help and version, too. Returns the exit code.
int answer(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() != 0) {
    (void)put_err(fmt::format("combu: {}\n", usage_message(app, error)));
    return 2;
  }
  std::ostringstream text;
  std::ostringstream nothing;
  (void)app.exit(error, text, nothing);
  (void)put_out(text.str());
  return 0;
}

int parse_and_act(int argc, const char* const* argv) {
  Invocation invocation;
  invocation.arguments.assign(argv, argv + argc);
  Action action;
  CLI::App app("combu runs an experiment, a Jsonnet file of trials, each a container, on a Docker Engine.",
               "combu");
  app.set_version_flag("--version", version_text(), "Print the program's version");
  app.fallthrough();
  app.require_subcommand(1);
  app.footer(
      "Example:\n  combu -f experiment.jsonnet run\n  combu -f experiment.jsonnet kill\n\n"
      "These options may stand before or after any command; combu COMMAND --help tells its own.");
  add_global_options(app, invocation);
  add_commands(app, invocation, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return answer(app, error);
  }
  const std::string& command = app.get_subcommands().front()->get_name();
  if (!invocation.file.empty() && std::ranges::find(k_without_file, command) != k_without_file.end())
    throw Error(ErrorKind::invalid, command,
                fmt::format("has no experiment to read: leave out -f {}", invocation.file));
  return action();
}

}  // namespace

int cli_main(int argc, const char* const* argv) {
  hold_standard_files();
  // Written to a pipe or a socket whose reader has gone: an error of the call, not the end of the program.
  (void)signal(SIGPIPE, SIG_IGN);
  try {
    return parse_and_act(argc, argv);
  } catch (const Error& error) {
    std::fputs(fmt::format("{}\n", error_line(error)).c_str(), stderr);
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    std::fputs(fmt::format("combu: {}\n", error.what()).c_str(), stderr);
    return 1;
  }
}

}  // namespace combu
