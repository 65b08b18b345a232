#include "record/schema.hpp"

#include <array>

namespace combu::record {
namespace {

constexpr int k_application_id = 0x636d6275;  // "cmbu"

// All times in the database are microseconds since 1970. States and causes are stored as the names that
// to_string() returns. The view `states` derives the states of unfinished trials from their attempts. The
// view `events` derives all events from attempts and trials.
//
// The state of a trial ignores attempts before `first_attempt`, because `combu retry` or `combu apply` has
// reset the trial. `failures_forgiven` is the number of failed trials that do not count towards
// `max_failures`, because they failed before the run was reopened.
constexpr std::array<std::string_view, 8> k_steps{R"sql(
  CREATE TABLE experiments (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
  );
  CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    experiment INTEGER NOT NULL REFERENCES experiments,
    file TEXT NOT NULL,
    folder TEXT NOT NULL,
    source TEXT NOT NULL,
    evaluated TEXT NOT NULL,
    arguments TEXT NOT NULL,
    options TEXT NOT NULL,
    revision TEXT NOT NULL,
    revision_dirty INTEGER NOT NULL,
    address TEXT NOT NULL,
    engine TEXT NOT NULL,
    user TEXT NOT NULL,
    machine TEXT NOT NULL,
    program TEXT NOT NULL,
    began_at INTEGER NOT NULL,
    working_since INTEGER NOT NULL,
    failures_forgiven INTEGER NOT NULL DEFAULT 0,
    ended_at INTEGER
  );
  CREATE INDEX runs_of_experiment ON runs (experiment);
  CREATE TABLE trials (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    name TEXT NOT NULL,
    image TEXT NOT NULL,
    params TEXT NOT NULL,
    first_attempt INTEGER NOT NULL DEFAULT 1,
    over TEXT,
    over_at INTEGER,
    reason TEXT,
    root INTEGER,
    PRIMARY KEY (run, trial)
  ) WITHOUT ROWID;
  CREATE TABLE attempts (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    container TEXT,
    nano_cpus INTEGER NOT NULL,
    memory INTEGER NOT NULL,
    ready_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ran_at INTEGER,
    healthy_at INTEGER,
    ended_at INTEGER,
    exit_code INTEGER,
    cause TEXT,
    reason TEXT,
    PRIMARY KEY (run, trial, attempt)
  ) WITHOUT ROWID;
  CREATE VIEW states AS
    SELECT trials.run, trials.trial, name, image, params,
      coalesce(over, CASE
        WHEN attempt IS NULL THEN 'waiting'
        WHEN ended_at IS NOT NULL THEN 'retrying'
        WHEN ran_at IS NOT NULL THEN 'running'
        ELSE 'starting' END) AS state,
      coalesce(attempt, first_attempt) AS attempt, first_attempt, exit_code, coalesce(cause, 'none') AS cause,
      coalesce(trials.reason, attempts.reason, '') AS reason, root, ran_at
    FROM trials LEFT JOIN attempts ON attempts.run = trials.run AND attempts.trial = trials.trial
      AND attempt >= first_attempt
      AND attempt = (SELECT max(attempt) FROM attempts AS last
                     WHERE last.run = trials.run AND last.trial = trials.trial);
  CREATE VIEW events AS
    SELECT run, ready_at AS at, trial, attempt, 'ready' AS state, NULL AS exit_code, NULL AS cause, NULL AS reason
      FROM attempts
    UNION ALL SELECT run, started_at, trial, attempt, 'starting', NULL, NULL, NULL FROM attempts
    UNION ALL SELECT run, ran_at, trial, attempt, 'running', NULL, NULL, NULL FROM attempts WHERE ran_at IS NOT NULL
    UNION ALL SELECT run, healthy_at, trial, attempt, 'healthy', NULL, NULL, NULL FROM attempts
      WHERE healthy_at IS NOT NULL
    UNION ALL SELECT run, ended_at, trial, attempt, 'ended', exit_code, cause, reason FROM attempts
      WHERE ended_at IS NOT NULL
    UNION ALL SELECT run, over_at, trial, NULL, over, NULL, NULL, reason FROM trials WHERE over IS NOT NULL;
)sql",
                                                  // Durations in the database are in microseconds, too. The
                                                  // texts of a run, such as the experiment file, may be
                                                  // megabytes long. They are in the table `texts`, because
                                                  // combu reads and writes the table `runs` often.
                                                  R"sql(
  CREATE INDEX trials_by_name ON trials (run, name);
  ALTER TABLE trials ADD COLUMN digest TEXT;
  ALTER TABLE runs ADD COLUMN evaluated_in INTEGER;
  ALTER TABLE runs ADD COLUMN prepared_in INTEGER;
  ALTER TABLE attempts ADD COLUMN created_in INTEGER;
  ALTER TABLE attempts ADD COLUMN started_in INTEGER;
  ALTER TABLE attempts ADD COLUMN gpus TEXT;
  ALTER TABLE attempts ADD COLUMN memory_peak INTEGER;
  ALTER TABLE attempts ADD COLUMN cpu_time INTEGER;
  CREATE TABLE texts (
    run INTEGER NOT NULL REFERENCES runs,
    revision INTEGER NOT NULL,
    source TEXT NOT NULL,
    evaluated TEXT NOT NULL,
    PRIMARY KEY (run, revision)
  );
  INSERT INTO texts SELECT number, 1, source, evaluated FROM runs;
  ALTER TABLE trials ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
  ALTER TABLE runs DROP COLUMN source;
  ALTER TABLE runs DROP COLUMN evaluated;
)sql",
                                                  // The column `collected_at` holds the moment when combu
                                                  // collected the outputs of the attempt (0: not yet, NULL:
                                                  // no outputs). The column `doom` holds the stop cause. The
                                                  // column `leaving` holds the Departure of the trial if
                                                  // combu stops its attempt because the file was edited. In
                                                  // the row of a failed attempt, `next_ready_at` holds the
                                                  // moment when the next attempt began to wait for slots, and
                                                  // `next_memory` holds the memory of the next attempt.
                                                  R"sql(
  ALTER TABLE attempts ADD COLUMN collected_at INTEGER;
  ALTER TABLE attempts ADD COLUMN doom TEXT;
  ALTER TABLE attempts ADD COLUMN leaving TEXT;
  ALTER TABLE attempts ADD COLUMN next_ready_at INTEGER;
  ALTER TABLE attempts ADD COLUMN next_memory INTEGER;
  DROP VIEW states;
  DROP VIEW events;
  CREATE VIEW states AS
    SELECT trials.run, trials.trial, name, image, params,
      coalesce(over, CASE
        WHEN attempt IS NULL THEN 'waiting'
        WHEN collected_at = 0 THEN 'collecting'
        WHEN next_ready_at IS NOT NULL THEN 'ready'
        WHEN ended_at IS NOT NULL THEN 'retrying'
        WHEN ran_at IS NOT NULL THEN 'running'
        ELSE 'starting' END) AS state,
      coalesce(attempt, first_attempt) AS attempt, first_attempt, exit_code, coalesce(cause, 'none') AS cause,
      coalesce(trials.reason, attempts.reason, '') AS reason, root, ran_at
    FROM trials LEFT JOIN attempts ON attempts.run = trials.run AND attempts.trial = trials.trial
      AND attempt >= first_attempt
      AND attempt = (SELECT max(attempt) FROM attempts AS last
                     WHERE last.run = trials.run AND last.trial = trials.trial);
  CREATE VIEW events AS
    SELECT run, ready_at AS at, trial, attempt, 'ready' AS state, NULL AS exit_code, NULL AS cause, NULL AS reason
      FROM attempts
    UNION ALL SELECT run, started_at, trial, attempt, 'starting', NULL, NULL, NULL FROM attempts
    UNION ALL SELECT run, ran_at, trial, attempt, 'running', NULL, NULL, NULL FROM attempts WHERE ran_at IS NOT NULL
    UNION ALL SELECT run, healthy_at, trial, attempt, 'healthy', NULL, NULL, NULL FROM attempts
      WHERE healthy_at IS NOT NULL
    UNION ALL SELECT run, ended_at, trial, attempt, 'ended', exit_code, cause, reason FROM attempts
      WHERE ended_at IS NOT NULL
    UNION ALL SELECT run, collected_at, trial, attempt, 'collected', NULL, NULL, NULL FROM attempts
      WHERE collected_at > 0
    UNION ALL SELECT run, over_at, trial, NULL, over, NULL, NULL, reason FROM trials WHERE over IS NOT NULL;
)sql",
                                                  // The number and total size of the files that combu
                                                  // collected from an attempt. The column `outputs_left`
                                                  // holds the paths that combu could not collect, separated
                                                  // by "//".
                                                  R"sql(
  ALTER TABLE attempts ADD COLUMN outputs_files INTEGER;
  ALTER TABLE attempts ADD COLUMN outputs_size INTEGER;
  ALTER TABLE attempts ADD COLUMN outputs_left TEXT;
)sql",
                                                  // The column `results` holds the folder or bucket path of a
                                                  // run's outputs. The column `anew` is 1 if combu must
                                                  // execute the trial even if an equal trial has succeeded.
                                                  // The column `inputs` holds the digests of the trial's
                                                  // inputs. The table `working_trees` holds how the working
                                                  // tree differed from the commit. The table `images` holds
                                                  // the exact reference of each image. The table
                                                  // `recollections` holds the cache keys of trials with
                                                  // `cache`. The table also holds the run and name of the
                                                  // equal trial that a cache lookup has found.
                                                  R"sql(
  ALTER TABLE runs ADD COLUMN results TEXT;
  ALTER TABLE trials ADD COLUMN anew INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE trials ADD COLUMN inputs TEXT;
  CREATE TABLE working_trees (
    run INTEGER PRIMARY KEY REFERENCES runs,
    diff TEXT NOT NULL,
    is_cut INTEGER NOT NULL,
    untracked TEXT NOT NULL,
    left_out TEXT NOT NULL
  );
  CREATE TABLE images (
    run INTEGER NOT NULL REFERENCES runs,
    image TEXT NOT NULL,
    platform TEXT NOT NULL,
    reference TEXT NOT NULL,
    PRIMARY KEY (run, image, platform)
  ) WITHOUT ROWID;
  CREATE TABLE recollections (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    hash TEXT NOT NULL,
    parts TEXT NOT NULL,
    equal_run TEXT,
    equal_trial TEXT,
    PRIMARY KEY (run, trial)
  ) WITHOUT ROWID;
  CREATE INDEX recollections_by_hash ON recollections (hash);
)sql",
                                                  // Both columns hold JSON objects: the imports of the
                                                  // experiment file, and the values that the user gave for
                                                  // its evaluation.
                                                  R"sql(
  ALTER TABLE texts ADD COLUMN imports TEXT;
  ALTER TABLE texts ADD COLUMN given_values TEXT;
)sql",
                                                  // The column `by_index` lists changed files that have a git
                                                  // filter: combu compares their sizes and modification times
                                                  // with git's index, not their content. The column `problem`
                                                  // says why combu could not record the working tree. The
                                                  // table `host_paths` holds each host path, and the path to
                                                  // which its symbolic links led when the run began.
                                                  R"sql(
  ALTER TABLE working_trees ADD COLUMN by_index TEXT NOT NULL DEFAULT '';
  ALTER TABLE working_trees ADD COLUMN problem TEXT NOT NULL DEFAULT '';
  CREATE TABLE host_paths (
    run INTEGER NOT NULL REFERENCES runs,
    path TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (run, path)
  ) WITHOUT ROWID;
)sql",
                                                  // Columns for the members of EndDetails, beside the column
                                                  // `reason`. The UPDATE statements extract the members from
                                                  // reasons that an older version of combu wrote as text.
                                                  R"sql(
  ALTER TABLE runs ADD COLUMN is_simulated INTEGER NOT NULL DEFAULT 0;
  UPDATE runs SET is_simulated = 1 WHERE address LIKE 'simulated:%';
  ALTER TABLE attempts ADD COLUMN stopper TEXT;
  ALTER TABLE attempts ADD COLUMN outputs_fault TEXT;
  ALTER TABLE attempts ADD COLUMN next TEXT;
  ALTER TABLE attempts ADD COLUMN pause INTEGER;
  ALTER TABLE attempts ADD COLUMN next_why TEXT;
  ALTER TABLE trials ADD COLUMN stopper TEXT;
  ALTER TABLE trials ADD COLUMN outputs_fault TEXT;
  ALTER TABLE trials ADD COLUMN next TEXT;
  ALTER TABLE trials ADD COLUMN next_why TEXT;
  UPDATE attempts SET next = 'attempt', reason = head,
    pause = CASE
      WHEN time GLOB '* ms' THEN round(CAST(time AS REAL) * 1000)
      WHEN time GLOB '* s' THEN round(CAST(time AS REAL) * 1000000)
      WHEN time GLOB '*m*s' THEN
        (CAST(time AS INTEGER) * 60 + CAST(substr(time, instr(time, 'm') + 1) AS INTEGER)) * 1000000
      WHEN time GLOB '*h*m' THEN
        (CAST(time AS INTEGER) * 60 + CAST(substr(time, instr(time, 'h') + 1) AS INTEGER)) * 60000000
      ELSE (CAST(time AS INTEGER) * 24 + CAST(substr(time, instr(time, 'd') + 1) AS INTEGER)) * 3600000000
      END
    FROM (SELECT run AS of_run, trial AS of_trial, attempt AS of_attempt,
        substr(reason, 1, instr(reason, '; attempt ') - 1) AS head,
        substr(reason, instr(reason, '; attempt ') + length('; attempt ' || (attempt + 1) || ' in ')) AS time
      FROM attempts WHERE reason GLOB '*; attempt [0-9]* in *')
    WHERE run = of_run AND trial = of_trial AND attempt = of_attempt;
  UPDATE attempts SET next = 'verdict', reason = substr(reason, 1, instr(reason, '; tried again if ') - 1)
    WHERE reason GLOB '*; tried again if the engine is being restarted';
  UPDATE attempts SET next = 'collect',
    next_why = substr(reason, instr(reason, 'its outputs are not home: ') + length('its outputs are not home: ')),
    reason = substr(reason, 1, max(instr(reason, '; its outputs are not home: '), 1) - 1)
    WHERE reason GLOB 'its outputs are not home: *' OR reason GLOB '*; its outputs are not home: *';
  UPDATE attempts SET next = 'spent',
    reason = substr(reason, 1, length(reason) - length(', after ' || attempt || ' attempts'))
    WHERE reason GLOB '*, after ' || attempt || ' attempts';
  UPDATE trials SET next = 'spent', reason = head
    FROM (SELECT all_trials.run AS of_run, all_trials.trial AS of_trial,
        substr(reason, 1, length(reason) - length(', after ' || last || ' attempts')) AS head
      FROM trials AS all_trials, (SELECT run, trial, max(attempt) AS last FROM attempts GROUP BY run, trial) AS lasts
      WHERE lasts.run = all_trials.run AND lasts.trial = all_trials.trial
        AND reason GLOB '*, after ' || last || ' attempts')
    WHERE run = of_run AND trial = of_trial;
  UPDATE trials SET next = 'given_up',
    next_why = substr(reason, instr(reason, '; not tried again: ') + length('; not tried again: ')),
    reason = substr(reason, 1, instr(reason, '; not tried again: ') - 1)
    WHERE reason GLOB '*; not tried again: *';
  UPDATE attempts SET outputs_fault = substr(reason, instr(reason, '; outputs: ') + length('; outputs: ')),
    reason = substr(reason, 1, instr(reason, '; outputs: ') - 1)
    WHERE reason GLOB '*; outputs: *';
  UPDATE trials SET outputs_fault = substr(reason, instr(reason, '; outputs: ') + length('; outputs: ')),
    reason = substr(reason, 1, instr(reason, '; outputs: ') - 1)
    WHERE reason GLOB '*; outputs: *';
  UPDATE attempts SET stopper = iif(reason GLOB 'stopped by *', 'person', 'outside'),
    reason = substr(reason, length('stopped ') + 1)
    WHERE reason GLOB 'stopped by *' OR reason GLOB 'stopped from outside *';
  UPDATE trials SET stopper = iif(reason GLOB 'stopped by *', 'person', 'outside'),
    reason = substr(reason, length('stopped ') + 1)
    WHERE reason GLOB 'stopped by *' OR reason GLOB 'stopped from outside *';
  UPDATE attempts SET stopper = 'run', reason = substr(reason, length('stopped: ') + 1)
    WHERE reason GLOB 'stopped: *';
  UPDATE trials SET stopper = 'run', reason = substr(reason, length('stopped: ') + 1)
    WHERE reason GLOB 'stopped: *';
  DROP VIEW states;
  DROP VIEW events;
  CREATE VIEW states AS
    SELECT trials.run, trials.trial, name, image, params,
      coalesce(over, CASE
        WHEN attempt IS NULL THEN 'waiting'
        WHEN collected_at = 0 THEN 'collecting'
        WHEN next_ready_at IS NOT NULL THEN 'ready'
        WHEN ended_at IS NOT NULL THEN 'retrying'
        WHEN ran_at IS NOT NULL THEN 'running'
        ELSE 'starting' END) AS state,
      coalesce(attempt, first_attempt) AS attempt, first_attempt, exit_code, coalesce(cause, 'none') AS cause,
      coalesce(trials.reason, attempts.reason, '') AS reason,
      iif(trials.reason IS NULL, attempts.stopper, trials.stopper) AS stopper,
      iif(trials.reason IS NULL, attempts.outputs_fault, trials.outputs_fault) AS outputs_fault,
      iif(trials.reason IS NULL, iif(over IS NULL AND collected_at IS NOT 0 AND next_ready_at IS NOT NULL,
        'due', attempts.next), trials.next) AS next,
      iif(trials.reason IS NULL, attempts.pause, NULL) AS pause,
      iif(trials.reason IS NULL, attempts.next_why, trials.next_why) AS next_why, root, ran_at
    FROM trials LEFT JOIN attempts ON attempts.run = trials.run AND attempts.trial = trials.trial
      AND attempt >= first_attempt
      AND attempt = (SELECT max(attempt) FROM attempts AS last
                     WHERE last.run = trials.run AND last.trial = trials.trial);
  CREATE VIEW events AS
    SELECT run, ready_at AS at, trial, attempt, 'ready' AS state, NULL AS exit_code, NULL AS cause, NULL AS reason,
        NULL AS stopper, NULL AS outputs_fault, NULL AS next, NULL AS pause, NULL AS next_why
      FROM attempts
    UNION ALL SELECT run, started_at, trial, attempt, 'starting', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
      FROM attempts
    UNION ALL SELECT run, ran_at, trial, attempt, 'running', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
      FROM attempts WHERE ran_at IS NOT NULL
    UNION ALL SELECT run, healthy_at, trial, attempt, 'healthy', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
      FROM attempts WHERE healthy_at IS NOT NULL
    UNION ALL SELECT run, ended_at, trial, attempt, 'ended', exit_code, cause, reason, stopper, outputs_fault, next,
        pause, next_why
      FROM attempts WHERE ended_at IS NOT NULL
    UNION ALL SELECT run, collected_at, trial, attempt, 'collected', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
      FROM attempts WHERE collected_at > 0
    UNION ALL SELECT run, over_at, trial, NULL, over, NULL, NULL, reason, stopper, outputs_fault, next, NULL, next_why
      FROM trials WHERE over IS NOT NULL;
)sql"};

}  // namespace

database::Schema schema() {
  return {.application_id = k_application_id, .steps = k_steps};
}

}  // namespace combu::record
