#include "combu/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

#include "record/schema.hpp"

namespace combu {
namespace {

using database::Rows;
using database::Sql;
using std::chrono::microseconds;

std::int64_t number_of(Instant at) {
  return std::chrono::duration_cast<microseconds>(at.time_since_epoch()).count();
}
Instant instant_of(std::int64_t number) {
  return Instant(std::chrono::duration_cast<Instant::duration>(microseconds(number)));
}

// The value that has this word.
template <class Enum>
Enum value_of(std::string_view word, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    if (to_string(static_cast<Enum>(i)) == word) return static_cast<Enum>(i);
  throw Error(ErrorKind::corrupt, "", fmt::format("holds a word that this combu does not know: {}", word));
}
TrialState state_of(const SQLite::Column& column) {
  return value_of<TrialState>(column.getText(), k_trial_state_count);
}
Cause cause_of(const SQLite::Column& column) {
  return value_of<Cause>(column.getText("none"), k_cause_count);
}
// "12 34567": files, and their size.
std::optional<Taken> taken_in(const SQLite::Column& column) {
  if (column.isNull()) return std::nullopt;
  Taken taken;
  std::istringstream(column.getString()) >> taken.files >> taken.size.count;
  return taken;
}
std::optional<int> number_in(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(column.getInt());
}

std::int64_t number_of(Seconds time) {
  return std::chrono::duration_cast<microseconds>(time).count();
}
std::optional<Seconds> seconds_in(const SQLite::Column& column) {
  return column.isNull() ? std::nullopt : std::optional(Seconds(microseconds(column.getInt64())));
}
std::optional<std::int64_t> number_of(const std::optional<Seconds>& time) {
  return time ? std::optional(number_of(*time)) : std::nullopt;
}

// Paths as git writes them have none in them.
constexpr std::string_view k_between_git_paths = "\n";
constexpr std::string_view k_between_digests = "\n";

std::string joined_digests(const std::vector<std::string>& digests) {
  return fmt::format("{}", fmt::join(digests, k_between_digests));
}

// "0,1": two of them.
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

std::optional<Instant> instant_in(const Rows& row, int column) {
  const auto number = row.number_if_any(column);
  return number ? std::optional(instant_of(*number)) : std::nullopt;
}

// As `states` has it, from an attempt's row.
void take_attempt(TrialEntry& entry, const Rows& row) {
  entry.attempt = static_cast<int>(row.number(1));
  entry.healthy = !row.is_null(2);
  entry.ran_at = instant_in(row, 3);
  entry.ended_at = instant_in(row, 4);
  entry.exit_code = row.number_if_any(5);
  entry.cause = row.is_null(6) ? Cause::none : value_of<Cause>(row.text(6), k_cause_count);
  entry.reason = row.text(7);
  const bool is_collecting = row.number_if_any(8) == 0;
  const bool is_ready = !row.is_null(9);
  if (is_ready)
    entry.reason = fmt::format("{}; attempt {} waits to be started",
                               entry.reason.substr(0, entry.reason.find("; attempt ")), entry.attempt + 1);
  entry.state = is_collecting    ? TrialState::collecting
                : is_ready       ? TrialState::ready
                : entry.ended_at ? TrialState::retrying
                : entry.ran_at   ? TrialState::running
                                 : TrialState::starting;
}

constexpr std::string_view k_between_paths = "//";  // which no path of outputs holds

void take_details(TrialEntry& entry, const Rows& row) {
  entry.container = row.text(10);
  entry.gpus = row.text(11);
  entry.usage.reset();
  if (const auto cpu = row.number_if_any(13))
    entry.usage = Usage{.memory = Bytes{row.number(12)}, .cpu = microseconds(*cpu)};
  entry.taken.reset();
  if (!row.is_null(14))
    entry.taken = Taken{.files = static_cast<std::size_t>(row.number(14)),
                        .size = Bytes{row.number(15)},
                        .left = split(row.text(16), k_between_paths)};
}

std::optional<std::string> digest_of(const Digests& digests, const Trial& trial) {
  const auto at = digests.find({trial.image, trial.platform});
  return at == digests.end() ? std::nullopt : std::optional(at->second);
}

std::string path_in(const std::string& folder) {
  return folder + "/record.sqlite";
}

int number_in(SQLite::Database& database, const char* pragma) {
  return database.execAndGet(fmt::format("PRAGMA {}", pragma)).getInt();
}

// Writes the database anew where a quarter of it or more is free. Whether that can be done just now is of no
// matter: somebody else may be using it, or the disk be full.
void give_room_back(SQLite::Database& database) {
  constexpr int k_free_share = 4;
  const int patience_ms = number_in(database, "busy_timeout");
  try {
    if (number_in(database, "freelist_count") * k_free_share < number_in(database, "page_count")) return;
    database.setBusyTimeout(0);
    // What is vacuumed is in the log until that is written into the file.
    database.exec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const SQLite::Exception&) {
  }
  database.setBusyTimeout(patience_ms);
}

std::string made_folder(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ErrorKind::refused, folder,
                fmt::format("cannot be made: {}; COMBU_HOME names another folder", failed.message()));
  return folder;
}

}  // namespace

