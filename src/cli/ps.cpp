// Reconciles: if no process is at work on a run and the engine knows more than the record, it first puts that
// on record (app/reconcile.hpp).

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "app/execution.hpp"
#include "app/kept_logs.hpp"
#include "app/only.hpp"
#include "app/patience.hpp"
#include "app/reconcile.hpp"
#include "app/run_results.hpp"
#include "app/runs.hpp"
#include "app/selection.hpp"
#include "app/trial_names.hpp"
#include "app/trial_row.hpp"
#include "cli/commands.hpp"
#include "cli/options.hpp"
#include "cli/output.hpp"
#include "cli/session.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::size_t k_runs_shown = 20;
constexpr Seconds k_ps_patience{10};
constexpr Seconds k_usage_patience{0.5};
constexpr std::size_t k_usages_max = 200;
constexpr std::size_t k_usages_in_flight = 16;

struct PsOptions {
  SelectionOptions selection;
  bool json = false;
  bool all = false;
  std::int64_t limit = -1;
  std::string where;
};

// nullopt when the engine is away, which is told: the record answers without it.
std::optional<std::vector<Sighting>> listing(Session& session, const Selector& selector) {
  std::string why;
  try {
    const Patience patience(session.stop(), k_ps_patience);
    return session.engine().list(selector, Look::once, patience.token());
  } catch (const Error& error) {
    if (session.stop().stop_requested()) throw;
    why = error.kind() == ErrorKind::cancelled ? fmt::format("no answer within {}", to_string(k_ps_patience))
                                               : error.what();
  }
  session.progress().note(fmt::format("this is what is on record; the engine could not be asked: {}", why));
  return std::nullopt;
}

// Asks the engine what the running trials use, but of the first k_usages_max only. A value that it
// does not give in time stays unknown.
void ask_usage(Session& session, std::span<TrialRow> rows) {
  std::vector<TrialRow*> running;
  for (TrialRow& row : rows)
    if (row.entry.state == TrialState::running && !row.entry.container.empty()) running.push_back(&row);
  const std::size_t count = running.size();
  running.resize(std::min(count, k_usages_max));
  if (running.empty()) return;
  // An engine does not answer for a container as long as it copies out of it.
  const Patience patience(session.stop(), k_usage_patience);
  try {
    in_parallel(running.size(), k_usages_in_flight, [&](std::size_t i) {
      try {
        running[i]->usage = session.engine().usage(running[i]->entry.container, patience.token());
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::cancelled) throw;
      }
    });
  } catch (const Error&) {
    if (session.stop().stop_requested()) throw;
  }
  if (count > k_usages_max)
    session.progress().note(
        fmt::format("memory and CPU use are shown for {} of {} running trials; names, "
                    "--where or --limit choose others",
                    k_usages_max, count));
}

// ---- Trials by the record and the engine

// `attended`: a process is at work on the run; what it has seen is on record a moment later.
void merge(std::vector<TrialRow>& rows, const std::vector<Sighting>& listed, bool attended) {
  std::map<std::string_view, const Sighting*> by_name;
  for (const Sighting& seen : listed) by_name.emplace(seen.key.trial, &seen);
  for (TrialRow& row : rows) {
    const auto seen = by_name.find(row.entry.name);
    if (seen != by_name.end()) {
      add_sighting(row, *seen->second, attended);
      if (seen->second->key.attempt == row.entry.attempt) row.entry.container = seen->second->id;
    } else if (!attended) {
      mark_missing(row.entry);
    }
  }
}

std::vector<TrialRow> rows_of(Record& record, const RunId& run, const std::string& single, Detail detail) {
  std::vector<TrialRow> rows;
  rows.reserve(single.empty() ? record.trial_count(run) : 1);
  record.trials(run, single, detail, [&]() -> TrialEntry& { return rows.emplace_back().entry; });
  for (TrialRow& row : rows)
    if (row.entry.healthy && row.entry.state == TrialState::running) row.health = Health::healthy;
  return rows;
}

