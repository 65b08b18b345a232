#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/run_results.hpp"

namespace combu {
namespace {

struct CompareOptions {
  std::vector<std::string> runs;
  std::string where;
  CompareForm form;
  bool json = false;
};

void expect_different(const std::vector<Results>& runs) {
  for (auto run = runs.begin(); run != runs.end(); ++run)
    if (std::any_of(runs.begin(), run, [&](const Results& other) { return other.run.id == run->run.id; }))
      throw Error(ErrorKind::invalid, "run " + run->run.id.text(), "is named twice");
}

int compare(const Invocation& invocation, const CompareOptions& options) {
  const auto progress = open_progress(invocation);
  RunResults source(invocation);
  std::vector<Results> runs = source.read(options.runs);
  expect_different(runs);
  bool any = false;
  for (Results& run : runs) {
    choose(run, options.where, *progress);
    any = any || !run.metrics.empty();
  }
  if (!any && options.form.metrics.empty())
    throw Error(ErrorKind::not_found, "",
                fmt::format("no trial of run {} has told a metric; --metric names another column: seconds",
                            runs.front().run.id.text()));
  OutStream out;
  (options.json ? print_comparison_json : print_comparison)(out, runs, options.form);
  out.flush();
  return 0;
}

}  // namespace

void add_compare(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command =
      app.add_subcommand("compare", "Tell how runs differ, or repeats within one, from the record");
  const auto options = std::make_shared<CompareOptions>();
  options->form.over = {"seed"};
  command->add_option("--metric", options->form.metrics, "These columns (loss,accuracy.greatest)")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--over", options->form.over, "Params in which repeats differ")
      ->type_name("NAMES")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--where", options->where, "Only trials of which this is so: lr<0.01")
      ->type_name("CONDITION");
  command->add_flag("--json", options->json, "One JSON object a line");
  command->add_option("RUN", options->runs, "These runs, instead of the file's last one")->type_name("");
  command->footer("Example:\n  combu compare 3k9x0q2m7abc 0a1b2c3d4e5f --metric loss");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] { return compare(invocation, *options); };
  });
}

}  // namespace combu
