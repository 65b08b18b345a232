#include "combu/export.hpp"

#include <fmt/format.h>

#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "app/mlflow.hpp"
#include "app/run_results.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/analysis.hpp"
#include "combu/progress.hpp"
#include "combu/system.hpp"

namespace combu {
namespace {

struct ExportOptions {
  std::string format;
  ChosenRuns chosen;
  std::string output;
  std::string to;
  bool points = false;
};

void write(std::ostream& out, const ExportOptions& options, std::span<const Results> runs) {
  const bool json = options.format == "json";
  if (options.points) {
    (json ? export_points_json : export_points_csv)(out, runs);
  } else {
    (json ? export_json : export_csv)(out, runs);
  }
}

void write_text(const ExportOptions& options, std::span<const Results> runs) {
  if (options.output.empty()) {
    OutStream out(options.format == "json" ? OutStream::Content::text : OutStream::Content::bytes);
    write(out, options, runs);
    out.flush();
    return;
  }
  write_file(options.output, [&](std::ostream& out) { write(out, options, runs); });
}

void expect_sense(const ExportOptions& options) {
  const bool is_text = options.format == "csv" || options.format == "json";
  if (options.points && !is_text)
    throw Error(ErrorKind::invalid, "--points",
                fmt::format("must be used with csv or json; {} always has all points", options.format));
  if (options.format == "sqlite" && options.output.empty())
    throw Error(ErrorKind::invalid, "export sqlite", "an output file must be given; use -o FILE");
  if (options.format == "mlflow" && !options.output.empty())
    throw Error(ErrorKind::invalid, "-o", "cannot be used with mlflow; use --to URL for the MLflow server");
  if (options.format != "mlflow" && !options.to.empty())
    throw Error(ErrorKind::invalid, "--to", "must be used with mlflow; use -o FILE for an output file");
}

int export_runs(const Invocation& invocation, const ExportOptions& options) {
  expect_sense(options);
  CommandSessions sessions(open_progress(invocation));
  Progress& progress = sessions.progress();
  const std::vector<Results> runs = read_run_results(invocation, options.chosen, sessions.opener(), progress);
  if (options.format == "mlflow") {
    const Interrupts interrupts;  // handles signals, because no session is open that would handle them
    send_to_mlflow(invocation, runs, options.to, progress, interrupts.token());
  } else if (options.format == "sqlite") {
    export_sqlite(options.output, runs);
  } else {
    write_text(options, runs);
  }
  return 0;
}

}  // namespace

void add_export(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command =
      line.add_command("export", "Write the params and metrics of trials for other programs");
  const auto options = std::make_shared<ExportOptions>();
  command
      .add_option("-o,--output", options->output,
                  "Write to this file; default with csv and json: standard output")
      .type_name("FILE");
  command.add_flag("--points", options->points,
                   "With csv and json: one row for each point of a metric, not for each trial");
  command.add_option("--to", options->to, "The MLflow server; default: the value of MLFLOW_TRACKING_URI")
      .type_name("URL");
  command
      .add_option("--where", options->chosen.where,
                  "Only trials that match this condition, such as lr<0.01 && state=succeeded")
      .type_name("CONDITION");
  command
      .add_option("FORMAT", options->format, "The format: csv, json (one object per line), sqlite, or mlflow")
      .required()
      .one_of({"csv", "json", "sqlite", "mlflow"})
      .type_name("");
  command.add_option("RUN", options->chosen.ids, "The runs' ids; default: the file's last run").type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet export csv -o results.csv");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return export_runs(invocation, *options); };
  });
}

}  // namespace combu
