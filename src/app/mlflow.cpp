#include "app/mlflow.hpp"

#include <optional>
#include <utility>

#include "app/outputs.hpp"
#include "combu/export.hpp"
#include "combu/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

std::string uri_of(const std::string& server) {
  if (!server.empty()) return server;
  if (auto uri = environment("MLFLOW_TRACKING_URI")) return *std::move(uri);
  throw Error(ErrorKind::invalid, "--to",
              "no MLflow server is given; give --to URL, or set MLFLOW_TRACKING_URI");
}

}  // namespace

void send_to_mlflow(const Invocation& invocation, std::span<const Results> runs, const std::string& server,
                    Progress& progress, const std::stop_token& stop) {
  Record record = open_record(invocation, Record::Use::reading);
  for (const Results& run : runs) {
    MlflowForm form{.uri = {},
                    .outputs_of = output_places(record, run.run.id, progress),
                    .ended_at_of = {},
                    .on_progress = {},
                    .note = {}};
    form.uri = uri_of(server);
    form.ended_at_of = [&](const std::string& trial, int attempt) -> std::optional<Instant> {
      for (const AttemptEntry& entry : record.attempts(run.run.id, trial))
        if (entry.attempt == attempt) return entry.ended_at;
      return std::nullopt;
    };
    form.on_progress = [&](std::size_t count, std::size_t total) {
      progress.counted("exported", count, total);
    };
    form.note = [&](const std::string& line) { progress.note(line); };
    export_to_mlflow(run, form, stop);
  }
}

}  // namespace combu