TrialCounts counts_of(const std::vector<TrialRow>& rows) {
  TrialCounts counts{};
  for (const TrialRow& row : rows) ++counts.at(static_cast<std::size_t>(row.entry.state));
  return counts;
}

std::string_view state_of(const RunEntry& entry, const TrialCounts& counts, bool attended) {
  if (attended) return "running";
  if (entry.ended_at) return "ended";
  if (any_left(counts)) return "interrupted";
  if (counts.at(static_cast<std::size_t>(TrialState::running)) == 0) return "ended";
  return run_options_of(entry.options).watched ? "interrupted" : "left running";
}

std::optional<std::string> value_of(const RunEntry& run, const TrialRow& row, std::string_view name,
                                    std::string_view wanted) {
  if (name == "experiment") return run.experiment;
  if (name == "run") return run.id.text();
  if (name == "health" && row.health != Health::none) return std::string(to_string(row.health));
  if (auto value = trial_value(row.entry, name, wanted)) return value;
  return param_of(row.entry.params, name);
}

// Of what the engine alone knows.
std::optional<std::string> value_of(const Sighting& sighting, std::string_view name) {
  if (name == "experiment") return sighting.experiment;
  if (name == "run") return sighting.key.run.text();
  if (name == "trial") return sighting.key.trial;
  if (name == "attempt") return std::to_string(sighting.key.attempt);
  if (name == "state") return std::string(to_string(sighting.phase));
  if (name == "image") return sighting.image;
  if (name == "id") return sighting.id;
  if (name == "health" && sighting.health != Health::none) return std::string(to_string(sighting.health));
  if (name == "exit_code" && sighting.exit_code) return std::to_string(*sighting.exit_code);
  return std::nullopt;
}

// Which trials are shown.
class Choice {
 public:
  explicit Choice(const PsOptions& options) : names_(options.selection.trials) {
    if (!options.where.empty()) where_.emplace(options.where);
  }

  // The only one that is meant, where a name says it; else empty.
  [[nodiscard]] std::string single() const {
    return names_.size() == 1 && !is_pattern(names_.front()) ? names_.front() : "";
  }

  // Those that name none of these.
  [[nodiscard]] std::vector<std::string> unknown(const std::vector<TrialRow>& rows,
                                                 const std::vector<Sighting>& sightings) const {
    std::vector<std::string> unknown = names_;
    for (const TrialRow& row : rows) drop_matching(unknown, row.entry.name);
    for (const Sighting& seen : sightings) drop_matching(unknown, seen.key.trial);
    return unknown;
  }

  // Gives the names in conditions that no trial has a value of.
  std::set<std::string> apply(const RunEntry& run, std::vector<TrialRow>& rows) const {
    std::map<std::string, bool, std::less<>> has_value;
    const auto value_in = [&](const TrialRow& row, std::string_view name, std::string_view wanted) {
      auto value = value_of(run, row, name, wanted);
      const auto known = has_value.find(name);
      if (known == has_value.end()) {
        has_value.emplace(name, value.has_value());
      } else if (value) {
        known->second = true;
      }
      return value;
    };
    std::erase_if(rows, [&](const TrialRow& row) {
      return !is_chosen(names_, row.entry.name) ||
             (where_ && !where_->matches([&](std::string_view name, std::string_view wanted) {
               return value_in(row, name, wanted);
             }));
    });
    std::set<std::string> valueless;
    for (const auto& [name, has] : has_value)
      if (!has) valueless.insert(name);
    return valueless;
  }

  void apply(std::vector<Sighting>& sightings) const {
    std::erase_if(sightings, [&](const Sighting& seen) {
      return !is_chosen(names_, seen.key.trial) ||
             (where_ && !where_->matches([&](std::string_view name, std::string_view /*wanted*/) {
               return value_of(seen, name);
             }));
    });
  }

 private:
  std::vector<std::string> names_;
  std::optional<Filter> where_;
};