struct Record::Impl {
  Impl(const std::string& folder, Use use) : path(path_in(made_folder(folder))), database(open(path, use)) {}

  static SQLite::Database open(const std::string& path, Use use) {
    return use == Use::reading ? database::open_to_read(path, record::schema())
                               : database::open(path, record::schema());
  }

  // SQLite's, of its patience: 0 when that is over.
  static int wait(void* self, int tries) {
    auto& impl = *static_cast<Impl*>(self);
    constexpr std::chrono::milliseconds k_pause{20};
    constexpr int k_told_after = 100;
    if (tries == k_told_after && impl.tell_wait) impl.tell_wait();
    if (tries * k_pause >= database::k_patience) return 0;
    std::this_thread::sleep_for(k_pause);
    return 1;
  }

  // The run's row.
  std::int64_t number_of_run(const RunId& run) {
    if (last && last->first == run) return last->second;
    SQLite::Statement query(database, "SELECT number FROM runs WHERE id = ?");
    query.bind(1, run.text());
    if (!query.executeStep())
      throw Error(ErrorKind::not_found, "run " + run.text(), fmt::format("is not in the record {}", path));
    last.emplace(run, query.getColumn(0).getInt64());
    return last->second;
  }

  std::size_t count_of_trials(std::int64_t run) {
    SQLite::Statement query(database, "SELECT coalesce(max(trial) + 1, 0) FROM trials WHERE run = ?");
    query.bind(1, run);
    query.executeStep();
    return static_cast<std::size_t>(query.getColumn(0).getInt64());
  }

  // nullopt: there is none of this name.
  std::optional<std::int64_t> number_of_trial(std::int64_t run, const std::string& name) {
    SQLite::Statement query(database, "SELECT trial FROM trials WHERE run = ? AND name = ?");
    query.bind(1, run);
    query.bind(2, name);
    return query.executeStep() ? std::optional(query.getColumn(0).getInt64()) : std::nullopt;
  }

  std::int64_t number_of_experiment(const std::string& name) {
    SQLite::Statement add(database, "INSERT OR IGNORE INTO experiments (name) VALUES (?)");
    add.bind(1, name);
    add.exec();
    SQLite::Statement query(database, "SELECT number FROM experiments WHERE name = ?");
    query.bind(1, name);
    query.executeStep();
    return query.getColumn(0).getInt64();
  }

  // The last moment that is on record of a run.
  std::int64_t latest_of(std::int64_t run) {
    SQLite::Statement query(
        database,
        "SELECT max(working_since, coalesce((SELECT max(over_at) FROM trials WHERE run = ?1), 0), coalesce("
        "(SELECT max(max(started_at, coalesce(ran_at, 0), coalesce(healthy_at, 0), coalesce(ended_at, 0), "
        "coalesce(collected_at, 0))) "
        "FROM attempts WHERE run = ?1), 0)) FROM runs WHERE number = ?1");
    query.bind(1, run);
    query.executeStep();
    return query.getColumn(0).getInt64();
  }

  // What is added to the times of a run's facts from here on, so that they follow what is on record also
  // when the machine's clock was set back between two processes.
  std::int64_t delay_of(std::int64_t run, Instant first) {
    if (!delayed || delayed->first != run)
      delayed.emplace(run, std::max<std::int64_t>(0, latest_of(run) - number_of(first)));
    return delayed->second;
  }

  Stamp stamp(std::int64_t run) {
    SQLite::Statement query(database,
                            "SELECT working_since, (SELECT count(over) FROM trials WHERE run = ?1), "
                            "(SELECT count(*) + count(ran_at) + count(ended_at) + "
                            "count(nullif(collected_at, 0)) + count(leaving) FROM attempts WHERE run = ?1) "
                            "FROM runs WHERE number = ?1");
    query.bind(1, run);
    query.executeStep();
    return {query.getColumn(0).getInt64(), query.getColumn(1).getInt64(), query.getColumn(2).getInt64()};
  }

  void write(std::int64_t run, std::span<const Fact> facts) {
    const std::int64_t delay = facts.empty() ? 0 : delay_of(run, facts.front().at);
    for (const Fact& fact : facts) write(run, delay, fact);
  }

