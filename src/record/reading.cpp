// The functions of Record that read from the database.

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/record.hpp"
#include "record/impl.hpp"

namespace combu {
namespace {

using database::Rows;
using std::chrono::microseconds;

Instant instant_of(std::int64_t number) {
  return Instant(std::chrono::duration_cast<Instant::duration>(microseconds(number)));
}

// Returns the enumerator whose to_string() is `word`. Throws Error(corrupt) if no enumerator has this name.
template <class Enum>
Enum value_of(std::string_view word, std::size_t count) {
  if (const auto value = parse_enum<Enum>(word, count)) return *value;
  throw Error(ErrorKind::corrupt, "",
              fmt::format("contains a value that this combu does not know: {}", word));
}
// Like value_of(), but returns Enum::none for an empty word.
template <class Enum>
Enum value_or_none(std::string_view word, std::size_t count) {
  return word.empty() ? Enum::none : value_of<Enum>(word, count);
}
TrialState state_of(const SQLite::Column& column) {
  return value_of<TrialState>(column.getText(), k_trial_state_count);
}
Cause cause_of(const SQLite::Column& column) {
  return value_of<Cause>(column.getText("none"), k_cause_count);
}
// Parses the number of collected files and their total size in bytes, separated by a space, such as "12
// 34567".
std::optional<CollectionResult> outputs_in(const SQLite::Column& column) {
  if (column.isNull()) return std::nullopt;
  CollectionResult collection;
  std::istringstream(column.getString()) >> collection.files >> collection.size.count;
  return collection;
}
std::optional<int> number_in(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(column.getInt());
}

std::optional<Seconds> seconds_in(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(Seconds(microseconds(column.getInt64())));
}

// Splits a list such as "0,1" at each separator `between`.
std::vector<std::string> split(std::string_view text, std::string_view between = ",") {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + between.size(), text.size()));
  }
  return parts;
}

RunId run_id_in(const SQLite::Column& column) {
  return column.isNull() ? RunId() : RunId(column.getString());
}

std::optional<Instant> instant_in(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(instant_of(column.getInt64()));
}

std::optional<Seconds> seconds_in(const Rows& row, int column) {
  const auto number = row.number_if_any(column);
  return number ? std::optional(Seconds(microseconds(*number))) : std::nullopt;
}

std::optional<Instant> instant_in(const Rows& row, int column) {
  const auto number = row.number_if_any(column);
  return number ? std::optional(instant_of(*number)) : std::nullopt;
}

// Reads the columns stopper, outputs_fault, next, pause and next_why, in this order.
EndDetails details_in(SQLite::Statement& query, int column) {
  const auto text = [&](int offset) { return query.getColumn(column + offset).getText(""); };
  return {.stopper = value_or_none<Stopper>(text(0), k_stopper_count),
          .outputs_fault = text(1),
          .next = value_or_none<Next>(text(2), k_next_count),
          .pause = seconds_in(query.getColumn(column + 3)).value_or(Seconds(0)),
          .next_why = text(4)};
}
// Returns an SQL expression that joins the columns of EndDetails into one text for details_of(). The joined
// text is NULL if a row has no EndDetails; most rows have none. With five separate columns instead of one
// text, SQLite would take a fifth longer to read a row.
//
// `condition`: an SQL expression that holds for each row with EndDetails, and is cheaper to evaluate than the
// text.
std::string details_sql(std::string_view pause, std::string_view condition) {
  return fmt::format(
      "CASE WHEN {} AND coalesce(stopper, next, outputs_fault) IS NOT NULL THEN coalesce(stopper, '') || '/' "
      "|| "
      "coalesce(next, '') || '/' || coalesce({}, 0) || '/' || "
      "coalesce(length(CAST(outputs_fault AS BLOB)), 0) || '/' || coalesce(outputs_fault, '') || "
      "coalesce(next_why, '') END",
      condition, pause);
}

EndDetails details_of(std::string_view text) {
  if (text.empty()) return {};
  const auto next_part = [&] {
    const std::size_t end = std::min(text.find('/'), text.size());
    const std::string_view part = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
  };
  const auto number = [](std::string_view digits) {
    std::int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  };
  EndDetails details{.stopper = value_or_none<Stopper>(next_part(), k_stopper_count),
                     .next = value_or_none<Next>(next_part(), k_next_count),
                     .pause = microseconds(number(next_part()))};
  const auto fault_size = static_cast<std::size_t>(number(next_part()));
  details.outputs_fault = text.substr(0, fault_size);
  details.next_why = text.substr(details.outputs_fault.size());
  return details;
}

