#include "app/resume_point.hpp"

namespace combu {

Loaded load_newest(Record& record, const RunEntry& entry, const RunOptions& options) {
  Loaded loaded = load(record, entry.id, Texts::newest);
  forgive(loaded.run.experiment, entry);
  override_fields(loaded.run.experiment, options);
  return loaded;
}

ResumePoint resume_point_of(Record& record, const RunEntry& entry, Loaded& loaded) {
  ResumePoint point{.trials = record.restored_trials(entry.id), .working_since = entry.working_since};
  expect_env_files(loaded.run.experiment, point.trials);
  forget_files(loaded.run.experiment, point.trials);
  return point;
}

}  // namespace combu