bool is_on_record(Record& record, const RunId& run) {
  return !record.runs({.id = run}, 1).empty();
}

// What another one's record, or none, has.
void leave_recorded(Record& record, std::vector<Sighting>& sightings) {
  std::map<RunId, bool> known;
  std::erase_if(sightings, [&](const Sighting& seen) {
    const auto [at, is_new] = known.try_emplace(seen.key.run);
    if (is_new) at->second = is_on_record(record, seen.key.run);
    return at->second;
  });
}

TableForm form_of(const PsOptions& options) {
  return options.json ? json_form(options.limit) : table_form(options.limit);
}

void print(const std::vector<Sighting>& sightings, const PsOptions& options, std::ostream& out) {
  (options.json ? print_sightings_json : print_sightings)(out, sightings, form_of(options));
}

// What the engine has of the run. Where nobody is at work on it, its own word counts for each that lives.
std::vector<Sighting> own_of(Session& session, const RunRow& run, const std::vector<TrialRow>& rows,
                             const std::vector<Sighting>& listed, const std::string& single, bool attended) {
  std::vector<Sighting> own;
  std::ranges::copy_if(listed, std::back_inserter(own),
                       [&](const Sighting& seen) { return seen.key.run == run.entry.id; });
  const bool lives = std::ranges::any_of(rows, [](const TrialRow& row) { return !is_over(row.entry.state); });
  if (attended || !lives || own.empty()) return own;
  Selector selector{.experiment = run.entry.experiment, .run = run.entry.id};
  if (!single.empty()) selector.trials = {single};
  return session.engine().list(selector, Look::closely, session.stop());
}

// True if the record lacks the end of an attempt, or that it runs, which the engine knows.
bool is_behind(const std::vector<TrialRow>& rows, const RunId& run, const std::vector<Sighting>& listed) {
  std::map<std::string_view, Phase> alive;
  for (const Sighting& seen : listed)
    if (seen.key.run == run && seen.phase != Phase::ended) alive.emplace(seen.key.trial, seen.phase);
  return std::ranges::any_of(rows, [&](const TrialRow& row) {
    if (!is_alive(row.entry.state)) return false;
    const auto found = alive.find(row.entry.name);
    return found == alive.end() ||
           (row.entry.state == TrialState::starting && found->second == Phase::running);
  });
}

// `names`: those in conditions that no trial has a value of.
void tell_valueless(Progress& progress, Record& record, const RunEntry& run,
                    const std::set<std::string>& names) {
  if (names.empty()) return;
  const Results results = read_results(record, nullptr, run);
  for (const std::string& name : names) progress.note(valueless_text(results, name));
}

// Adds to each failure the last line of its log, and joins equal ones in one row, in the place of the first.
void join_failures(std::vector<TrialRow>& rows, const LastLine& last_line) {
  std::vector<Failure> failures;
  for (TrialRow& row : rows) {
    TrialEntry& entry = row.entry;
    if (!is_unsuccessful(entry.state, entry.cause)) continue;
    const bool has_log = entry.state != TrialState::blocked && entry.ran_at && last_line;
    failures.push_back(failure_of(entry.name, entry, has_log ? last_line(entry.name, entry.attempt) : ""));
    entry.reason = failures.back().reason;
    entry.details = {.stopper = failures.back().stopper};
  }
  std::unordered_map<std::string, std::optional<FailureGroup>>
      joined;  // by trial; nullopt: it is in another's row
  for (FailureGroup& group : group_failures(failures)) {
    if (group.trials.size() == 1) continue;
    for (const std::string_view trial : group.trials) joined.emplace(trial, std::nullopt);
    joined.insert_or_assign(std::string(group.trials.front()), std::move(group));
  }
  std::vector<TrialRow> kept;
  for (const TrialRow& row : rows) {
    const auto found = joined.find(row.entry.name);
    if (found == joined.end()) {
      kept.push_back(row);
    } else if (found->second) {
      TrialEntry entry;
      entry.name = trials_text(found->second->trials);
      entry.state = found->second->state;
      entry.attempt = 0;
      entry.reason = found->second->reason;
      entry.details.stopper = found->second->stopper;
      kept.push_back({.entry = std::move(entry)});
    }
  }
  rows = std::move(kept);
}