  void write(std::int64_t run, std::int64_t delay, const Fact& fact) {
    const auto trial = static_cast<std::int64_t>(fact.trial);
    const std::int64_t at = number_of(fact.at) + delay;
    if (tells_of_stop(fact)) {
      set_doom(to_string(fact.cause), run, trial, fact.attempt);
    } else if (fact.state == TrialState::ready) {
      take_back(run, trial, fact.attempt);
      set_next(number_of(fact.ready_at) + delay, fact.slots.memory.count, run, trial, fact.attempt - 1);
    } else if (fact.state == TrialState::starting) {
      add_attempt(run, trial, fact.attempt, fact.slots.cpus.nano, fact.slots.memory.count,
                  fmt::format("{}", fmt::join(fact.slots.gpus, ",")), number_of(fact.ready_at) + delay, at);
    } else if (fact.healthy) {
      set_healthy(at, run, trial, fact.attempt);
    } else if (fact.state == TrialState::running) {
      set_ran(at, fact.id, run, trial, fact.attempt);
    } else if (is_over(fact.state) || fact.state == TrialState::retrying ||
               fact.state == TrialState::collecting) {
      set_collected(at, to_string(fact.cause), fact.reason, run, trial, fact.attempt);
      set_ended(at, fact.exit_code, to_string(fact.cause), fact.reason, run, trial, fact.attempt);
      if (fact.usage)
        set_usage(fact.usage->memory.count, number_of(fact.usage->cpu), run, trial, fact.attempt);
      if (fact.state == TrialState::collecting) set_collecting(fact.reason, run, trial, fact.attempt);
      if (fact.state == TrialState::retrying) begin_anew(run, trial, fact.attempt);
    }
    if (!is_over(fact.state)) return;
    std::optional<std::int64_t> root;
    if (fact.root) root = static_cast<std::int64_t>(*fact.root);
    std::optional<std::string> reason;
    if (!fact.reason.empty()) reason = fact.reason;
    set_over(to_string(fact.state), at, reason, root, run, trial);
  }

  void write(std::int64_t run, const Recollection& one) {
    const auto trial = static_cast<std::int64_t>(one.trial);
    if (!one.hash.empty()) add_recollection(run, trial, one.hash, one.parts, one.run, one.name);
    write_inputs(run, trial, one.inputs);
  }

  // What has changed since it was looked for is not what anybody may find it by.
  void forget_unless_as_known(std::int64_t run, std::int64_t trial, const Started& started) {
    if (!started.digest.empty()) forget_of_other_image(run, trial, started.digest);
    if (!started.inputs.empty()) forget_of_other_inputs(run, trial, joined_digests(started.inputs));
  }

  void write_inputs(std::int64_t run, std::int64_t trial, const std::vector<std::string>& digests) {
    if (!digests.empty()) set_inputs(joined_digests(digests), run, trial);
  }

  void write(std::int64_t run, const WorkingTree& tree) {
    if (tree.diff.empty() && tree.untracked.empty() && tree.left_out.empty()) return;
    Sql{database,
        "INSERT INTO working_trees (run, diff, is_cut, untracked, left_out) VALUES (?, ?, ?, ?, ?)"}(
        run, tree.diff, tree.is_cut ? 1 : 0,
        fmt::format("{}", fmt::join(tree.untracked, k_between_git_paths)),
        fmt::format("{}", fmt::join(tree.left_out, k_between_git_paths)));
  }

  void write(std::int64_t run, const Digests& references) {
    for (const auto& [image, reference] : references) add_image(run, image.first, image.second, reference);
  }

  void read_working_tree(std::int64_t run, WorkingTree& tree) {
    SQLite::Statement query(database,
                            "SELECT diff, is_cut, untracked, left_out FROM working_trees WHERE run = ?");
    query.bind(1, run);
    if (!query.executeStep()) return;
    tree = {.diff = query.getColumn(0).getString(),
            .is_cut = query.getColumn(1).getInt() != 0,
            .untracked = split(query.getColumn(2).getString(), k_between_git_paths),
            .left_out = split(query.getColumn(3).getString(), k_between_git_paths)};
  }

  void reopen(std::int64_t run, std::span<const TrialIndex> trials, Instant at) {
    Sql again{
        database,
        "UPDATE trials SET over = NULL, over_at = NULL, reason = NULL, root = NULL, first_attempt = "
        "(SELECT coalesce(max(attempt), 0) + 1 FROM attempts "
        "WHERE attempts.run = trials.run AND attempts.trial = trials.trial) WHERE run = ? AND trial = ?"};
    for (const TrialIndex trial : trials) again(run, static_cast<std::int64_t>(trial));
    Sql{database,
        "UPDATE runs SET ended_at = NULL, working_since = ?1, failures_forgiven = "
        "(SELECT count(*) FROM trials WHERE trials.run = ?2 AND over = 'failed') WHERE number = ?2"}(
        number_of(at), run);
  }

