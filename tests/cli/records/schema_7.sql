-- A record of schema 7, as `sqlite3 .dump` writes it. @LAB@ stands for the folder of the experiments.
PRAGMA application_id = 1668113013;
PRAGMA user_version = 7;
BEGIN TRANSACTION;
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
    reason TEXT, created_in INTEGER, started_in INTEGER, gpus TEXT, memory_peak INTEGER, cpu_time INTEGER, collected_at INTEGER, doom TEXT, leaving TEXT, next_ready_at INTEGER, next_memory INTEGER, outputs_files INTEGER, outputs_size INTEGER, outputs_left TEXT,
    PRIMARY KEY (run, trial, attempt)
  ) WITHOUT ROWID;
INSERT INTO "attempts" VALUES(1,0,1,'sim000000002',0,0,1795710405354157,1795710405379016,1795710405379016,NULL,1795710405379016,0,'none','',0,0,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,0,1,'sim000000008',0,0,1795710405543088,1795710405552161,1795710405561719,NULL,1795710405561719,0,'none','',0,6338,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,2,1,'sim000000006',0,0,1795710405543088,1795710405552161,1795710405561402,NULL,1795710405561402,3,'error','exit code 3',0,6364,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,3,1,'sim000000014',0,0,1795710405543088,1795710405552161,1795710405565148,NULL,1795710405565148,2,'error','exit code 2; attempt 2 in 0 ms',0,9512,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,3,2,'sim000000024',0,0,1795710405565303,1795710405565303,1795710405576018,NULL,1795710405576018,2,'error','exit code 2, after 2 attempts',0,10561,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,4,1,'sim000000002',0,0,1795710405543088,1795710405552161,1795710405560320,NULL,1795710405560320,4,'error','exit code 4',0,5210,'',NULL,NULL,1795710405561993,NULL,NULL,NULL,NULL,0,0,'');
INSERT INTO "attempts" VALUES(2,5,1,'sim000000010',0,0,1795710405543088,1795710405552161,1795710405563661,NULL,1795710405563661,0,'outputs','/out: there is no such output',0,8508,'',NULL,NULL,1795710405569392,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,6,1,'sim000000018',0,0,1795710405543088,1795710405552161,1795710405569289,NULL,1795710406072149,143,'timeout','took longer than its timeout of 500 ms',0,14113,'',NULL,NULL,NULL,'timeout',NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,7,1,'sim000000012',0,0,1795710405543088,1795710405552161,1795710405564871,NULL,1795710405564871,1,'error','exit code 1; attempt 2 in 1m30s',0,9707,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,8,1,'sim000000020',0,0,1795710405543088,1795710405561062,1795710405571982,NULL,1795710405871982,1,'error','exit code 1; attempt 2 in 1.0 s',0,10698,'0',NULL,NULL,NULL,NULL,NULL,1795710406876149,0,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,9,1,'sim000000026',0,0,1795710405572012,1795710405872158,1795710405885713,NULL,NULL,NULL,NULL,NULL,0,12896,'0',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,10,1,'sim000000004',0,0,1795710405543088,1795710405552161,1795710405561034,NULL,1795710406561034,0,'none','its outputs are not home: @LAB@/taken: cannot be opened: it is a symbolic link or no folder, and outputs go through no link below `collect.to`; remove it, or choose another `collect.to`',0,5744,'',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,11,1,'sim000000022',0,0,1795710405543088,1795710405561174,1795710405574912,NULL,1795710406574912,5,'error','exit code 5; its outputs are not home: @LAB@/taken: cannot be opened: it is a symbolic link or no folder, and outputs go through no link below `collect.to`; remove it, or choose another `collect.to`',0,11352,'',NULL,NULL,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
INSERT INTO "attempts" VALUES(2,12,1,'sim000000016',0,0,1795710405543088,1795710405561417,1795710405567753,NULL,NULL,NULL,NULL,NULL,0,5894,'',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE experiments (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
  );
INSERT INTO "experiments" VALUES(1,'@LAB@/before.jsonnet');
INSERT INTO "experiments" VALUES(2,'old');
CREATE TABLE host_paths (
    run INTEGER NOT NULL REFERENCES runs,
    path TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (run, path)
  ) WITHOUT ROWID;
INSERT INTO "host_paths" VALUES(1,'@LAB@/results','@LAB@/results');
INSERT INTO "host_paths" VALUES(2,'@LAB@/taken','@LAB@/taken');
CREATE TABLE images (
    run INTEGER NOT NULL REFERENCES runs,
    image TEXT NOT NULL,
    platform TEXT NOT NULL,
    reference TEXT NOT NULL,
    PRIMARY KEY (run, image, platform)
  ) WITHOUT ROWID;
INSERT INTO "images" VALUES(1,'lab/x','','simulated:lab/x');
INSERT INTO "images" VALUES(2,'lab/x','','simulated:lab/x');
CREATE TABLE recollections (
    run INTEGER NOT NULL REFERENCES runs,
    trial INTEGER NOT NULL,
    hash TEXT NOT NULL,
    parts TEXT NOT NULL,
    equal_run TEXT,
    equal_trial TEXT,
    PRIMARY KEY (run, trial)
  ) WITHOUT ROWID;
INSERT INTO "recollections" VALUES(1,0,'7591c99771fae3cd2e98257b9df372ee0cd1f451260fc4659841b95cb0a96986','{"cmd":["echo","loss=1"],"image":"simulated:lab/x"}',NULL,NULL);
INSERT INTO "recollections" VALUES(2,1,'7591c99771fae3cd2e98257b9df372ee0cd1f451260fc4659841b95cb0a96986','{"cmd":["echo","loss=1"],"image":"simulated:lab/x"}','before00000','before');
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    experiment INTEGER NOT NULL REFERENCES experiments,
    file TEXT NOT NULL,
    folder TEXT NOT NULL,
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
  , evaluated_in INTEGER, prepared_in INTEGER, results TEXT);
INSERT INTO "runs" VALUES(1,'before00000',1,'@LAB@/before.jsonnet','@LAB@','["combu","-f","before.jsonnet","--engine","simulated:?speed=0","--progress","quiet","run","--wait","--run-id","before00000"]','{"cache":true,"parallel":null,"reserve":"","starts_in_flight":8,"wait":true,"watched":false}','',0,'simulated:?speed=0','simulated','alice','lab','combu 0.1.0 (libjsonnet 0.18.0)',1795710405354157,1795710405354157,0,1795710405380875,83744,5,'@LAB@/results/before/before00000');
INSERT INTO "runs" VALUES(2,'old000000000',2,'@LAB@/experiment.jsonnet','@LAB@','["combu","-f","experiment.jsonnet","--engine","simulated:?speed=1&start=0.01&gpus=1","--progress","json","run","--wait","--run-id","old000000000"]','{"cache":true,"parallel":null,"reserve":"","starts_in_flight":8,"wait":true,"watched":true}','',0,'simulated:?speed=1&start=0.01&gpus=1','simulated','alice','lab','combu 0.1.0 (libjsonnet 0.18.0)',1795710405543088,1795710405543088,0,NULL,52047,9,'@LAB@/taken/old/old000000000');
CREATE TABLE texts (
    run INTEGER NOT NULL REFERENCES runs,
    revision INTEGER NOT NULL,
    source TEXT NOT NULL,
    evaluated TEXT NOT NULL, imports TEXT, given_values TEXT,
    PRIMARY KEY (run, revision)
  );
INSERT INTO "texts" VALUES(1,1,'[{ name: "before", image: "lab/x", cmd: "echo loss=1", cache: true }]
','[
   {
      "cache": true,
      "cmd": "echo loss=1",
      "image": "lab/x",
      "name": "before"
   }
]
','{}','{"ext_code":[],"ext_str":[],"jpath":[],"tla_code":[],"tla_str":[]}');
INSERT INTO "texts" VALUES(2,1,'local retried(pause) = { max: 1, backoff: { initial: pause, max: "2m" } };
{
  experiment: "old",
  collect: { to: "taken", on: "always" },
  trials: [
    { name: "succeeded", image: "lab/x", cmd: "true" },
    { name: "skipped", image: "lab/x", cmd: "echo loss=1", cache: true },
    { name: "failed", image: "lab/x", cmd: "exit 3" },
    { name: "spent", image: "lab/x", cmd: "exit 2", retries: retried("0s") },
    { name: "no-outputs", image: "lab/x", cmd: "exit 4", outputs: ["/out"] },
    { name: "nothing-left", image: "lab/x", cmd: "true", outputs: ["/out"] },
    { name: "late", image: "lab/x", cmd: "sleep 100", timeout: "0.5s" },
    { name: "retrying", image: "lab/x", cmd: "exit 1", retries: retried("90s") },
    { name: "again", image: "lab/x", cmd: ["sh", "-c", "sleep 0.3; exit 1"], gpus: 1, retries: retried("1s") },
    { name: "holder", image: "lab/x", cmd: "sleep 5", gpus: 1, depends: [{ trial: "again", condition: "started" }] },
    { name: "collecting", image: "lab/x", cmd: ["sh", "-c", "echo 7 > /out; sleep 1"], outputs: ["/out"] },
    { name: "collecting-failed", image: "lab/x", cmd: ["sh", "-c", "echo 7 > /out; sleep 1; exit 5"], outputs: ["/out"] },
    { name: "running", image: "lab/x", cmd: "sleep 5" },
    { name: "waiting", image: "lab/x", cmd: "true", depends: [{ trial: "running", condition: "succeeded" }] },
    { name: "blocked", image: "lab/x", cmd: "true", depends: [{ trial: "failed", condition: "succeeded" }] },
    { name: "blocked-behind", image: "lab/x", cmd: "true", depends: [{ trial: "blocked", condition: "succeeded" }] },
  ],
}
','{
   "collect": {
      "on": "always",
      "to": "taken"
   },
   "experiment": "old",
   "trials": [
      {
         "cmd": "true",
         "image": "lab/x",
         "name": "succeeded"
      },
      {
         "cache": true,
         "cmd": "echo loss=1",
         "image": "lab/x",
         "name": "skipped"
      },
      {
         "cmd": "exit 3",
         "image": "lab/x",
         "name": "failed"
      },
      {
         "cmd": "exit 2",
         "image": "lab/x",
         "name": "spent",
         "retries": {
            "backoff": {
               "initial": "0s",
               "max": "2m"
            },
            "max": 1
         }
      },
      {
         "cmd": "exit 4",
         "image": "lab/x",
         "name": "no-outputs",
         "outputs": [
            "/out"
         ]
      },
      {
         "cmd": "true",
         "image": "lab/x",
         "name": "nothing-left",
         "outputs": [
            "/out"
         ]
      },
      {
         "cmd": "sleep 100",
         "image": "lab/x",
         "name": "late",
         "timeout": "0.5s"
      },
      {
         "cmd": "exit 1",
         "image": "lab/x",
         "name": "retrying",
         "retries": {
            "backoff": {
               "initial": "90s",
               "max": "2m"
            },
            "max": 1
         }
      },
      {
         "cmd": [
            "sh",
            "-c",
            "sleep 0.3; exit 1"
         ],
         "gpus": 1,
         "image": "lab/x",
         "name": "again",
         "retries": {
            "backoff": {
               "initial": "1s",
               "max": "2m"
            },
            "max": 1
         }
      },
      {
         "cmd": "sleep 5",
         "depends": [
            {
               "condition": "started",
               "trial": "again"
            }
         ],
         "gpus": 1,
         "image": "lab/x",
         "name": "holder"
      },
      {
         "cmd": [
            "sh",
            "-c",
            "echo 7 > /out; sleep 1"
         ],
         "image": "lab/x",
         "name": "collecting",
         "outputs": [
            "/out"
         ]
      },
      {
         "cmd": [
            "sh",
            "-c",
            "echo 7 > /out; sleep 1; exit 5"
         ],
         "image": "lab/x",
         "name": "collecting-failed",
         "outputs": [
            "/out"
         ]
      },
      {
         "cmd": "sleep 5",
         "image": "lab/x",
         "name": "running"
      },
      {
         "cmd": "true",
         "depends": [
            {
               "condition": "succeeded",
               "trial": "running"
            }
         ],
         "image": "lab/x",
         "name": "waiting"
      },
      {
         "cmd": "true",
         "depends": [
            {
               "condition": "succeeded",
               "trial": "failed"
            }
         ],
         "image": "lab/x",
         "name": "blocked"
      },
      {
         "cmd": "true",
         "depends": [
            {
               "condition": "succeeded",
               "trial": "blocked"
            }
         ],
         "image": "lab/x",
         "name": "blocked-behind"
      }
   ]
}
','{}','{"ext_code":[],"ext_str":[],"jpath":[],"tla_code":[],"tla_str":[]}');
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
    root INTEGER, digest TEXT, revision INTEGER NOT NULL DEFAULT 1, anew INTEGER NOT NULL DEFAULT 0, inputs TEXT,
    PRIMARY KEY (run, trial)
  ) WITHOUT ROWID;
INSERT INTO "trials" VALUES(1,0,'before','lab/x','',1,'succeeded',1795710405379016,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,0,'succeeded','lab/x','',1,'succeeded',1795710405561719,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,1,'skipped','lab/x','',1,'skipped',1795710405554892,'equal to `before` of run before00000',NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,2,'failed','lab/x','',1,'failed',1795710405561402,'exit code 3',NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,3,'spent','lab/x','',1,'failed',1795710405576018,'exit code 2, after 2 attempts',NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,4,'no-outputs','lab/x','',1,'failed',1795710405561993,'exit code 4',NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,5,'nothing-left','lab/x','',1,'failed',1795710405569392,'/out: there is no such output',NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,6,'late','lab/x','',1,'failed',1795710406072149,'took longer than its timeout of 500 ms',NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,7,'retrying','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,8,'again','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,9,'holder','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,10,'collecting','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,11,'collecting-failed','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,12,'running','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,13,'waiting','lab/x','',1,NULL,NULL,NULL,NULL,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,14,'blocked','lab/x','',1,'blocked',1795710405561480,'depends on `failed`, which did not succeed',2,'simulated:lab/x',1,0,NULL);
INSERT INTO "trials" VALUES(2,15,'blocked-behind','lab/x','',1,'blocked',1795710405561480,'depends on `blocked`, which is blocked by `failed`',2,'simulated:lab/x',1,0,NULL);
CREATE TABLE working_trees (
    run INTEGER PRIMARY KEY REFERENCES runs,
    diff TEXT NOT NULL,
    is_cut INTEGER NOT NULL,
    untracked TEXT NOT NULL,
    left_out TEXT NOT NULL
  , by_index TEXT NOT NULL DEFAULT '', problem TEXT NOT NULL DEFAULT '');
CREATE INDEX runs_of_experiment ON runs (experiment);
CREATE INDEX trials_by_name ON trials (run, name);
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
CREATE INDEX recollections_by_hash ON recollections (hash);
COMMIT;