Result ps_trials(Session& session, Record& record, RunRow run, const PsOptions& options) {
  const Choice choice(options);
  const std::string single = choice.single();
  const bool attended = process_at_work(run.entry.id, caller_for({})).has_value();
  const Detail detail =
      options.json || !options.where.empty() || !single.empty() ? Detail::all : Detail::state;
  std::vector<TrialRow> rows = rows_of(record, run.entry.id, single, detail);
  std::vector<Sighting> others;
  const bool by_run = !options.selection.run.empty();
  Selector selector{.experiment = run.entry.experiment};
  if (by_run) selector.run = run.entry.id;
  if (!by_run && options.selection.experiment.empty()) selector = {.file = run.entry.file};
  const auto listed = listing(session, selector);
  if (listed) {
    const std::vector<Sighting> own = own_of(session, run, rows, *listed, single, attended);
    if (!attended && !run.entry.ended_at && is_behind(rows, run.entry.id, own)) {
      take_in_all(session, record, run.entry.id);
      run.entry = record.runs({.id = run.entry.id}, 1).at(0);
      rows = rows_of(record, run.entry.id, single, detail);
    }
    merge(rows, own, attended);
    others = *listed;
    leave_recorded(record, others);
  }
  // Of one trial nothing is said of the others: there may be 100,000.
  if (single.empty()) {
    run.counts = counts_of(rows);
    run.state = state_of(run.entry, run.counts, attended);
  }
  const std::vector<std::string> unknown = choice.unknown(rows, others);
  tell_valueless(session.progress(), record, run.entry, choice.apply(run.entry, rows));
  choice.apply(others);
  const std::string whose = "run " + run.entry.id.text();
  if (rows.empty() && others.empty()) expect_all_matched(unknown, whose);
  const TableForm form = form_of(options);
  // A name or a pattern asks for each trial, and a pipe gets all.
  if (form.columns > 0 && !options.json && options.selection.trials.empty()) {
    const std::unique_ptr<Telemetry> logs = kept_logs_of(run.entry.id, state_folder(caller_for({})));
    join_failures(rows, last_lines_in(logs.get()));
  }
  const std::span<TrialRow> shown = std::span(rows).first(form.shown(rows.size()));
  if (listed) ask_usage(session, shown);
  OutStream out;
  if (options.json) {
    print_trials_json(out, run, shown, real_clock().now());
  } else {
    print_trials(out, run, rows, real_clock().now(), form);
  }
  if (!others.empty()) {
    if (!options.json) out << "\nnot on record:\n";
    print(others, options, out);
  }
  out.flush();
  expect_all_matched(unknown, whose);
  return Result::succeeded;
}

// Nothing of it is on record, or that cannot be read.
Result ps_engine(Session& session, const Invocation& invocation, const PsOptions& options, bool was_read) {
  const Choice choice(options);
  auto sightings = list_all(session, selectors_of(session, invocation, options.selection), Look::closely);
  const SelectionOptions& selection = options.selection;
  if (sightings.empty()) {
    const std::string why = with_others(
        was_read ? "nothing of it is on record or on this engine" : "nothing of it is on this engine",
        session, invocation, selection);
    if (!selection.run.empty()) throw Error(ErrorKind::not_found, "run " + selection.run, why);
    if (!selection.experiment.empty()) throw Error(ErrorKind::not_found, selection.experiment, why);
    session.progress().note(why);
  }
  const std::vector<std::string> unknown = choice.unknown({}, sightings);
  choice.apply(sightings);
  std::ostringstream text;
  print(sightings, options, text);
  (void)put_out(text.view());
  expect_all_matched(unknown, "what is on this engine");
  return Result::succeeded;
}

// ---- Runs

