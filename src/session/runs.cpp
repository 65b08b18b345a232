#include <fmt/format.h>

#include <algorithm>

#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
Caller caller_for(const Invocation& invocation) {
  return caller_of(invocation.file.empty() ? "-" : invocation.file);
}

Record open_record(const Invocation& invocation, Record::Use use) {
  return Record(state_folder(caller_for(invocation)), use);
}

void note_waits(Record& record, Progress& progress) {
  record.on_wait([&progress] {
    progress.note("another process is writing to the record; combu waits for at most 20 s");
  });
}

RunEntry find_run(Record& record, const Invocation& invocation, const std::string& id) {
  if (!id.empty()) return record.run(RunId(id));
  const std::string file = with_default_file(invocation).file;
  if (file.empty())
    throw Error(ErrorKind::invalid, "",
                "a run must be given; use its id, or -f FILE for the file's last run");
  RunFilter filter{.file = identity_of(file), .simulated = means_simulated(invocation)};
  if (const std::vector<RunEntry> runs = record.runs(filter, 1); !runs.empty()) return runs.front();
  filter.simulated = !means_simulated(invocation);
  throw Error(ErrorKind::not_found, file,
              record.runs(filter, 1).empty() ? "the record has no run of this file"
              : *filter.simulated            ? std::string(k_only_simulated)
                                             : "the record has no run of this file on the simulated engine");
}

std::string note_of_other_engine(const Invocation& invocation, std::string_view address) {
  if (invocation.file.empty()) return "";
  try {
    Record record = open_record(invocation, Record::Use::reading);
    const RunEntry entry = find_run(record, invocation, "");
    if (entry.engine.is_simulated || entry.engine.address == address) return "";
    return fmt::format("the last run of this file, {}, is on another engine: add `--engine {}`",
                       entry.id.text(), shell_word(entry.engine.address));
  } catch (const Error&) {
    return "";
  }
}

RunEntry find_owned_run(Record& record, const Invocation& given, const std::string& id) {
  const Invocation invocation = with_default_file(given);
  if (id.empty() && !invocation.file.empty()) {
    const Caller caller = caller_for(invocation);
    const RunFilter filter{.file = identity_of(invocation.file), .simulated = means_simulated(invocation)};
    for (RunEntry& entry : record.runs(filter, SIZE_MAX))
      if (!entry.ended_at && owner_pid(entry.id, caller)) return std::move(entry);
  }
  return find_run(record, invocation, id);
}

Error no_owner(const RunEntry& entry, std::string_view engine) {
  return {ErrorKind::not_found, "run " + entry.id.text(),
          entry.ended_at
              ? "has ended"
              : fmt::format("no combu process owns the run; `{}` resumes it", resume_line(entry.id, engine))};
}

bool means_simulated(const Invocation& invocation) {
  return invocation.named_engine == NamedEngine::simulated ||
         invocation.named_engine == NamedEngine::any_simulated;
}

Invocation on_its_engine(Invocation invocation, const RunEntry& entry) {
  if (invocation.engine.empty() ||
      (invocation.named_engine == NamedEngine::any_simulated && entry.engine.is_simulated)) {
    invocation.engine = entry.engine.address;
    invocation.named_engine = entry.engine.is_simulated ? NamedEngine::simulated : NamedEngine::real;
  }
  return invocation;
}

bool any_left(const TrialCounts& counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto state = static_cast<TrialState>(i);
    if (counts.at(i) > 0 && !is_over(state) && state != TrialState::running) return true;
  }
  return false;
}

bool any_unsuccessful(const Experiment& experiment, const std::vector<RestoredTrial>& restored) {
  for (TrialIndex trial = 0; trial < restored.size(); ++trial)
    if (fails_run(experiment.trials[trial], restored[trial].state, restored[trial].cause)) return true;
  return false;
}

std::string counts_of(const std::vector<RestoredTrial>& restored) {
  TrialCounts counts{};
  for (const RestoredTrial& one : restored) ++counts.at(static_cast<std::size_t>(one.state));
  return counts_text(counts);
}

void ask_engine(const OpenSession& open_session, const Invocation& invocation, const RunEntry& entry,
                const std::function<void(Session&)>& ask) {
  const std::shared_ptr<Session> session = open_session(on_its_engine(invocation, entry));
  try {
    ask(*session);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled) throw;
  }
}

void expect_its_engine(const Session& session, const RunEntry& entry) {
  if (session.engine_address() == entry.engine.address) return;
  throw Error(ErrorKind::conflict, "run " + entry.id.text(),
              fmt::format("must continue on its engine {}, not on {}; leave out --engine",
                          entry.engine.address, session.engine_address()));
}

TrialIndex find_trial(const Experiment& experiment, const std::string& name) {
  std::vector<std::string_view> names;
  for (TrialIndex trial = 0; trial < experiment.trials.size(); ++trial) {
    if (experiment.trials[trial].name == name) return trial;
    names.emplace_back(experiment.trials[trial].name);
  }
  const auto near = nearest(name, names);
  throw Error(ErrorKind::not_found, name,
              near ? fmt::format("is not a trial of the run; did you mean `{}`?", *near)
                   : "is not a trial of the run");
}

}  // namespace combu