  const std::string path;
  SQLite::Database database;
  std::function<void()> tell_wait;
  std::optional<std::pair<RunId, std::int64_t>> last;
  std::optional<std::pair<std::int64_t, std::int64_t>> delayed;  // the run of this number
  // One that is looked for again is known by what it is now.
  Sql add_recollection{database,
                       "INSERT OR REPLACE INTO recollections (run, trial, hash, parts, equal_run, "
                       "equal_trial) VALUES (?, ?, ?, ?, nullif(?, ''), nullif(?, ''))"};
  Sql forget_of_other_image{database,
                            "DELETE FROM recollections WHERE run = ? AND trial = ? AND "
                            "json_extract(parts, '$.image') <> ?"};
  Sql forget_of_other_inputs{database,
                             "DELETE FROM recollections WHERE run = ?1 AND trial = ?2 AND "
                             "json_extract(parts, '$.inputs') IS NOT NULL AND EXISTS (SELECT 1 "
                             "FROM trials WHERE run = ?1 AND trial = ?2 AND inputs <> ?3)"};
  Sql set_inputs{database, "UPDATE trials SET inputs = ? WHERE run = ? AND trial = ?"};
  Sql add_image{database,
                "INSERT OR REPLACE INTO images (run, image, platform, reference) VALUES (?, ?, ?, ?)"};
  SQLite::Statement find_done{database,
                              "SELECT coalesce(equal_run, runs.id), coalesce(equal_trial, name), "
                              "runs.id, name, coalesce(results || '/' || name, ''), "
                              "CASE over WHEN 'skipped' THEN 0 ELSE (SELECT max(attempt) FROM attempts "
                              "WHERE attempts.run = trials.run AND attempts.trial = trials.trial) END "
                              "FROM recollections JOIN trials USING (run, trial) JOIN runs ON runs.number = "
                              "run WHERE hash = ? AND over IN ('succeeded', 'skipped') "
                              "ORDER BY run DESC, trial LIMIT ?"};
  Sql add_text{database, "INSERT INTO texts (run, revision, source, evaluated) VALUES (?, ?, ?, ?)"};
  Sql add_trial{database,
                "INSERT INTO trials (run, trial, revision, name, image, digest, params) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)"};
  // One that is started again after its process has died keeps when it was started first.
  Sql add_attempt{database,
                  "INSERT OR IGNORE INTO attempts (run, trial, attempt, nano_cpus, memory, gpus, ready_at, "
                  "started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"};
  // What was being started when its process died has not got to the engine.
  Sql take_back{database,
                "DELETE FROM attempts WHERE run = ? AND trial = ? AND attempt = ? AND ran_at IS NULL"};
  Sql set_next{database,
               "UPDATE attempts SET next_ready_at = ?, next_memory = ? "
               "WHERE run = ? AND trial = ? AND attempt = ?"};
  // What nobody watched may have taken place by a clock that was set back.
  Sql set_ran{database,
              "UPDATE attempts SET ran_at = max(?, started_at), container = ? "
              "WHERE run = ? AND trial = ? AND attempt = ? "
              "AND ended_at IS NULL"};
  Sql set_times{
      database,
      "UPDATE attempts SET created_in = ?, started_in = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  Sql set_healthy{database, "UPDATE attempts SET healthy_at = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  // Of one that is blocked there may be none, or one that has ended before.
  Sql set_ended{database,
                "UPDATE attempts SET ended_at = max(?, started_at, coalesce(ran_at, 0)), exit_code = ?, "
                "cause = ?, reason = ? "
                "WHERE run = ? AND trial = ? AND attempt = ? AND ended_at IS NULL"};
  Sql set_doom{database, "UPDATE attempts SET doom = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  Sql set_collecting{
      database,
      "UPDATE attempts SET collected_at = 0, reason = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  // What became of it is known now.
  Sql set_collected{database,
                    "UPDATE attempts SET collected_at = max(?, ended_at), cause = ?, reason = ? "
                    "WHERE run = ? AND trial = ? AND attempt = ? AND collected_at = 0"};
  // What was spent before the file was edited is forgotten.
  Sql begin_anew{
      database,
      "UPDATE trials SET first_attempt = ?3 + 1 WHERE run = ?1 AND trial = ?2 AND EXISTS (SELECT 1 "
      "FROM attempts WHERE run = ?1 AND trial = ?2 AND attempt = ?3 AND leaving = 'replaced')"};
  Sql set_usage{
      database,
      "UPDATE attempts SET memory_peak = ?, cpu_time = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  Sql set_taken{database,
                "UPDATE attempts SET outputs_files = ?, outputs_size = ?, outputs_left = ? "
                "WHERE run = ? AND trial = ? AND attempt = ?"};
  Sql set_over{database,
               "UPDATE trials SET over = ?1, over_at = max(?2, coalesce((SELECT max(max(ended_at, "
               "coalesce(collected_at, 0))) FROM attempts WHERE run = ?5 AND trial = ?6), 0)), reason = ?3, "
               "root = ?4 WHERE run = ?5 AND trial = ?6"};
};

bool Record::exists(const std::string& folder) {
  std::error_code unreadable;
  return std::filesystem::exists(path_in(folder), unreadable);
}

Record::Record(const std::string& folder, Use use)
    : impl_(database::guarded(path_in(folder), [&] { return std::make_unique<Impl>(folder, use); })) {}
Record::~Record() = default;

void Record::on_wait(std::function<void()> tell) {
  impl_->tell_wait = std::move(tell);
  sqlite3_busy_handler(impl_->database.getHandle(), &Impl::wait, impl_.get());
}

void Record::begin(const RunEntry& entry, const Experiment& experiment) {
  database::guarded(impl_->path, [&] {
    SQLite::Database& database = impl_->database;
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    if (!runs({.id = entry.id}, 1).empty())
      throw Error(ErrorKind::conflict, "run " + entry.id.text(),
                  "is on record already; choose another --run-id, or go on with it by `run --resume`");
    Sql{database,
        "INSERT INTO runs (id, experiment, file, folder, arguments, options, revision, revision_dirty, "
        "address, engine, user, machine, program, evaluated_in, prepared_in, began_at, working_since, "
        "results) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"}(
        entry.id.text(), impl_->number_of_experiment(entry.experiment), entry.file, entry.folder,
        entry.arguments, entry.options, entry.revision, entry.revision_dirty ? 1 : 0, entry.address,
        entry.engine, entry.user, entry.machine, entry.program, number_of(entry.evaluated_in),
        number_of(entry.prepared_in), number_of(entry.began_at), number_of(entry.began_at), entry.results);
    const std::int64_t run = database.getLastInsertRowid();
    impl_->add_text(run, 1, entry.source, entry.evaluated);
    impl_->write(run, entry.working_tree);
    impl_->write(run, entry.references);
    std::int64_t number = 0;
    for (const Trial& trial : experiment.trials)
      impl_->add_trial(run, number++, 1, trial.name, trial.image, digest_of(entry.digests, trial),
                       trial.params);
    transaction.commit();
  });
}

void Record::append(const RunId& run, std::span<const Fact> facts, std::span<const Started> started,
                    std::span<const CameHome> homes, std::span<const Recollection> recollections) {
  if (facts.empty() && started.empty() && homes.empty() && recollections.empty()) return;
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    for (const Recollection& one : recollections) impl_->write(number, one);
    impl_->write(number, facts);
    for (const Started& one : started) {
      const auto trial = static_cast<std::int64_t>(one.trial);
      impl_->set_times(number_of(one.created_in), number_of(one.started_in), number, trial, one.attempt);
      impl_->forget_unless_as_known(number, trial, one);
      impl_->write_inputs(number, trial, one.inputs);
    }
    for (const CameHome& one : homes)
      impl_->set_taken(static_cast<std::int64_t>(one.taken.files), one.taken.size.count,
                       fmt::format("{}", fmt::join(one.taken.left, k_between_paths)), number,
                       static_cast<std::int64_t>(one.trial), one.attempt);
    transaction.commit();
  });
}