RunRow row_of(Session& session, Record& record, const RunEntry& entry,
              const std::optional<std::vector<Sighting>>& listed) {
  RunRow row{.entry = entry, .state = {}, .counts = {}};
  const bool attended = process_at_work(entry.id, caller_for({})).has_value();
  if (attended || entry.ended_at || !listed || entry.engine.address != session.engine_address()) {
    row.counts = record.counts(entry.id);
  } else {
    std::vector<TrialRow> rows = rows_of(record, entry.id, {}, Detail::state);
    const std::vector<Sighting> own = own_of(session, row, rows, *listed, {}, attended);
    if (is_behind(rows, entry.id, own)) {
      take_in_all(session, record, entry.id);
      row.entry = record.runs({.id = entry.id}, 1).at(0);
      rows = rows_of(record, entry.id, {}, Detail::state);
    }
    merge(rows, own, attended);
    row.counts = counts_of(rows);
  }
  row.state = state_of(row.entry, row.counts, attended);
  return row;
}

// Runs of which only their containers are known.
std::vector<RunRow> rows_of(const std::vector<Sighting>& others, const std::string& address) {
  std::map<RunId, RunRow> rows;
  for (const Sighting& seen : others) {
    RunRow& row = rows[seen.key.run];
    const bool is_first = row.state.empty();
    row.state = "not on record";
    row.entry.id = seen.key.run;
    row.entry.experiment = seen.experiment;
    row.entry.file = seen.file;
    row.entry.engine.address = address;
    row.entry.began_at = is_first ? seen.created_at : std::min(row.entry.began_at, seen.created_at);
    const TrialState state = seen.phase == Phase::created   ? TrialState::starting
                             : seen.phase == Phase::running ? TrialState::running
                                                            : state_of(ending_of(seen));
    ++row.counts.at(static_cast<std::size_t>(state));
  }
  std::vector<RunRow> newest_first;
  newest_first.reserve(rows.size());
  for (auto& [run, row] : rows) newest_first.push_back(std::move(row));
  std::ranges::stable_sort(newest_first, std::greater(),
                           [](const RunRow& row) { return row.entry.began_at; });
  return newest_first;
}

std::optional<std::string> value_of(const RunRow& row, std::string_view name) {
  if (name == "run") return row.entry.id.text();
  if (name == "experiment") return row.entry.experiment;
  if (name == "file") return row.entry.file;
  if (name == "state") return row.state;
  if (name == "engine") return row.entry.engine.address;
  if (name == "trials") return std::to_string(std::accumulate(row.counts.begin(), row.counts.end(), 0UL));
  for (std::size_t i = 0; i < row.counts.size(); ++i)
    if (name == to_string(static_cast<TrialState>(i))) return std::to_string(row.counts.at(i));
  throw Error(ErrorKind::invalid, "--where",
              fmt::format("`{}` is nothing that a run has; conditions on trials are for one run: -f FILE or "
                          "--run ID says which",
                          name));
}

// Of a list of runs; 0: all.
std::size_t runs_shown(const PsOptions& options) {
  if (options.limit >= 0) return static_cast<std::size_t>(options.limit);
  return options.all || !options.where.empty() ? 0 : k_runs_shown;
}

