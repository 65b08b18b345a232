// Each fold leaves its error in ./results; one trial sums them up when all folds have succeeded.
local combu = import "combu.libsonnet";
local folds = 5;

local shared = {
  image: "combu-demo",
  user: "caller",  // so that the files in ./results are yours
  volumes: ["./results:/results"],
};

local fold(part) = shared {
  name: "fold-%d" % part.fold,
  cmd: "fold",
  env: { FOLD: std.toString(part.fold), FOLDS: std.toString(folds) },
};

local trials = [fold(part) for part in combu.folds(folds)];

{
  experiment: "cross-validation",
  trials: trials + [
    shared {
      name: "aggregate",
      cmd: "aggregate",
      env: { FOLDS: std.toString(folds) },
      depends: [{ trial: trial.name, condition: "succeeded" } for trial in trials],
    },
  ],
}