Record::Stamp Record::stamp(const RunId& run) {
  return database::guarded(impl_->path, [&] { return impl_->stamp(impl_->number_of_run(run)); });
}

bool Record::append_unwatched(const RunId& run, std::span<const Fact> facts, const Stamp& stamp) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    if (impl_->stamp(number) != stamp) return false;
    for (const Fact& fact : facts) impl_->write(number, 0, fact);
    Sql{impl_->database,
        "UPDATE runs SET ended_at = max(working_since, (SELECT max(over_at) FROM trials WHERE run = ?1)) "
        "WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM trials WHERE run = ?1 AND over IS NULL)"}(number);
    transaction.commit();
    return true;
  });
}

void Record::end(const RunId& run, Instant at) {
  database::guarded(impl_->path, [&] {
    Sql{impl_->database,
        "UPDATE runs SET ended_at = max(?1, working_since, "
        "coalesce((SELECT max(over_at) FROM trials WHERE run = ?2), 0)) WHERE number = ?2"}(
        number_of(at), impl_->number_of_run(run));
  });
}

void Record::set_options(const RunId& run, const std::string& options) {
  database::guarded(impl_->path, [&] {
    Sql{impl_->database, "UPDATE runs SET options = ? WHERE number = ?"}(options, impl_->number_of_run(run));
  });
}