// Fills `entry` from the row of an attempt. Computes the trial's state by the same rules as the SQL view
// `states`.
void set_attempt(TrialEntry& entry, const Rows& row) {
  entry.attempt = static_cast<int>(row.number(1));
  entry.healthy = !row.is_null(2);
  entry.ran_at = instant_in(row, 3);
  entry.ended_at = instant_in(row, 4);
  entry.exit_code = row.number_if_any(5);
  entry.cause = row.is_null(6) ? Cause::none : value_of<Cause>(row.text(6), k_cause_count);
  entry.reason = row.text(7);
  const bool is_collecting = row.number_if_any(8) == 0;
  const bool is_ready = !row.is_null(9);
  const std::string_view details = row.text(12);
  const bool is_due = is_ready && !is_collecting;
  if (!details.empty() || is_due || entry.details) {
    EndDetails read = details_of(details);
    if (is_due) read.next = Next::due;
    entry.details = std::move(read);
  }
  entry.state = is_collecting    ? TrialState::collecting
                : is_ready       ? TrialState::ready
                : entry.ended_at ? TrialState::retrying
                : entry.ran_at   ? TrialState::running
                                 : TrialState::starting;
  entry.usage.reset();
  if (const auto cpu = row.number_if_any(11))
    entry.usage = Usage{.memory = Bytes{row.number(10)}, .cpu = microseconds(*cpu)};
}

void set_details(TrialEntry& entry, const Rows& row) {
  entry.container = row.text(13);
  entry.gpus = row.text(14);
  entry.collection.reset();
  if (!row.is_null(15))
    entry.collection = CollectionResult{.files = static_cast<std::size_t>(row.number(15)),
                                        .size = Bytes{row.number(16)},
                                        .left = split(row.text(17), k_between_paths)};
}

WorkingTree working_tree_of(std::int64_t run, SQLite::Database& database) {
  SQLite::Statement query(
      database,
      "SELECT diff, is_cut, untracked, left_out, by_index, problem FROM working_trees WHERE run = ?");
  query.bind(1, run);
  if (!query.executeStep()) return {};
  return {.diff = query.getColumn(0).getString(),
          .is_cut = query.getColumn(1).getInt() != 0,
          .untracked = split(query.getColumn(2).getString(), k_between_git_paths),
          .left_out = split(query.getColumn(3).getString(), k_between_git_paths),
          .by_index = split(query.getColumn(4).getString(), k_between_git_paths),
          .problem = query.getColumn(5).getString()};
}

}  // namespace

std::vector<RunEntry> Record::runs(const RunFilter& filter, std::size_t count_max) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(
        impl_->database,
        "SELECT runs.id, experiments.name, file, folder, arguments, options, revision, revision_dirty, "
        "address, engine, is_simulated, user, machine, program, evaluated_in, prepared_in, began_at, "
        "working_since, "
        "failures_forgiven, coalesce(results, ''), ended_at "
        "FROM runs JOIN experiments ON experiments.number = runs.experiment "
        "WHERE (?1 = '' OR runs.id = ?1) AND (?2 = '' OR experiments.name = ?2) "
        "AND (?3 = '' OR file = ?3) AND (?5 = '' OR address = ?5) "
        "AND (?6 IS NULL OR is_simulated = ?6) ORDER BY runs.number DESC LIMIT ?4");
    query.bind(1, filter.id ? filter.id->text() : "");
    query.bind(2, filter.experiment);
    query.bind(3, filter.file);
    query.bind(4, static_cast<std::int64_t>(count_max));
    query.bind(5, filter.address);
    if (filter.simulated) query.bind(6, *filter.simulated ? 1 : 0);
    std::vector<RunEntry> entries;
    while (query.executeStep()) {
      int column = 0;
      const auto text = [&] { return query.getColumn(column++).getString(); };
      RunEntry entry;
      entry.id = RunId(text());
      entry.experiment = text();
      entry.file = text();
      entry.folder = text();
      entry.arguments = text();
      entry.options = text();
      entry.revision = text();
      entry.revision_dirty = query.getColumn(column++).getInt() != 0;
      entry.engine.address = text();
      entry.engine.description = text();
      entry.engine.is_simulated = query.getColumn(column++).getInt() != 0;
      entry.user = text();
      entry.machine = text();
      entry.program = text();
      entry.evaluated_in = seconds_in(query.getColumn(column++));
      entry.prepared_in = seconds_in(query.getColumn(column++));
      entry.began_at = instant_of(query.getColumn(column++).getInt64());
      entry.working_since = instant_of(query.getColumn(column++).getInt64());
      entry.failures_forgiven = static_cast<std::size_t>(query.getColumn(column++).getInt64());
      entry.results = text();
      const SQLite::Column ended = query.getColumn(column);
      if (!ended.isNull()) entry.ended_at = instant_of(ended.getInt64());
      entries.push_back(std::move(entry));
    }
    return entries;
  });
}

