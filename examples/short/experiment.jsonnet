// Short trials in warm containers: two ways to estimate pi, with many seeds each.
function(seeds=10000) {
  local trials(method) = std.makeArray(seeds, function(seed) {
    name: method + "-" + seed,
    // The program gets `params` as the environment variables COMBU_PARAM_METHOD and COMBU_PARAM_SEED.
    params: { method: method, seed: seed },
  }),

  experiment: "short",
  defaults: {
    image: "combu-demo",
    entrypoint: [],  // `cmd` begins with the program; a cluster runs the image even if no registry has it
    cmd: "estimate",
    metrics: "json",  // numbers in lines like {"step": 64, "error": 0.05}
    worker: { concurrency: 4 },  // one worker for each CPU, with up to four attempts at once in it
  },
  trials: trials("plain") + trials("stratified"),
}
