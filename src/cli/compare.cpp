#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string_view>

#include "app/run_results.hpp"
#include "app/runs.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"

namespace combu {
namespace {

struct CompareOptions {
  std::vector<std::string> runs;
  std::string where;
  std::vector<std::string> metrics;
  std::vector<std::string> over{"seed"};
  bool is_over_given = false;
  std::int64_t limit = -1;
  bool json = false;
};

// Repeats may differ by seed; what is named has to be there.
std::vector<std::string> params_over(const CompareOptions& options, const std::vector<Results>& runs) {
  if (!options.is_over_given) return options.over;
  constexpr std::string_view k_params = "params.";
  std::set<std::string_view> known;
  for (const Results& run : runs) known.insert(run.params.begin(), run.params.end());
  std::vector<std::string> params;
  for (std::string name : names_in(options.over, "--over")) {
    if (!known.contains(name) && name.starts_with(k_params)) name.erase(0, k_params.size());
    if (!known.contains(name)) {
      const auto near = nearest(name, {known.begin(), known.end()});
      throw Error(ErrorKind::invalid, "--over",
                  fmt::format("no trial has a param `{}`{}", name,
                              near ? fmt::format("; is `{}` meant?", *near) : ""));
    }
    params.push_back(std::move(name));
  }
  return params;
}

int compare(const Invocation& invocation, const CompareOptions& options) {
  CommandSessions sessions(open_progress(invocation));
  Progress& progress = sessions.progress();
  RunResults source(invocation, sessions.opener());
  std::vector<Results> runs = source.read(options.runs);
  const CompareForm form{.metrics = names_in(options.metrics, "--metric"),
                         .over = params_over(options, runs)};
  const TableForm table = options.json ? json_form(options.limit) : table_form(options.limit);
  bool any = false;
  for (Results& run : runs) {
    choose(run, options.where, progress);
    any = any || !run.metrics.empty();
  }
  if (!any && form.metrics.empty())
    throw Error(ErrorKind::not_found, "",
                fmt::format("no trial of run {} has told a metric; --metric names another column: seconds",
                            runs.front().run.id.text()));
  OutStream out;
  std::vector<std::string> notes;
  if (options.json) {
    notes = print_comparison_json(out, runs, form, table);
  } else {
    print_comparison(out, runs, form, table);
  }
  out.flush();
  for (const std::string& note : notes) progress.note(note);
  return 0;
}

}  // namespace

void add_compare(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("compare", "Tell how runs differ, or repeats within one, from the record");
  const auto options = std::make_shared<CompareOptions>();
  command.add_option("--metric", options->metrics, "These columns (loss,accuracy.greatest)")
      .type_name("NAMES")
      .one_value_each();
  command.add_option("--over", options->over, "Params in which repeats differ")
      .type_name("NAMES")
      .one_value_each()
      .show_default();
  command.add_option("--where", options->where, "Only trials of which this is so: lr<0.01")
      .type_name("CONDITION");
  add_limit(command, options->limit);
  command.add_flag("--json", options->json, "One JSON object a line");
  command.add_option("RUN", options->runs, "These runs, instead of the file's last one").type_name("");
  command.footer("Example:\n  combu compare 3k9x0q2m7abc 0a1b2c3d4e5f --metric loss");
  command.callback([&invocation, &action, command, options] {
    options->is_over_given = command.count("--over") > 0;
    action = [&invocation, options] { return compare(invocation, *options); };
  });
}

}  // namespace combu