RunEntry Record::run(const RunId& id) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(id);
    RunEntry entry = runs({.id = id}, 1).at(0);
    SQLite::Statement query(
        impl_->database,
        "SELECT source, evaluated, coalesce(imports, ''), coalesce(given_values, '') FROM "
        "texts WHERE run = ? ORDER BY "
        "revision");
    query.bind(1, number);
    while (query.executeStep()) {
      if (!entry.text.evaluated.empty()) entry.earlier.push_back(std::move(entry.text.evaluated));
      entry.text.source = query.getColumn(0).getString();
      entry.text.evaluated = query.getColumn(1).getString();
      entry.text.imports = query.getColumn(2).getString();
      entry.text.values = query.getColumn(3).getString();
    }
    entry.working_tree = working_tree_of(number, impl_->database);
    SQLite::Statement images(impl_->database, "SELECT image, platform, reference FROM images WHERE run = ?");
    images.bind(1, number);
    while (images.executeStep())
      entry.references[{images.getColumn(0).getString(), images.getColumn(1).getString()}] =
          images.getColumn(2).getString();
    SQLite::Statement paths(impl_->database, "SELECT path, target FROM host_paths WHERE run = ?");
    paths.bind(1, number);
    while (paths.executeStep())
      entry.host_paths[paths.getColumn(0).getString()] = paths.getColumn(1).getString();
    return entry;
  });
}

std::vector<TrialEntry> Record::trials(const RunId& run, const std::string& trial) {
  std::vector<TrialEntry> entries;
  if (trial.empty()) entries.reserve(trial_count(run));
  trials(run, trial, Detail::all, [&]() -> TrialEntry& { return entries.emplace_back(); });
  return entries;
}

void Record::trials(const RunId& run, const std::string& trial, Detail detail,
                    const std::function<TrialEntry&()>& next) {
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    std::optional<std::int64_t> only;
    if (!trial.empty()) {
      only = impl_->number_of_trial(number, trial);
      if (!only) return;
    }
    const std::string chosen = only ? " WHERE run = ?1 AND trial = ?2" : " WHERE run = ?1";
    const bool all = detail == Detail::all;
    const std::string trial_details = all ? ", image, digest, params, revision" : "";
    const std::string attempt_details =
        all ? ", container, gpus, outputs_files, outputs_size, outputs_left" : "";
    Rows trials(impl_->database, "SELECT trial, name, over, first_attempt, reason, " +
                                     details_sql("NULL", "reason IS NOT NULL") + trial_details +
                                     " FROM trials" + chosen + " ORDER BY trial");
    // Reads the tables `trials` and `attempts` side by side in the same order. A join would search the
    // attempts of each trial separately, which takes twice as long.
    Rows attempts(
        impl_->database,
        "SELECT trial, attempt, healthy_at, ran_at, ended_at, exit_code, cause, reason, collected_at, "
        "next_ready_at, memory_peak, cpu_time, " +
            details_sql("pause", "(cause IS NOT 'none' OR collected_at = 0)") + attempt_details +
            " FROM attempts" + chosen + " ORDER BY trial, attempt");
    for (Rows* query : {&trials, &attempts}) {
      query->bind(1, number);
      if (only) query->bind(2, *only);
    }
    bool has_attempt = attempts.step();
    while (trials.step()) {
      const std::int64_t index = trials.number(0);
      TrialEntry& entry = next();
      entry.name = trials.text(1);
      const auto first_attempt = trials.number(3);
      entry.attempt = static_cast<int>(first_attempt);
      for (; has_attempt && attempts.number(0) == index; has_attempt = attempts.step()) {
        if (attempts.number(1) < first_attempt) continue;
        set_attempt(entry, attempts);
        if (all) set_details(entry, attempts);
      }
      if (!trials.is_null(2)) entry.state = value_of<TrialState>(trials.text(2), k_trial_state_count);
      if (!trials.is_null(4)) {
        entry.reason = trials.text(4);
        entry.details = details_of(trials.text(5));
      }
      if (!all) continue;
      entry.image = trials.text(6);
      entry.digest = trials.text(7);
      entry.params = trials.text(8);
      entry.revision = static_cast<int>(trials.number(9));
    }
  });
}

