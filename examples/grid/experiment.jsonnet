// Every combination of learning rate and momentum, and five random combinations. The seed 42 makes these the same in every run.
local combu = import "combu.libsonnet";

local points =
  combu.grid({ lr: [0.001, 0.01, 0.05], momentum: [0, 0.5, 0.9] }) +
  combu.sample(5, { lr: [0.002, 0.005, 0.02, 0.1], momentum: [0.3, 0.7] }, 42);

{
  experiment: "grid",
  defaults: { image: "combu-demo", cmd: "descend" },
  trials: [
    // The container gets `params` as the environment variables COMBU_PARAM_LR and COMBU_PARAM_MOMENTUM.
    { name: "descend-%02d" % i, params: points[i] }
    for i in std.range(0, std.length(points) - 1)
  ],
}
