#include "combu/record.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "combu/system.hpp"
#include "record/impl.hpp"
#include "record/schema.hpp"

namespace combu {
namespace {

using database::Sql;
using std::chrono::microseconds;

std::int64_t number_of(Instant at) {
  return std::chrono::duration_cast<microseconds>(at.time_since_epoch()).count();
}

std::int64_t number_of(Seconds time) {
  return std::chrono::duration_cast<microseconds>(time).count();
}
std::optional<std::int64_t> number_of(const std::optional<Seconds>& time) {
  return time ? std::optional(number_of(*time)) : std::nullopt;
}

std::string joined_digests(const std::vector<std::string>& digests) {
  return fmt::format("{}", fmt::join(digests, k_between_digests));
}

std::optional<std::string> digest_of(const Digests& digests, const Trial& trial) {
  const auto at = digests.find({trial.image, trial.platform});
  return at == digests.end() ? std::nullopt : std::optional(at->second);
}

// The values of the columns that describe the end of a trial or an attempt. A column without information is
// NULL. The fact given to the constructor must outlive this object.
struct EndColumns {
  using Text = std::optional<std::string_view>;
  explicit EndColumns(const Fact& fact) : reason(fact.reason) {
    const EndDetails& details = fact.details;
    if (details.stopper != Stopper::none) stopper = to_string(details.stopper);
    if (!details.outputs_fault.empty()) outputs_fault = details.outputs_fault;
    if (details.next != Next::none) next = to_string(details.next);
    if (details.next == Next::attempt) pause = number_of(details.pause);
    if (!details.next_why.empty()) next_why = details.next_why;
  }
  [[nodiscard]] auto columns() const {
    return std::tuple(reason, stopper, outputs_fault, next, pause, next_why);
  }