Result ps_runs(Session& session, Record* record, const Invocation& invocation, const PsOptions& options) {
  const std::optional<Filter> where =
      options.where.empty() ? std::nullopt : std::optional(Filter(options.where));
  std::vector<RunEntry> entries;
  RunFilter filter{.address = address_given(invocation)};
  if (means_simulated(invocation)) filter.simulated = true;
  if (record != nullptr) entries = record->runs(filter, SIZE_MAX);
  // Without a record the engine's error is the answer.
  const std::optional<std::vector<Sighting>> listed =
      entries.empty() ? session.engine().list({}, Look::closely, session.stop()) : listing(session, {});
  // A condition is looked at for each run.
  const std::size_t most = runs_shown(options);
  const std::size_t shown = where || most == 0 ? entries.size() : std::min(most, entries.size());
  std::vector<RunRow> rows;
  rows.reserve(shown);
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(row_of(session, *record, entries[i], listed));
  if (listed) {
    std::vector<Sighting> others = *listed;
    if (record != nullptr) leave_recorded(*record, others);
    std::ranges::move(rows_of(others, session.engine_address()), std::back_inserter(rows));
  }
  if (where)
    std::erase_if(rows, [&](const RunRow& row) {
      return !where->matches(
          [&](std::string_view name, std::string_view /*wanted*/) { return value_of(row, name); });
    });
  std::size_t left_out = entries.size() - shown;
  if (options.limit > 0 && rows.size() > most) {
    left_out += rows.size() - most;
    rows.resize(most);
  }
  std::ostringstream text;
  if (options.json) {
    print_runs_json(text, rows);
  } else {
    print_runs(text, rows, form_of(options).columns);
  }
  (void)put_out(text.view());
  if (left_out > 0)
    session.progress().note(fmt::format("{} older run{}: {} shows all", left_out, left_out == 1 ? "" : "s",
                                        options.limit > 0 ? "--limit 0" : "--all"));
  return Result::succeeded;
}

// The record, when there is one. Who asks for what runs gets an answer also where it is damaged; `code` is
// what that ends with.
std::unique_ptr<Record> existing_record(const Invocation& invocation, Progress& progress, int& code) {
  const std::string folder = state_folder(caller_for(invocation));
  if (!Record::exists(folder)) return nullptr;
  try {
    return std::make_unique<Record>(folder, Record::Use::reading);
  } catch (const Error& error) {
    progress.error(error.what());
    code = exit_code(error.kind());
    return nullptr;
  }
}

int ps(const Invocation& invocation, const PsOptions& options) {
  CommandSessions sessions(open_progress(invocation));
  int record_code = 0;
  const std::unique_ptr<Record> record = existing_record(invocation, sessions.progress(), record_code);
  const auto done = [&](Result result) {
    return result == Result::succeeded ? record_code : sessions.exit_code(result);
  };
  const SelectionOptions& selection = options.selection;
  if (invocation.file.empty() && selection.experiment.empty() && selection.run.empty()) {
    if (!selection.trials.empty())
      throw Error(ErrorKind::invalid, "", "of which run? -f FILE, --experiment NAME or --run ID says it");
    return done(sessions.open(
        invocation, [&](Session& session) { return ps_runs(session, record.get(), invocation, options); }));
  }
  RunFilter filter = filter_of(invocation, selection);
  filter.address = address_given(invocation);
  std::vector<RunEntry> entries;
  if (record) entries = record->runs(filter, 1);
  if (entries.empty() && record && filter.simulated == false) {
    filter.simulated = true;
    if (!record->runs(filter, 1).empty()) sessions.progress().note(k_only_simulated);
  }
  if (entries.empty())
    return done(sessions.open(invocation, [&](Session& session) {
      return ps_engine(session, invocation, options, record_code == 0);
    }));
  return sessions.exit_code(sessions.open(on_its_engine(invocation, entries.front()), [&](Session& session) {
    return ps_trials(session, *record, {.entry = entries.front(), .state = {}, .counts = {}}, options);
  }));
}

}  // namespace

void add_ps(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "ps", "List the trials of a run, the file's last one; without -f and --run list all runs");
  const auto options = std::make_shared<PsOptions>();
  add_selection(command, options->selection);
  command.add_flag("--json", options->json, "One JSON object a line");
  command.add_flag("--all", options->all,
                   fmt::format("Of a list of runs all; else the newest {}", k_runs_shown));
  add_limit(command, options->limit);
  command.add_option("--where", options->where, "Only those of which this is so: lr<0.01 && state=failed")
      .type_name("CONDITION");
  command.add_option("TRIAL", options->selection.trials, "Only trials of these names (solver-a-*)")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet ps --where 'lr<0.01 && state=failed'");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] { return ps(invocation, *options); };
  });
}

}  // namespace combu
