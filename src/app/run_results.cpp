#include "app/run_results.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "app/kept_logs.hpp"
#include "combu/workspace.hpp"

namespace combu {

RunResults::RunResults(const Invocation& invocation, OpenSession open_session)
    : invocation_(invocation),
      open_session_(std::move(open_session)),
      folder_(state_folder(caller_for(invocation))),
      record_(folder_, Record::Use::reading) {}

Results RunResults::read(const std::string& id) {
  RunEntry entry = find_run(record_, invocation_, id);
  reconcile(entry);
  Telemetry* told = telemetry(entry.id);
  return read_results(record_, told, std::move(entry));
}

void RunResults::reconcile(const RunEntry& entry) {
  if (entry.engine.is_simulated) return;
  const std::size_t begun = record_.begun(entry.id);
  Telemetry* told = telemetry(entry.id);
  if (begun == 0 || (told != nullptr && told->complete() >= begun)) return;
  refresh_from_engine(invocation_, open_session_, record_, entry);
  telemetries_.erase(entry.id);  // there may be something now
}

std::vector<Results> RunResults::read(const std::vector<std::string>& ids) {
  std::vector<Results> all;
  all.reserve(std::max<std::size_t>(ids.size(), 1));
  for (const std::string& id : ids) {
    all.push_back(read(id));
    if (std::count(ids.begin(), ids.end(), id) > 1)
      throw Error(ErrorKind::invalid, "run " + id, "is named twice");
  }
  if (ids.empty()) all.push_back(read(std::string()));
  return all;
}

Results RunResults::read_where(const std::string& id, const std::string& where, Progress& progress) {
  Results results = read(id);
  choose(results, where, progress);
  return results;
}

std::vector<Results> RunResults::read_where(const std::vector<std::string>& ids, const std::string& where,
                                            Progress& progress) {
  std::vector<Results> all = read(ids);
  for (Results& results : all) choose(results, where, progress);
  return all;
}

Telemetry* RunResults::telemetry(const RunId& run) {
  const auto [known, is_new] = telemetries_.try_emplace(run);
  if (is_new && Telemetry::exists(folder_, run))
    known->second = std::make_unique<Telemetry>(folder_, run, Telemetry::Use::reading);
  return known->second.get();
}

void refresh_from_engine(const Invocation& invocation, const OpenSession& open_session, Record& record,
                         const RunEntry& entry, const TrialNames& trials) {
  if (entry.engine.is_simulated) return;
  const Caller caller = caller_for(invocation);
  // The record, and what has ended, are for who is at work.
  const bool has_owner = owner_pid(entry.id, caller).has_value();
  (void)open_session(on_its_engine(invocation, entry), [&](Session& session) {
    try {
      std::vector<Sighting> attempts =
          session.engine().list({.run = entry.id, .trials = trials}, Look::once, session.stop());
      if (has_owner)
        std::erase_if(attempts, [](const Sighting& seen) { return seen.phase != Phase::running; });
      else if (!entry.ended_at)
        reconcile_or_note(session, record, entry.id);
      note_unkept_logs(
          session, keep_logs(session, record, state_folder(caller), entry.id, attempts, Containers::stay));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
      session.progress().note(fmt::format("what the trials of run {} have written since is not there: {}",
                                          entry.id.text(), error.what()));
    }
    return Result::succeeded;
  });
}

namespace {

// Takes the next one from a list's front: up to a comma, or in quotes of either kind.
std::string take_name(std::string_view& rest, std::string_view option) {
  if (!rest.starts_with('"') && !rest.starts_with('\'')) {
    std::string name(rest.substr(0, rest.find(',')));
    rest.remove_prefix(name.size());
    return name;
  }
  const std::size_t end = rest.find(rest.front(), 1);
  if (end == std::string_view::npos || (end + 1 < rest.size() && rest[end + 1] != ','))
    throw Error(ErrorKind::invalid, std::string(option),
                fmt::format("{}: a name that begins with a quote ends with it", shortened(rest)));
  std::string name(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  return name;
}

}  // namespace

std::vector<std::string> names_in(const std::vector<std::string>& lists, std::string_view option) {
  std::vector<std::string> names;
  for (std::string_view rest : lists) {
    while (true) {
      names.push_back(take_name(rest, option));
      if (names.back().empty())
        throw Error(ErrorKind::invalid, std::string(option), "names stand between commas, and one is empty");
      if (std::count(names.begin(), names.end(), names.back()) > 1)
        throw Error(ErrorKind::invalid, std::string(option),
                    fmt::format("`{}` is named twice", names.back()));
      if (rest.empty()) break;
      rest.remove_prefix(1);
    }
  }
  return names;
}

std::string valueless_text(const Results& results, const std::string& name) {
  const auto near = nearest_column(results, name);
  return fmt::format("--where: no trial of run {} has `{}`{}", results.run.id.text(), name,
                     near ? fmt::format("; is `{}` meant?", *near) : "");
}

void choose(Results& results, const std::string& where, Progress& progress) {
  if (where.empty()) return;
  for (const std::string& name : choose_results(results, Filter(where)))
    progress.note(valueless_text(results, name));
}

}  // namespace combu