  std::string_view reason;
  Text stopper;
  Text outputs_fault;
  Text next;
  std::optional<std::int64_t> pause;
  Text next_why;
};

std::string path_in(const std::string& folder) {
  return folder + "/record.sqlite";
}

int number_in(SQLite::Database& database, const char* pragma) {
  return database.execAndGet(fmt::format("PRAGMA {}", pragma)).getInt();
}

// Rewrites the database if at least a quarter of its pages are free. Ignores failures: another process may be
// using the database, or the disk may be full.
void give_room_back(SQLite::Database& database) {
  constexpr int k_free_share = 4;
  const int patience_ms = number_in(database, "busy_timeout");
  try {
    if (number_in(database, "freelist_count") * k_free_share < number_in(database, "page_count")) return;
    database.setBusyTimeout(0);
    // VACUUM writes into the WAL file. The checkpoint copies the content of the WAL file into the database
    // and truncates the WAL file.
    database.exec("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
  } catch (const SQLite::Exception&) {  // NOLINT(bugprone-empty-catch): the database stays as large as it is
  }
  database.setBusyTimeout(patience_ms);
}

std::string usable(const std::string& folder, Record::Use use) {
  const bool stays_as_it_is =
      use == Record::Use::reading && (!Record::exists(folder) || is_read_only(folder));
  if (!stays_as_it_is) make_state_folder(folder);
  return folder;
}

SQLite::Database opened(const std::string& path, Record::Use use) {
  return use == Record::Use::reading ? database::open_to_read(path, record::schema())
                                     : database::open(path, record::schema());
}

}  // namespace

Record::Impl::Impl(const std::string& folder, Use use)
    : path(path_in(usable(folder, use))), database(opened(path, use)) {}

int Record::Impl::wait(void* self, int tries) {
  auto& impl = *static_cast<Impl*>(self);
  constexpr std::chrono::milliseconds k_pause{20};
  constexpr int k_note_after = 100;
  if (tries == k_note_after && impl.on_wait) impl.on_wait();
  if (tries * k_pause >= database::k_patience) return 0;
  std::this_thread::sleep_for(k_pause);
  return 1;
}

std::int64_t Record::Impl::number_of_run(const RunId& run) {
  if (last && last->first == run) return last->second;
  SQLite::Statement query(database, "SELECT number FROM runs WHERE id = ?");
  query.bind(1, run.text());
  if (!query.executeStep())
    throw Error(ErrorKind::not_found, "run " + run.text(), fmt::format("is not in the record {}", path));
  last.emplace(run, query.getColumn(0).getInt64());
  return last->second;
}

std::optional<std::int64_t> Record::Impl::number_of_trial(std::int64_t run, const std::string& name) {
  SQLite::Statement query(database, "SELECT trial FROM trials WHERE run = ? AND name = ?");
  query.bind(1, run);
  query.bind(2, name);
  return query.executeStep() ? std::optional(query.getColumn(0).getInt64()) : std::nullopt;
}

std::int64_t Record::Impl::number_of_experiment(const std::string& name) {
  SQLite::Statement add(database, "INSERT OR IGNORE INTO experiments (name) VALUES (?)");
  add.bind(1, name);
  add.exec();
  SQLite::Statement query(database, "SELECT number FROM experiments WHERE name = ?");
  query.bind(1, name);
  query.executeStep();
  return query.getColumn(0).getInt64();
}

std::int64_t Record::Impl::latest_of(std::int64_t run) {
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

std::int64_t Record::Impl::delay_of(std::int64_t run, Instant first) {
  if (!delayed || delayed->first != run)
    delayed.emplace(run, std::max<std::int64_t>(0, latest_of(run) - number_of(first)));
  return delayed->second;
}

Record::Stamp Record::Impl::stamp(std::int64_t run) {
  SQLite::Statement query(database,
                          "SELECT working_since, (SELECT count(*) FROM trials WHERE run = ?1), "
                          "(SELECT count(over) FROM trials WHERE run = ?1), "
                          "(SELECT count(*) + count(ran_at) + count(ended_at) + "
                          "count(nullif(collected_at, 0)) + count(leaving) FROM attempts WHERE run = ?1) "
                          "FROM runs WHERE number = ?1");
  query.bind(1, run);
  query.executeStep();
  Stamp stamp{};
  int column = 0;
  for (std::int64_t& number : stamp) number = query.getColumn(column++).getInt64();
  return stamp;
}

bool Record::Impl::append_if(const RunId& run, const Stamp& expected, RunEnds ends,
                             const std::function<void(std::int64_t)>& write_facts) {
  return database::guarded(path, [&] {
    const std::int64_t number = number_of_run(run);
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    if (stamp(number) != expected) return false;
    write_facts(number);
    if (ends == RunEnds::with_last_trial)
      Sql{database,
          "UPDATE runs SET ended_at = max(working_since, "
          "(SELECT max(over_at) FROM trials WHERE run = ?1)) WHERE number = ?1"}(number);
    transaction.commit();
    return true;
  });
}

void Record::Impl::write(std::int64_t run, std::span<const Fact> facts) {
  const std::int64_t delay = facts.empty() ? 0 : delay_of(run, facts.front().at);
  for (const Fact& fact : facts) write(run, delay, fact);
}

void Record::Impl::write(std::int64_t run, std::int64_t delay, const Fact& fact) {
  const TrialKey trial{run, static_cast<std::int64_t>(fact.trial)};
  const AttemptKey attempt{run, trial.trial, fact.attempt};
  const std::int64_t at = number_of(fact.at) + delay;
  if (reports_stop(fact)) {
    attempts.set_stop_cause(to_string(fact.cause), attempt);
  } else if (fact.state == TrialState::ready) {
    attempts.take_back(attempt);
    const AttemptKey before{run, trial.trial, fact.attempt - 1};
    attempts.set_next(number_of(fact.ready_at) + delay, fact.slots.memory.count, before);
  } else if (fact.state == TrialState::starting) {
    attempts.add(attempt, fact.slots.cpus.nano, fact.slots.memory.count,
                 fmt::format("{}", fmt::join(fact.slots.gpus, ",")), number_of(fact.ready_at) + delay, at);
  } else if (fact.healthy) {
    attempts.set_healthy(at, attempt);
  } else if (fact.state == TrialState::running) {
    attempts.set_ran(at, fact.id, attempt);
  } else if (is_over(fact.state) || fact.state == TrialState::retrying ||
             fact.state == TrialState::collecting) {
    const EndColumns end(fact);
    if (fact.details.next == Next::lost) attempts.set_lost(to_string(fact.cause), attempt);
    attempts.set_collected(at, to_string(fact.cause), end, attempt);
    attempts.set_ended(at, fact.exit_code, to_string(fact.cause), end, attempt);
    if (fact.usage) attempts.set_usage(fact.usage->memory.count, number_of(fact.usage->cpu), attempt);
    if (fact.state == TrialState::collecting) attempts.set_collecting(end, attempt);
  }
  if (fact.is_reset) trials.reset(trial);
  if (!is_over(fact.state)) return;
  std::optional<std::int64_t> root;
  if (fact.root) root = static_cast<std::int64_t>(*fact.root);
  std::optional<std::string> reason;
  if (!fact.reason.empty() || fact.details != EndDetails{}) reason = fact.reason;
  const EndColumns end(fact);
  trials.set_over(to_string(fact.state), at, reason, root, end.stopper, end.outputs_fault, end.next,
                  end.next_why, trial);
}

void Record::Impl::write(std::int64_t run, const CacheResult& one) {
  const TrialKey trial{run, static_cast<std::int64_t>(one.trial)};
  if (!one.hash.empty()) cache_results.add(trial, one.hash, one.parts, one.run, one.name);
  write_inputs(trial, one.inputs);
}

void Record::Impl::forget_unless_as_known(const TrialKey& trial, const Started& started) {
  if (!started.digest.empty()) cache_results.forget_of_other_image(trial, started.digest);
  if (!started.inputs.empty()) cache_results.forget_of_other_inputs(trial, joined_digests(started.inputs));
}

void Record::Impl::write_inputs(const TrialKey& trial, const std::vector<std::string>& digests) {
  if (!digests.empty()) trials.set_inputs(joined_digests(digests), trial);
}

void Record::Impl::write(std::int64_t run, const WorkingTree& tree) {
  if (tree.diff.empty() && tree.untracked.empty() && tree.left_out.empty() && tree.by_index.empty() &&
      tree.problem.empty())
    return;
  const auto joined = [](const auto& paths) {
    return fmt::format("{}", fmt::join(paths, k_between_git_paths));
  };
  Sql{database,
      "INSERT INTO working_trees (run, diff, is_cut, untracked, left_out, by_index, problem) "
      "VALUES (?, ?, ?, ?, ?, ?, ?)"}(run, tree.diff, tree.is_cut ? 1 : 0, joined(tree.untracked),
                                      joined(tree.left_out), joined(tree.by_index), tree.problem);
}

void Record::Impl::write(std::int64_t run, const Digests& references) {
  for (const auto& [image, reference] : references) add_image(run, image.first, image.second, reference);
}

void Record::Impl::write(std::int64_t run, const Anew& anew) {
  for (const auto& [trial, is_anew] : anew)
    trials.set_anew(is_anew ? 1 : 0, TrialKey{run, static_cast<std::int64_t>(trial)});
}

void Record::Impl::open(std::int64_t run, Instant at, bool only_if_ended) {
  Sql{database,
      "UPDATE runs SET ended_at = NULL, working_since = ?1, failures_forgiven = "
      "(SELECT count(*) FROM trials WHERE trials.run = ?2 AND over = 'failed') "
      "WHERE number = ?2 AND (ended_at IS NOT NULL OR NOT ?3)"}(number_of(at), run, only_if_ended ? 1 : 0);
}

int Record::Impl::newest_text(std::int64_t run) {
  SQLite::Statement query(database, "SELECT max(revision) FROM texts WHERE run = ?");
  query.bind(1, run);
  query.executeStep();
  return query.getColumn(0).getInt();
}

void Record::Impl::set_texts(std::int64_t run, int revision, std::span<const TrialIndex> updated,
                             const Experiment& experiment, const Digests& digests) {
  for (const TrialIndex trial : updated) {
    const Trial& it = experiment.trials[trial];
    trials.set_text(revision, it.image, digest_of(digests, it), it.params,
                    TrialKey{run, static_cast<std::int64_t>(trial)});
  }
}

bool Record::exists(const std::string& folder) {
  std::error_code unreadable;
  return std::filesystem::exists(path_in(folder), unreadable);
}

Record::Record(const std::string& folder, Use use)
    : impl_(database::guarded(path_in(folder), [&] { return std::make_unique<Impl>(folder, use); })) {}
Record::~Record() = default;

void Record::on_wait(std::function<void()> callback) {
  impl_->on_wait = std::move(callback);
  sqlite3_busy_handler(impl_->database.getHandle(), &Impl::wait, impl_.get());
}

void Record::begin(const RunEntry& entry, const Experiment& experiment) {
  database::guarded(impl_->path, [&] {
    SQLite::Database& database = impl_->database;
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    if (!runs({.id = entry.id}, 1).empty())
      throw Error(
          ErrorKind::conflict, "run " + entry.id.text(),
          "is in the record already; choose another --run-id, or continue the run with `combu run --resume`");
    Sql{database,
        "INSERT INTO runs (id, experiment, file, folder, arguments, options, revision, revision_dirty, "
        "address, engine, is_simulated, user, machine, program, evaluated_in, prepared_in, began_at, "
        "working_since, results) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"}(
        entry.id.text(), impl_->number_of_experiment(entry.experiment), entry.file, entry.folder,
        entry.arguments, entry.options, entry.revision, entry.revision_dirty ? 1 : 0, entry.engine.address,
        entry.engine.description, entry.engine.is_simulated ? 1 : 0, entry.user, entry.machine, entry.program,
        number_of(entry.evaluated_in), number_of(entry.prepared_in), number_of(entry.began_at),
        number_of(entry.began_at), entry.results);
    const std::int64_t run = database.getLastInsertRowid();
    impl_->add_text(run, 1, entry.text.source, entry.text.evaluated, entry.text.imports, entry.text.values);
    impl_->write(run, entry.working_tree);
    impl_->write(run, entry.references);
    std::int64_t number = 0;
    for (const Trial& trial : experiment.trials)
      impl_->trials.add(TrialKey{run, number++}, 1, trial.name, trial.image, digest_of(entry.digests, trial),
                        trial.params);
    transaction.commit();
  });
}

void Record::append(const RunId& run, std::span<const Fact> facts, std::span<const Started> started,
                    std::span<const CollectedOutputs> collected_outputs,
                    std::span<const CacheResult> cache_results) {
  if (facts.empty() && started.empty() && collected_outputs.empty() && cache_results.empty()) return;
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    for (const CacheResult& one : cache_results) impl_->write(number, one);
    impl_->write(number, facts);
    for (const Started& one : started) {
      const TrialKey trial{number, static_cast<std::int64_t>(one.trial)};
      if (one.created_in && one.started_in)
        impl_->attempts.set_times(number_of(*one.created_in), number_of(*one.started_in),
                                  AttemptKey{number, trial.trial, one.attempt});
      impl_->forget_unless_as_known(trial, one);
      impl_->write_inputs(trial, one.inputs);
    }
    for (const CollectedOutputs& one : collected_outputs)
      impl_->attempts.set_outputs(static_cast<std::int64_t>(one.collection.files), one.collection.size.count,
                                  fmt::format("{}", fmt::join(one.collection.left, k_between_paths)),
                                  AttemptKey{number, static_cast<std::int64_t>(one.trial), one.attempt});
    transaction.commit();
  });
}

Record::Stamp Record::stamp(const RunId& run) {
  return database::guarded(impl_->path, [&] { return impl_->stamp(impl_->number_of_run(run)); });
}

bool Record::append_unwatched(const RunId& run, std::span<const Fact> facts, const Stamp& stamp, RunEnds ends,
                              std::span<const Started> started) {
  return impl_->append_if(run, stamp, ends, [&](std::int64_t number) {
    for (const Fact& fact : facts) impl_->write(number, 0, fact);
    for (const Started& one : started)
      impl_->forget_unless_as_known({number, static_cast<std::int64_t>(one.trial)}, one);
  });
}

bool Record::append_if_unchanged(const RunId& run, std::span<const Fact> facts, const Stamp& stamp,
                                 RunEnds ends) {
  return impl_->append_if(run, stamp, ends, [&](std::int64_t number) { impl_->write(number, facts); });
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

void Record::add_host_paths(const RunId& run, const HostPaths& host_paths) {
  if (host_paths.empty()) return;
  database::guarded(impl_->path, [&] {
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    const std::int64_t number = impl_->number_of_run(run);
    Sql add{impl_->database, "INSERT OR IGNORE INTO host_paths (run, path, target) VALUES (?, ?, ?)"};
    for (const auto& [path, target] : host_paths) add(number, path, target);
    transaction.commit();
  });
}

void Record::reopen(const RunId& run, const Reopening& reopening, const Experiment& experiment) {
  database::guarded(impl_->path, [&] {
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Transaction transaction(impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    impl_->set_texts(number, impl_->newest_text(number), reopening.updated, experiment, reopening.digests);
    impl_->write(number, reopening.references);
    impl_->write(number, reopening.anew);
    impl_->write(number, reopening.facts);
    impl_->open(number, reopening.at, false);
    transaction.commit();
  });
}

void Record::apply_file(const RunId& run, const FileVersion& file_version, const Experiment& experiment,
                        const std::function<void()>& may) {
  database::guarded(impl_->path, [&] {
    SQLite::Database& database = impl_->database;
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    may();
    const std::int64_t number = impl_->number_of_run(run);
    SQLite::Statement query(database, "SELECT count(*) FROM trials WHERE run = ?");
    query.bind(1, number);
    query.executeStep();
    const auto known = static_cast<std::size_t>(query.getColumn(0).getInt64());
    const bool is_new_text = !file_version.text.evaluated.empty();
    const int next = impl_->newest_text(number) + (is_new_text ? 1 : 0);
    if (is_new_text) {
      impl_->add_text(number, next, file_version.text.source, file_version.text.evaluated,
                      file_version.text.imports, file_version.text.values);
    } else if (!file_version.text.source.empty()) {
      impl_->renew_text(file_version.text.source, file_version.text.imports, file_version.text.values, number,
                        next);
    }
    impl_->write(number, file_version.references);
    for (std::size_t trial = known; trial < experiment.trials.size(); ++trial) {
      const Trial& it = experiment.trials[trial];
      impl_->trials.add(TrialKey{number, static_cast<std::int64_t>(trial)}, next, it.name, it.image,
                        digest_of(file_version.digests, it), it.params);
    }
    impl_->set_texts(number, next, file_version.updated, experiment, file_version.digests);
    impl_->write(number, file_version.anew);
    Sql leave{database,
              "UPDATE attempts SET leaving = ?1 WHERE run = ?2 AND trial = ?3 AND attempt = "
              "(SELECT max(attempt) FROM attempts WHERE run = ?2 AND trial = ?3)"};
    for (const auto& [trial, departure] : file_version.departure)
      leave(to_string(departure), TrialKey{number, static_cast<std::int64_t>(trial)});
    impl_->write(number, file_version.facts);
    if (file_version.opens != FileVersion::Opens::no)
      impl_->open(number, file_version.at, file_version.opens == FileVersion::Opens::if_ended);
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
                              "DELETE FROM host_paths WHERE run = ?", "DELETE FROM runs WHERE number = ?"})
        Sql{impl_->database, sql}(number);
      impl_->last.reset();
      impl_->delayed.reset();
    }
    impl_->database.exec("DELETE FROM experiments WHERE number NOT IN (SELECT experiment FROM runs)");
    transaction.commit();
    give_room_back(impl_->database);
  });
}

}  // namespace combu
