#include "app/show.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/docker.hpp"
#include "combu/view.hpp"

namespace combu {
namespace {

struct ShowArguments {
  std::string run;
  std::vector<std::string> trials;  // names and patterns
  bool json = false;
  bool reproduce = false;
  bool source = false;
  bool evaluated = false;
  bool diff = false;
};

void expect_one_form(const ShowArguments& options) {
  if (options.json + options.reproduce + options.evaluated + options.source + options.diff > 1)
    throw Error(ErrorKind::invalid, "show",
                "at most one of --json, --reproduce, --evaluated, --source and --diff may be given");
}

ShowWhat what_of(const ShowArguments& arguments) {
  if (arguments.source) return ShowWhat::source;
  if (arguments.diff) return ShowWhat::diff;
  if (arguments.evaluated) return ShowWhat::evaluated;
  return arguments.reproduce ? ShowWhat::reproduction : ShowWhat::trials;
}

// Prints the details of each trial: as text, with an empty line between two trials, or as one JSON object per
// line.
int show_command(const Invocation& invocation, const ShowArguments& arguments) {
  expect_one_form(arguments);
  ShowOptions options{.run = arguments.run, .trials = arguments.trials, .what = what_of(arguments)};
  options.default_engine = [] { return find_docker(environment, "").address.text(); };
  options.on_file = [](const std::string& bytes) { (void)put_bytes(bytes); };
  options.on_text = [](const std::string& text) { (void)put_out(text); };
  bool is_first = true;
  OutStream out;
  options.on_trial = [&](const ShownTrial& shown) {
    if (!std::exchange(is_first, false) && !arguments.json) out << '\n';
    (arguments.json ? print_trial_json : print_trial)(out, shown);
    out.flush();
  };
  CommandSessions sessions(open_progress(invocation));
  show(invocation, options, sessions.opener());
  return 0;
}

}  // namespace

void add_show(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("show", "Show all data of trials, and how to run them again");
  const auto options = std::make_shared<ShowArguments>();
  add_run_option(command, options->run);
  command.add_flag("--json", options->json, "Print one JSON object for each trial, one per line");
  command.add_flag("--reproduce", options->reproduce,
                   "Print shell commands that run the trials again exactly as recorded");
  command.add_flag("--evaluated", options->evaluated,
                   "Print the run's experiment after evaluation, with the digest of each image");
  command.add_flag("--source", options->source, "Print the text of the run's file");
  command.add_flag("--diff", options->diff,
                   "Print the recorded diff from the git commit to the working tree of the file's folder");
  command.add_option("TRIAL", options->trials, "Trials with these names, such as solver-a-*").type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet show solver-a-1");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return show_command(invocation, *options); };
  });
}

}  // namespace combu