void Record::reopen(const RunId& run, std::span<const TrialIndex> trials, Instant at) {
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    Sql anew{impl_->database, "UPDATE trials SET anew = over <> 'blocked' WHERE run = ? AND trial = ?"};
    for (const TrialIndex trial : trials) anew(number, static_cast<std::int64_t>(trial));
    impl_->reopen(number, trials, at);
    transaction.commit();
  });
}

void Record::revise(const RunId& run, const Edition& edition, const Experiment& experiment,
                    const std::function<void()>& may) {
  database::guarded(impl_->path, [&] {
    SQLite::Database& database = impl_->database;
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    may();
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Statement query(
        database,
        "SELECT (SELECT max(revision) FROM texts WHERE run = ?1) + 1, "
        "(SELECT count(*) FROM trials WHERE run = ?1), ended_at FROM runs WHERE number = ?1");
    query.bind(1, number);
    query.executeStep();
    const int next = query.getColumn(0).getInt();
    const auto known = static_cast<std::size_t>(query.getColumn(1).getInt64());
    const bool has_ended = !query.getColumn(2).isNull();
    impl_->write(number, edition.ends);
    impl_->add_text(number, next, edition.source, edition.evaluated);
    impl_->write(number, edition.references);
    for (std::size_t trial = known; trial < experiment.trials.size(); ++trial) {
      const Trial& it = experiment.trials[trial];
      impl_->add_trial(number, static_cast<std::int64_t>(trial), next, it.name, it.image,
                       digest_of(edition.digests, it), it.params);
    }
    Sql take{database,
             "UPDATE trials SET revision = ?, image = ?, digest = ?, params = ?, anew = 0 "
             "WHERE run = ? AND trial = ?"};
    for (const TrialIndex trial : edition.taken) {
      const Trial& it = experiment.trials[trial];
      take(next, it.image, digest_of(edition.digests, it), it.params, number,
           static_cast<std::int64_t>(trial));
    }
    Sql leave{database,
              "UPDATE attempts SET leaving = ?1 WHERE run = ?2 AND trial = ?3 AND attempt = "
              "(SELECT max(attempt) FROM attempts WHERE run = ?2 AND trial = ?3)"};
    bool any_again = !edition.again.empty();
    for (const auto& [trial, leaving] : edition.leaving) {
      leave(to_string(leaving), number, static_cast<std::int64_t>(trial));
      any_again |= leaving == Leaving::replaced;
    }
    if (any_again || (has_ended && known < experiment.trials.size()))
      impl_->reopen(number, edition.again, edition.at);
    transaction.commit();
  });
}

void Record::kill(const RunId& run, Instant at) {
  database::guarded(impl_->path, [&] {
    SQLite::Database& database = impl_->database;
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    const std::int64_t number = impl_->number_of_run(run);
    // The machine's clock may have been set back.
    const std::int64_t now = std::max(number_of(at), impl_->latest_of(number));
    Sql{database,
        // An attempt that had ended already keeps its own reason.
        "UPDATE trials SET over = 'failed', over_at = ?, reason = coalesce((SELECT CASE WHEN collected_at = "
        "0 "
        "THEN 'removed by kill before its outputs were taken home' WHEN ended_at IS NOT NULL THEN "
        "substr(reason, 1, instr(reason || ';', ';') - 1) END FROM attempts WHERE attempts.run = "
        "trials.run AND attempts.trial = trials.trial "
        "ORDER BY attempt DESC LIMIT 1), 'removed by kill') WHERE run = ? AND over "
        "IS NULL AND trial IN (SELECT trial FROM attempts WHERE attempts.run = trials.run)"}(now, number);
    Sql{database,
        "UPDATE trials SET over = 'blocked', over_at = ?, reason = 'not started: the run was killed' "
        "WHERE run = ? AND over IS NULL"}(now, number);
    Sql{database,
        "UPDATE attempts SET ended_at = ?, cause = 'stopped', reason = 'removed by kill' "
        "WHERE run = ? AND ended_at IS NULL"}(now, number);
    Sql{database, "UPDATE attempts SET collected_at = NULL WHERE run = ? AND collected_at = 0"}(number);
    Sql{database, "UPDATE runs SET ended_at = ? WHERE number = ?"}(now, number);
    transaction.commit();
  });
}