std::size_t Record::trial_count(const RunId& run) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(impl_->database, "SELECT coalesce(max(trial) + 1, 0) FROM trials WHERE run = ?");
    query.bind(1, impl_->number_of_run(run));
    query.executeStep();
    return static_cast<std::size_t>(query.getColumn(0).getInt64());
  });
}

TrialCounts Record::counts(const RunId& run) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    TrialCounts counts{};
    // The view `states` derives the states of unfinished trials from their attempts.
    for (const char* sql :
         {"SELECT over, count(*) FROM trials WHERE run = ? AND over IS NOT NULL GROUP BY over",
          "SELECT state, count(*) FROM states WHERE run = ?1 AND trial IN "
          "(SELECT trial FROM trials WHERE run = ?1 AND over IS NULL) GROUP BY state"}) {
      SQLite::Statement query(impl_->database, sql);
      query.bind(1, number);
      while (query.executeStep())
        counts.at(static_cast<std::size_t>(state_of(query.getColumn(0)))) = query.getColumn(1).getUInt();
    }
    return counts;
  });
}

std::vector<AttemptEntry> Record::attempts(const RunId& run, const std::string& trial) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    const std::string chosen = trial.empty() ? "" : " AND trial = ?2";
    Rows trials(impl_->database, "SELECT trial, name, first_attempt, revision FROM trials WHERE run = ?1" +
                                     chosen + " ORDER BY trial");
    // Reads the tables `trials` and `attempts` side by side in the same order, as in Record::trials().
    Rows attempts(impl_->database,
                  "SELECT trial, attempt, ready_at, started_at, ran_at, ended_at, created_in, started_in, "
                  "nullif(collected_at, 0), exit_code, reason, gpus, nano_cpus, memory, " +
                      details_sql("pause", "TRUE") + " FROM attempts WHERE run = ?1" + chosen +
                      " ORDER BY trial, attempt");
    for (Rows* query : {&trials, &attempts}) {
      query->bind(1, number);
      if (!trial.empty()) query->bind(2, impl_->number_of_trial(number, trial).value_or(-1));
    }
    std::vector<AttemptEntry> entries;
    bool has_trial = trials.step();
    while (attempts.step()) {
      while (has_trial && trials.number(0) < attempts.number(0)) has_trial = trials.step();
      const int attempt = static_cast<int>(attempts.number(1));
      const std::string reason(attempts.text(10));
      const std::string_view details = attempts.text(14);
      const bool has_reason = !reason.empty() || !details.empty();
      entries.push_back(
          {.trial = std::string(trials.text(1)),
           .revision = static_cast<int>(trials.number(3)),
           .attempt = attempt,
           .first_attempt = static_cast<int>(trials.number(2)),
           .ready_at = instant_of(attempts.number(2)),
           .started_at = instant_of(attempts.number(3)),
           .created_in = seconds_in(attempts, 6),
           .started_in = seconds_in(attempts, 7),
           .ran_at = instant_in(attempts, 4),
           .ended_at = instant_in(attempts, 5),
           .collected_at = instant_in(attempts, 8),
           .exit_code = attempts.number_if_any(9),
           .reason = has_reason ? reason_text(reason, details_of(details), attempt) : "",
           .gpus = std::string(attempts.text(11)),
           .slots = {.cpus = {attempts.number(12)}, .memory = {attempts.number(13)}, .gpus = {}}});
    }
    return entries;
  });
}

