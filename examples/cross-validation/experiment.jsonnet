// Cross-validation: each fold fits a line to all parts of the data except one; the ensemble averages the lines and is tested.
local combu = import "combu.libsonnet";
local folds = combu.folds(5);

local name(fold) = "fold-%d" % fold.fold;

{
  experiment: "cross-validation",
  // With `entrypoint: []`, `cmd` begins with the program. A cluster runs the image even if no registry has it.
  defaults: { image: "combu-demo", entrypoint: [] },
  trials: [
    { name: "preprocess", cmd: "preprocess", env: { PARTS: std.toString(std.length(folds)) }, outputs: ["/parts", "/test"] },
  ] + [
    {
      name: name(fold),
      cmd: "fold",
      params: { fold: fold.fold, lr: 0.5 },  // in the container: COMBU_PARAM_FOLD, COMBU_PARAM_LR
      // combu copies outputs of `preprocess` into the container, so the fold starts as soon as `preprocess` has succeeded.
      inputs: ["trial:preprocess/parts/%d:/train/" % part for part in fold.train] +
              ["trial:preprocess/parts/%d:/validate" % fold.test],
      outputs: ["/model"],
      metrics: "json",  // numbers in lines like {"step": 3, "loss": 0.2}
    }
    for fold in folds
  ] + [
    {
      name: "ensemble",
      cmd: "ensemble",
      inputs: ["trial:preprocess/test:/test"] +
              ["trial:%s/model:/models/%d" % [name(fold), fold.fold] for fold in folds],
      outputs: ["/report"],
      metrics: "json",
    },
  ],
}
