#pragma once
// The connection of a Record to its database. The writing functions are in record.cpp, the reading functions
// in reading.cpp.

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "combu/database.hpp"
#include "combu/record.hpp"

namespace combu {

// Separates paths in the table `working_trees`. git escapes newlines in the paths that it prints.
inline constexpr std::string_view k_between_git_paths = "\n";
inline constexpr std::string_view k_between_digests = "\n";
inline constexpr std::string_view k_between_paths =
    "//";  // separates paths of outputs, in which "//" does not occur

// Primary keys of the tables `trials` and `attempts`.
struct TrialKey {
  std::int64_t run = 0;
  std::int64_t trial = 0;
  [[nodiscard]] auto columns() const { return std::tuple(run, trial); }
};
struct AttemptKey {
  std::int64_t run = 0;
  std::int64_t trial = 0;
  int attempt = 1;
  [[nodiscard]] auto columns() const { return std::tuple(run, trial, attempt); }
};

// The prepared statements that write rows of the table `attempts`.
struct AttemptStatements {
  SQLite::Database& database;
  // Adds an attempt that combu starts. If the combu process died and a later process starts the attempt
  // again, the row keeps the moment of the first start. `ready_at` is not earlier than the run's `began_at`.
  // For a retry, or a trial that was added or changed, `ready_at` is not earlier than `working_since`, the
  // moment when the run was reopened.
  database::Sql add{
      database,
      "INSERT OR IGNORE INTO attempts (run, trial, attempt, nano_cpus, memory, gpus, ready_at, started_at) "
      "SELECT ?1, ?2, ?3, ?4, ?5, ?6, min(?8, max(?7, iif(?3 > 1 OR (SELECT revision FROM trials "
      "WHERE run = ?1 AND trial = ?2) > 1, working_since, began_at))), ?8 FROM runs WHERE number = ?1"};
  // Removes an attempt whose start was taken back, for example because the process died before the start
  // reached the engine.
  database::Sql take_back{
      database, "DELETE FROM attempts WHERE run = ? AND trial = ? AND attempt = ? AND ran_at IS NULL"};
  database::Sql set_next{database,
                         "UPDATE attempts SET next_ready_at = ?, next_memory = ? "
                         "WHERE run = ? AND trial = ? AND attempt = ?"};
  // If a clock was set back, the engine may report that an attempt ran before combu started the attempt.
  // Hence `ran_at` is at least `started_at`.
  database::Sql set_ran{database,
                        "UPDATE attempts SET ran_at = max(?, started_at), container = ? "
                        "WHERE run = ? AND trial = ? AND attempt = ? "
                        "AND ended_at IS NULL"};
  database::Sql set_times{
      database,
      "UPDATE attempts SET created_in = ?, started_in = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  database::Sql set_healthy{database,
                            "UPDATE attempts SET healthy_at = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  // Records the end of an attempt. Changes no row if a blocked trial has no attempt, or only an attempt that
  // has already ended.
  database::Sql set_ended{
      database,
      "UPDATE attempts SET ended_at = max(?, started_at, coalesce(ran_at, 0)), exit_code = ?, "
      "cause = ?, reason = ?, stopper = ?, outputs_fault = ?, next = ?, pause = ?, next_why = ? "
      "WHERE run = ? AND trial = ? AND attempt = ? AND ended_at IS NULL"};
  database::Sql set_stop_cause{database,
                               "UPDATE attempts SET doom = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  database::Sql set_collecting{database,
                               "UPDATE attempts SET collected_at = 0, reason = ?, stopper = ?, outputs_fault "
                               "= ?, next = ?, pause = ?, "
                               "next_why = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  // Records the end and the result of the collection of outputs.
  database::Sql set_collected{database,
                              "UPDATE attempts SET collected_at = max(?, ended_at), cause = ?, reason = ?, "
                              "stopper = ?, outputs_fault = ?, next = ?, pause = ?, next_why = ? "
                              "WHERE run = ? AND trial = ? AND attempt = ? AND collected_at = 0"};
  // Records that the outputs are lost because the container was removed. The recorded end of the attempt
  // stays unchanged.
  database::Sql set_lost{database,
                         "UPDATE attempts SET collected_at = NULL, cause = ? "
                         "WHERE run = ? AND trial = ? AND attempt = ? AND collected_at = 0"};
  database::Sql set_usage{
      database,
      "UPDATE attempts SET memory_peak = ?, cpu_time = ? WHERE run = ? AND trial = ? AND attempt = ?"};
  database::Sql set_outputs{database,
                            "UPDATE attempts SET outputs_files = ?, outputs_size = ?, outputs_left = ? "
                            "WHERE run = ? AND trial = ? AND attempt = ?"};
};

// The prepared statements that write rows of the table `trials`.
struct TrialStatements {
  SQLite::Database& database;
  database::Sql add{database,
                    "INSERT INTO trials (run, trial, revision, name, image, digest, params) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)"};
  database::Sql set_text{database,
                         "UPDATE trials SET revision = ?, image = ?, digest = ?, params = ?, anew = 0 "
                         "WHERE run = ? AND trial = ?"};
  database::Sql set_anew{database, "UPDATE trials SET anew = ? WHERE run = ? AND trial = ?"};
  // Sets the trial's state back to waiting. The trial continues as if its earlier attempts had never been
  // started.
  database::Sql reset{
      database,
      "UPDATE trials SET over = NULL, over_at = NULL, reason = NULL, root = NULL, stopper = NULL, "
      "outputs_fault = NULL, next = NULL, next_why = NULL, first_attempt = "
      "(SELECT coalesce(max(attempt), 0) + 1 FROM attempts "
      "WHERE attempts.run = trials.run AND attempts.trial = trials.trial) WHERE run = ? AND trial = ?"};
  database::Sql set_inputs{database, "UPDATE trials SET inputs = ? WHERE run = ? AND trial = ?"};
  database::Sql set_over{
      database,
      "UPDATE trials SET over = ?1, over_at = max(?2, coalesce((SELECT max(max(ended_at, "
      "coalesce(collected_at, 0))) FROM attempts WHERE run = ?9 AND trial = ?10), 0)), reason = ?3, "
      "root = ?4, stopper = ?5, outputs_fault = ?6, next = ?7, next_why = ?8 WHERE run = ?9 AND trial = "
      "?10"};
};

// The prepared statements that write and search `recollections`, the table of cache lookups.
struct CacheResultStatements {
  SQLite::Database& database;
  // If combu repeats a cache lookup, the new result replaces the earlier result.
  database::Sql add{database,
                    "INSERT OR REPLACE INTO recollections (run, trial, hash, parts, equal_run, "
                    "equal_trial) VALUES (?, ?, ?, ?, nullif(?, ''), nullif(?, ''))"};
  database::Sql forget_of_other_image{database,
                                      "DELETE FROM recollections WHERE run = ? AND trial = ? AND "
                                      "json_extract(parts, '$.image') <> ?"};
  database::Sql forget_of_other_inputs{database,
                                       "DELETE FROM recollections WHERE run = ?1 AND trial = ?2 AND "
                                       "json_extract(parts, '$.inputs') IS NOT NULL AND EXISTS (SELECT 1 "
                                       "FROM trials WHERE run = ?1 AND trial = ?2 AND inputs <> ?3)"};
  SQLite::Statement find_done{database,
                              "SELECT coalesce(equal_run, runs.id), coalesce(equal_trial, name), "
                              "runs.id, name, coalesce(results || '/' || name, ''), "
                              "CASE over WHEN 'skipped' THEN 0 ELSE (SELECT max(attempt) FROM attempts "
                              "WHERE attempts.run = trials.run AND attempts.trial = trials.trial) END "
                              "FROM recollections JOIN trials USING (run, trial) JOIN runs ON runs.number = "
                              "run WHERE hash = ? AND over IN ('succeeded', 'skipped') "
                              "ORDER BY run DESC, trial LIMIT ?"};
};

struct Record::Impl {
  Impl(const std::string& folder, Use use);

  // SQLite's busy handler: waits for another process that writes. Returns 0 after k_patience, so that SQLite
  // stops waiting.
  static int wait(void* self, int tries);

  // Returns the number of the run's row. Throws Error(not_found) if the record has no such run.
  std::int64_t number_of_run(const RunId& run);
  // Returns the number of the trial's row, or nullopt if no trial of the run has this name.
  std::optional<std::int64_t> number_of_trial(std::int64_t run, const std::string& name);
  std::int64_t number_of_experiment(const std::string& name);
  // Returns the latest time on record for a run, in microseconds since 1970.
  std::int64_t latest_of(std::int64_t run);
  // Returns the microseconds to add to the times of a run's new facts. `first` is the earliest of these
  // times. The adjusted times are not earlier than any time on record, even if the machine's clock was set
  // back between two processes.
  std::int64_t delay_of(std::int64_t run, Instant first);
  Stamp stamp(std::int64_t run);
  // Calls `write_facts` with the number of the run's row. Returns false and changes nothing if the run's
  // stamp is not `expected`.
  bool append_if(const RunId& run, const Stamp& expected, RunEnds ends,
                 const std::function<void(std::int64_t)>& write_facts);
  void write(std::int64_t run, std::span<const Fact> facts);
  void write(std::int64_t run, std::int64_t delay, const Fact& fact);
  void write(std::int64_t run, const CacheResult& one);
  // Removes the trial's cache key if the trial's image or inputs changed after the cache lookup.
  void forget_unless_as_known(const TrialKey& trial, const Started& started);
  void write_inputs(const TrialKey& trial, const std::vector<std::string>& digests);
  void write(std::int64_t run, const WorkingTree& tree);
  void write(std::int64_t run, const Digests& references);
  void write(std::int64_t run, const Anew& anew);
  // Reopens the run at the moment `at`. If `only_if_ended` is true, a run that has not ended stays unchanged.
  void open(std::int64_t run, Instant at, bool only_if_ended);
  // Returns the number of the newest version of the run's file.
  int newest_text(std::int64_t run);
  // Updates the trials `updated` to version `revision` of the experiment file.
  void set_texts(std::int64_t run, int revision, std::span<const TrialIndex> updated,
                 const Experiment& experiment, const Digests& digests);

  const std::string path;
  SQLite::Database database;
  std::function<void()> on_wait;
  std::optional<std::pair<RunId, std::int64_t>> last;
  std::optional<std::pair<std::int64_t, std::int64_t>>
      delayed;  // number of a run, and the result of delay_of() for this run
  AttemptStatements attempts{database};
  TrialStatements trials{database};
  CacheResultStatements cache_results{database};
  database::Sql add_image{
      database, "INSERT OR REPLACE INTO images (run, image, platform, reference) VALUES (?, ?, ?, ?)"};
  database::Sql add_text{database,
                         "INSERT INTO texts (run, revision, source, evaluated, imports, given_values) VALUES "
                         "(?, ?, ?, ?, ?, ?)"};
  database::Sql renew_text{
      database, "UPDATE texts SET source = ?, imports = ?, given_values = ? WHERE run = ? AND revision = ?"};
};

}  // namespace combu
