#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <ostream>
#include <sstream>

#include "app/run_results.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/export.hpp"

namespace combu {
namespace {

struct PlotOptions {
  ChosenRuns chosen{.ids = {""}, .where = {}};
  std::string log;
  std::string output;
  ChartForm form;
};

std::string write_svg(const Chart& chart, const std::string& path) {
  if (is_file_to_be(path) && std::filesystem::path(path).extension() != ".svg")
    throw Error(ErrorKind::invalid, path,
                "the name of the output file must end with .svg (rsvg-convert converts SVG to PDF or PNG)");
  std::string note;
  write_file(path, [&](std::ostream& out) { note = print_chart_svg(out, chart); });
  return note;
}

int plot(const Invocation& invocation, const PlotOptions& options) {
  CommandSessions sessions(open_progress(invocation));
  Progress& progress = sessions.progress();
  const std::vector<Results> runs = read_run_results(invocation, options.chosen, sessions.opener(), progress);
  ChartForm form = options.form;
  const auto scale = [&](char axis) {
    return options.log.find(axis) == std::string::npos ? Scale::linear : Scale::logarithmic;
  };
  form.x_scale = scale('x');
  form.y_scale = scale('y');
  const Chart chart = make_chart(runs.front(), form);
  for (const std::string& note : chart.notes) progress.note(note);
  std::string note;
  if (options.output.empty()) {
    std::ostringstream text;
    note = print_chart(text, chart, standard_surface());
    (void)put_coloured(text.str());
  } else {
    note = write_svg(chart, options.output);
  }
  if (!note.empty()) progress.note(note);
  return 0;
}

}  // namespace

void add_plot(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("plot", "Draw a metric of a run's trials");
  const auto options = std::make_shared<PlotOptions>();
  command
      .add_option("--by", options->form.by,
                  "Draw one curve for each value of this column: the mean of the trials with that value")
      .type_name("NAME");
  command
      .add_option(
          "--x", options->form.x,
          "Draw one point for each trial: y is the metric's last value, x is this param, field or metric")
      .type_name("NAME");
  command.add_option("--log", options->log, "Axes with a logarithmic scale")
      .one_of({"x", "y", "xy"})
      .type_name("AXES");
  command
      .add_option("--where", options->chosen.where,
                  "Only trials that match this condition, such as lr<0.01 && state=succeeded")
      .type_name("CONDITION");
  command.add_option("-o,--output", options->output, "Write an SVG to this file").type_name("FILE");
  add_run_option(command, options->chosen.ids.front());
  command.add_option("METRIC", options->form.metric, "The metric to draw; with --x, any column")
      .required()
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet plot loss --by lr -o loss.svg");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return plot(invocation, *options); };
  });
}

}  // namespace combu
