#include "app/compare.hpp"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <utility>

#include "app/run_results.hpp"

namespace combu {
namespace {

// Returns the params whose values may differ among the repeats of a trial. Throws Error(invalid) if the user
// names a param that no trial has. Returns the default list without this check.
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
                              near ? fmt::format("; did you mean `{}`?", *near) : ""));
    }
    params.push_back(std::move(name));
  }
  return params;
}

}  // namespace

ComparedRuns read_compared(const Invocation& invocation, const CompareOptions& options,
                           const OpenSession& open_session, Progress& progress) {
  ComparedRuns compared{
      .runs = read_run_results(invocation, {.ids = options.runs, .where = {}}, open_session, progress),
      .form = {}};
  compared.form.metrics = names_in(options.metrics, "--metric");
  compared.form.over = params_over(options, compared.runs);
  bool any = false;
  for (Results& run : compared.runs) {
    choose(run, options.where, progress);
    any = any || !run.metrics.empty();
  }
  if (!any && compared.form.metrics.empty())
    throw Error(
        ErrorKind::not_found, "",
        fmt::format("no trial of run {} reported a metric; give another column, for example --metric seconds",
                    compared.runs.front().run.id.text()));
  return compared;
}

}  // namespace combu