void Record::remove(std::span<const RunId> runs) {
  database::guarded(impl_->path, [&] {
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    for (const RunId& run : runs) {
      const std::int64_t number = impl_->number_of_run(run);
      for (const char* sql : {"DELETE FROM attempts WHERE run = ?", "DELETE FROM trials WHERE run = ?",
                              "DELETE FROM texts WHERE run = ?", "DELETE FROM working_trees WHERE run = ?",
                              "DELETE FROM images WHERE run = ?", "DELETE FROM recollections WHERE run = ?",
                              "DELETE FROM runs WHERE number = ?"})
        Sql{impl_->database, sql}(number);
      impl_->last.reset();
      impl_->delayed.reset();
    }
    impl_->database.exec("DELETE FROM experiments WHERE number NOT IN (SELECT experiment FROM runs)");
    transaction.commit();
    give_room_back(impl_->database);
  });
}

std::vector<RunEntry> Record::runs(const RunFilter& filter, std::size_t count_max) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement query(
        impl_->database,
        "SELECT runs.id, experiments.name, file, folder, arguments, options, revision, revision_dirty, "
        "address, engine, user, machine, program, evaluated_in, prepared_in, began_at, working_since, "
        "failures_forgiven, coalesce(results, ''), ended_at "
        "FROM runs JOIN experiments ON experiments.number = runs.experiment "
        "WHERE (?1 = '' OR runs.id = ?1) AND (?2 = '' OR experiments.name = ?2) "
        "AND (?3 = '' OR file = ?3) AND (?5 = '' OR address = ?5) ORDER BY runs.number DESC LIMIT ?4");
    query.bind(1, filter.id ? filter.id->text() : "");
    query.bind(2, filter.experiment);
    query.bind(3, filter.file);
    query.bind(4, static_cast<std::int64_t>(count_max));
    query.bind(5, filter.address);
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
      entry.address = text();
      entry.engine = text();
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
    SQLite::Statement query(impl_->database,
                            "SELECT source, evaluated FROM texts WHERE run = ? ORDER BY revision");
    query.bind(1, number);
    while (query.executeStep()) {
      if (!entry.evaluated.empty()) entry.earlier.push_back(std::move(entry.evaluated));
      entry.source = query.getColumn(0).getString();
      entry.evaluated = query.getColumn(1).getString();
    }
    impl_->read_working_tree(number, entry.working_tree);
    SQLite::Statement images(impl_->database, "SELECT image, platform, reference FROM images WHERE run = ?");
    images.bind(1, number);
    while (images.executeStep())
      entry.references[{images.getColumn(0).getString(), images.getColumn(1).getString()}] =
          images.getColumn(2).getString();
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
    if (!trial.empty() && !(only = impl_->number_of_trial(number, trial))) return;
    const std::string chosen = only ? " WHERE run = ?1 AND trial = ?2" : " WHERE run = ?1";
    const bool all = detail == Detail::all;
    const std::string trial_details = all ? ", image, digest, params, revision" : "";
    const std::string attempt_details =
        all ? ", container, gpus, memory_peak, cpu_time, outputs_files, outputs_size, outputs_left" : "";
    Rows trials(impl_->database, "SELECT trial, name, over, first_attempt, reason" + trial_details +
                                     " FROM trials" + chosen + " ORDER BY trial");
    // Beside the other in the same order: a join looks for each trial anew, which takes twice as long.
    Rows attempts(
        impl_->database,
        "SELECT trial, attempt, healthy_at, ran_at, ended_at, exit_code, cause, reason, collected_at, "
        "next_ready_at" +
            attempt_details + " FROM attempts" + chosen + " ORDER BY trial, attempt");
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
        take_attempt(entry, attempts);
        if (all) take_details(entry, attempts);
      }
      if (!trials.is_null(2)) entry.state = value_of<TrialState>(trials.text(2), k_trial_state_count);
      if (!trials.is_null(4)) entry.reason = trials.text(4);
      if (!all) continue;
      entry.image = trials.text(5);
      entry.digest = trials.text(6);
      entry.params = trials.text(7);
      entry.revision = static_cast<int>(trials.number(8));
    }
  });
}

std::size_t Record::trial_count(const RunId& run) {
  return database::guarded(impl_->path, [&] { return impl_->count_of_trials(impl_->number_of_run(run)); });
}

