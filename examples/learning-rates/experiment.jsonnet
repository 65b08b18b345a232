// Five learning rates with eight seeds each: forty trials.
local combu = import "combu.libsonnet";

{
  experiment: "learning-rates",
  defaults: { image: "combu-demo", cmd: "train", cpus: 0.5, metrics: "json", outputs: ["/out"] },
  trials: [
    { name: "lr%s-seed%d" % [point.lr, point.seed], params: point }
    for point in combu.grid({ lr: [0.03, 0.1, 0.3, 0.9, 1.5], seed: std.range(1, 8) })
  ],
}