void Record::events(const RunId& run, const std::string& trial,
                    const std::function<bool(const EventEntry&)>& sink) {
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    std::string sql =
        "SELECT at, name, attempt, state, exit_code, cause, events.reason, "
        "CASE state WHEN 'collected' THEN (SELECT outputs_files || ' ' || outputs_size FROM attempts WHERE "
        "attempts.run = events.run AND attempts.trial = events.trial AND attempts.attempt = events.attempt) "
        "END, events.stopper, events.outputs_fault, events.next, pause, events.next_why, "
        "coalesce(attempt, (SELECT max(attempt) FROM attempts WHERE attempts.run = events.run AND "
        "attempts.trial = events.trial)) FROM events "
        "JOIN trials ON trials.run = events.run AND trials.trial = events.trial WHERE events.run = ?1 ";
    const std::optional<std::int64_t> of = impl_->number_of_trial(number, trial);
    if (!trial.empty() && !of) return;
    if (of) sql += "AND events.trial = ?2 ";
    // If several events fall into the same microsecond, the end of an attempt comes before the starts that
    // the end causes. If an attempt starts and ends in the same microsecond, its start comes first.
    sql +=
        "ORDER BY at, CASE state WHEN 'ready' THEN 2 WHEN 'starting' THEN 3 WHEN 'running' THEN 4 "
        "WHEN 'healthy' THEN 5 WHEN 'collected' THEN 1 ELSE (state <> 'ended') * 1.5 + 6 * EXISTS (SELECT 1 "
        "FROM attempts WHERE "
        "attempts.run = events.run AND attempts.trial = events.trial AND attempts.attempt = "
        "coalesce(events.attempt, attempts.attempt) AND coalesce(ran_at, started_at) = at) END";
    SQLite::Statement query(impl_->database, sql);
    query.bind(1, number);
    if (of) query.bind(2, *of);
    while (query.executeStep()) {
      const EventEntry entry{.at = instant_of(query.getColumn(0).getInt64()),
                             .trial = query.getColumn(1).getString(),
                             .attempt = number_in(query.getColumn(2)),
                             .state = query.getColumn(3).getString(),
                             .exit_code = number_in(query.getColumn(4)),
                             .cause = query.getColumn(5).getText(""),
                             .reason = reason_text(query.getColumn(6).getText(""), details_in(query, 8),
                                                   query.getColumn(13).getInt()),
                             .collection = outputs_in(query.getColumn(7))};
      if (!sink(entry)) return;
    }
  });
}

std::vector<DoneEntry> Record::done(const std::string& hash, std::size_t count_max) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement& query = impl_->cache_results.find_done;
    query.reset();
    query.bindNoCopy(1, hash);
    query.bind(2, static_cast<std::int64_t>(count_max));
    std::vector<DoneEntry> entries;
    while (query.executeStep())
      entries.push_back({.run = RunId(query.getColumn(0).getString()),
                         .trial = query.getColumn(1).getString(),
                         .telemetry_run = RunId(query.getColumn(2).getString()),
                         .telemetry_trial = query.getColumn(3).getString(),
                         .attempt = query.getColumn(5).getInt(),
                         .place = query.getColumn(4).getString()});
    query.reset();  // while a statement is open, other processes cannot write
    return entries;
  });
}

std::size_t Record::begun(const RunId& run) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(impl_->database,
                            "SELECT count(*) FROM attempts WHERE run = ? AND ran_at IS NOT NULL");
    query.bind(1, impl_->number_of_run(run));
    query.executeStep();
    return static_cast<std::size_t>(query.getColumn(0).getInt64());
  });
}

std::vector<std::string> Record::inputs(const RunId& run, const std::string& trial) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Statement query(impl_->database,
                            "SELECT coalesce(inputs, '') FROM trials WHERE run = ? AND trial = ?");
    query.bind(1, number);
    query.bind(2, impl_->number_of_trial(number, trial).value_or(-1));
    return query.executeStep() ? split(query.getColumn(0).getString(), k_between_digests)
                               : std::vector<std::string>();
  });
}