TrialCounts Record::counts(const RunId& run) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    TrialCounts counts{};
    // Those that are not over have to be looked for among the attempts.
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
    SQLite::Statement query(
        impl_->database,
        "SELECT name, attempt, ready_at, started_at, ran_at, ended_at, created_in, "
        "started_in, first_attempt, nullif(collected_at, 0), exit_code, attempts.reason, gpus, nano_cpus, "
        "memory FROM attempts JOIN trials USING (run, trial) "
        "WHERE run = ?1" +
            chosen + " ORDER BY trial, attempt");
    query.bind(1, number);
    if (!trial.empty()) query.bind(2, impl_->number_of_trial(number, trial).value_or(-1));
    std::vector<AttemptEntry> entries;
    while (query.executeStep()) {
      entries.push_back({.trial = query.getColumn(0).getString(),
                         .attempt = query.getColumn(1).getInt(),
                         .first_attempt = query.getColumn(8).getInt(),
                         .ready_at = instant_of(query.getColumn(2).getInt64()),
                         .started_at = instant_of(query.getColumn(3).getInt64()),
                         .created_in = seconds_in(query.getColumn(6)),
                         .started_in = seconds_in(query.getColumn(7)),
                         .ran_at = instant_in(query.getColumn(4)),
                         .ended_at = instant_in(query.getColumn(5)),
                         .collected_at = instant_in(query.getColumn(9)),
                         .exit_code = number_in(query.getColumn(10)),
                         .reason = query.getColumn(11).getText(""),
                         .gpus = query.getColumn(12).getText(""),
                         .slots = {.cpus = {query.getColumn(13).getInt64()},
                                   .memory = {query.getColumn(14).getInt64()},
                                   .gpus = {}}});
    }
    return entries;
  });
}

void Record::events(const RunId& run, const std::string& trial,
                    const std::function<bool(const EventEntry&)>& tell) {
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    std::string sql =
        "SELECT at, name, attempt, state, exit_code, cause, events.reason, "
        "CASE state WHEN 'collected' THEN (SELECT outputs_files || ' ' || outputs_size FROM attempts WHERE "
        "attempts.run = events.run AND attempts.trial = events.trial AND attempts.attempt = events.attempt) "
        "END FROM events "
        "JOIN trials ON trials.run = events.run AND trials.trial = events.trial WHERE events.run = ?1 ";
    const std::optional<std::int64_t> of = impl_->number_of_trial(number, trial);
    if (!trial.empty() && !of) return;
    if (of) sql += "AND events.trial = ?2 ";
    // Within one microsecond ends come before the starts that follow from them, but not before their own.
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
                             .reason = query.getColumn(6).getText(""),
                             .taken = taken_in(query.getColumn(7))};
      if (!tell(entry)) return;
    }
  });
}

std::vector<DoneEntry> Record::done(const std::string& hash, std::size_t count_max) {
  return database::guarded(impl_->path, [&] {
    SQLite::Statement& query = impl_->find_done;
    query.reset();
    query.bindNoCopy(1, hash);
    query.bind(2, static_cast<std::int64_t>(count_max));
    std::vector<DoneEntry> entries;
    while (query.executeStep())
      entries.push_back({.run = RunId(query.getColumn(0).getString()),
                         .trial = query.getColumn(1).getString(),
                         .kept_in = RunId(query.getColumn(2).getString()),
                         .kept_as = query.getColumn(3).getString(),
                         .attempt = query.getColumn(5).getInt(),
                         .place = query.getColumn(4).getString()});
    query.reset();  // else it would hold up who writes
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

std::vector<Past> Record::past(const RunId& run) {
  return database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    std::vector<Past> all;
    SQLite::Statement states(
        impl_->database,
        "SELECT state, attempt, cause, exit_code, states.reason, states.root, anew FROM states "
        "JOIN trials USING (run, trial) WHERE run = ? ORDER BY trial");
    states.bind(1, number);
    while (states.executeStep()) {
      all.push_back({.state = state_of(states.getColumn(0)),
                     .attempt = states.getColumn(1).getInt(),
                     .cause = cause_of(states.getColumn(2)),
                     .exit_code = number_in(states.getColumn(3)),
                     .reason = states.getColumn(4).getString(),
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
      Past& past = all.at(static_cast<std::size_t>(attempts.getColumn(0).getInt64()));
      const bool is_last = attempts.getColumn(1).getInt() == past.attempt;
      if (!attempts.getColumn(2).isNull()) {
        past.was_started = true;
        if (is_last) past.ran_at = instant_in(attempts.getColumn(2));
      }
      if (is_last) past.doom = cause_of(attempts.getColumn(6));
      past.was_healthy |= !attempts.getColumn(3).isNull();
      if (is_last) past.memory = Bytes{attempts.getColumn(7).getInt64()};
      if (is_last && attempts.getColumn(4).isNull() && !attempts.getColumn(8).isNull()) {
        past.leaving = value_of<Leaving>(attempts.getColumn(8).getText(), k_leaving_count);
        past.slots = {.cpus = {attempts.getColumn(9).getInt64()},
                      .memory = {attempts.getColumn(10).getInt64()},
                      .gpus = split(attempts.getColumn(11).getText(""))};
      }
      if (!is_last && !attempts.getColumn(4).isNull())
        past.earlier.push_back(cause_of(attempts.getColumn(5)));
    }
    return all;
  });
}

}  // namespace combu
