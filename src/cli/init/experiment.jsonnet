// What is run: `make plan` shows it. `man combu-experiment` tells every field.
local combu = import "combu.libsonnet";
local project = "my-experiment";
local points = combu.grid({ lr: [0.01, 0.1, 0.5], seed: [1, 2, 3] });
local name(point) = "%s-lr%s-seed%d" % [project, point.lr, point.seed];

{
  experiment: project,
  defaults: {
    image: project,
    metrics: "json",  // numbers in lines like {"step": 3, "loss": 0.2}
    outputs: ["/out"],  // comes home into results/
  },
  trials: [
    // In the container: COMBU_PARAM_LR, COMBU_PARAM_SEED.
    { name: name(point), cmd: "train", params: point }
    for point in points
  ] + [
    {
      name: project + "-best",
      cmd: "choose",
      // What the others have left; so it starts when they have succeeded.
      inputs: ["trial:%s/out/model:/models/%s" % [name(point), name(point)] for point in points],
    },
  ],
}