std::optional<KnownEntry> Record::known(const RunId& run, const std::string& trial) {
  return database::guarded(impl_->path, [&]() -> std::optional<KnownEntry> {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Statement query(impl_->database,
                            "SELECT hash, parts, equal_run, coalesce(equal_trial, '') "
                            "FROM recollections WHERE run = ? AND trial = ?");
    query.bind(1, number);
    query.bind(2, impl_->number_of_trial(number, trial).value_or(-1));
    if (!query.executeStep()) return std::nullopt;
    return KnownEntry{.run = run,
                      .trial = trial,
                      .hash = query.getColumn(0).getString(),
                      .parts = query.getColumn(1).getString(),
                      .equal_run = run_id_in(query.getColumn(2)),
                      .equal_trial = query.getColumn(3).getString()};
  });
}

std::vector<KnownEntry> Record::known_before(const RunId& run, const std::string& trial,
                                             std::size_t count_max) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(
        impl_->database,
        "WITH ours AS (SELECT number, experiment FROM runs WHERE id = ?1) "
        "SELECT runs.id, name, hash, parts FROM recollections JOIN trials USING (run, trial) "
        "JOIN runs ON runs.number = run, ours "
        "WHERE run < ours.number AND over IN ('succeeded', 'skipped') "
        "ORDER BY runs.experiment = ours.experiment DESC, name = ?2 DESC, run DESC, trial LIMIT ?3");
    query.bind(1, run.text());
    query.bind(2, trial);
    query.bind(3, static_cast<std::int64_t>(count_max));
    std::vector<KnownEntry> entries;
    while (query.executeStep())
      entries.push_back({.run = RunId(query.getColumn(0).getString()),
                         .trial = query.getColumn(1).getString(),
                         .hash = query.getColumn(2).getString(),
                         .parts = query.getColumn(3).getString(),
                         .equal_run = {},
                         .equal_trial = {}});
    return entries;
  });
}

std::vector<RestoredTrial> Record::restored_trials(const RunId& run) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    std::vector<RestoredTrial> all;
    SQLite::Statement states(
        impl_->database,
        "SELECT state, attempt, cause, exit_code, states.reason, states.root, anew, over_at, states.stopper, "
        "states.outputs_fault, states.next, pause, states.next_why FROM states "
        "JOIN trials USING (run, trial) WHERE run = ? ORDER BY trial");
    states.bind(1, number);
    while (states.executeStep()) {
      all.push_back({.state = state_of(states.getColumn(0)),
                     .attempt = states.getColumn(1).getInt(),
                     .cause = cause_of(states.getColumn(2)),
                     .exit_code = number_in(states.getColumn(3)),
                     .reason = states.getColumn(4).getString(),
                     .details = details_in(states, 8),
                     .over_at = instant_in(states.getColumn(7)),
                     .anew = states.getColumn(6).getInt() != 0});
      const SQLite::Column root = states.getColumn(5);
      if (!root.isNull()) all.back().root = static_cast<TrialIndex>(root.getInt64());
    }
    SQLite::Statement attempts(impl_->database,
                               "SELECT trial, attempt, ran_at, healthy_at, ended_at, cause, doom, "
                               "coalesce(next_memory, 0), leaving, "
                               "nano_cpus, memory, gpus FROM attempts "
                               "JOIN trials USING (run, trial) "
                               "WHERE run = ? AND attempt >= first_attempt ORDER BY trial, attempt");
    attempts.bind(1, number);
    while (attempts.executeStep()) {
      RestoredTrial& restored = all.at(static_cast<std::size_t>(attempts.getColumn(0).getInt64()));
      const bool is_last = attempts.getColumn(1).getInt() == restored.attempt;
      if (!attempts.getColumn(2).isNull()) {
        restored.was_started = true;
        if (is_last) restored.ran_at = instant_in(attempts.getColumn(2));
      }
      if (is_last) restored.stop_cause = cause_of(attempts.getColumn(6));
      restored.was_healthy |= !attempts.getColumn(3).isNull();
      if (is_last) restored.memory = Bytes{attempts.getColumn(7).getInt64()};
      if (is_last && attempts.getColumn(4).isNull()) {
        restored.departure = value_of<Departure>(attempts.getColumn(8).getText("no"), k_departure_count);
        restored.slots = {.cpus = {attempts.getColumn(9).getInt64()},
                          .memory = {attempts.getColumn(10).getInt64()},
                          .gpus = split(attempts.getColumn(11).getText(""))};
      }
      if (!is_last && !attempts.getColumn(4).isNull())
        restored.earlier.push_back(cause_of(attempts.getColumn(5)));
    }
    return all;
  });
}

}  // namespace combu
