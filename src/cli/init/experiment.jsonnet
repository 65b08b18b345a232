// The experiment. `make plan` shows its trials; `man combu-experiment` describes every field.
local combu = import "combu.libsonnet";
local project = "my-experiment";
local points = combu.grid({ lr: [0.01, 0.1, 0.5], seed: [1, 2, 3] });
local name(point) = "%s-lr%s-seed%d" % [project, point.lr, point.seed];

{
  experiment: project,
  defaults: {
    image: project,
    metrics: "json",  // the metrics are numbers in log lines like {"step": 3, "loss": 0.2}
    outputs: ["/out"],  // combu copies this folder of each container into results/
  },
  trials: [
    // The container gets `params` as the environment variables COMBU_PARAM_LR and COMBU_PARAM_SEED.
    { name: name(point), cmd: "train", params: point }
    for point in points
  ] + [
    {
      name: project + "-best",
      cmd: "choose",
      // The inputs are outputs of the other trials, so this trial starts as soon as all other trials have succeeded.
      inputs: ["trial:%s/out/model:/models/%s" % [name(point), name(point)] for point in points],
    },
  ],
}
