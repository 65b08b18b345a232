// Four trials estimate pi, each from other random points, and report their estimates to the service `board`.
local uuid = "UUID";
local points = 200000;

local estimate(seed) = {
  name: "pi-%d" % seed,
  image: "combu-demo",
  cmd: "pi",
  env: { SEED: std.toString(seed), POINTS: std.toString(points) },
  labels: { run: uuid },
  networks: ["quickstart"],
  depends: [{ trial: "board", condition: "healthy" }],
};

{
  experiment: "quickstart",
  trials: [estimate(seed) for seed in std.range(1, 4)] + [
    {
      name: "board",
      image: "combu-demo",
      cmd: "board",
      service: true,  // combu stops the service after the last trial
      networks: ["quickstart"],
      healthcheck: { test: "wget -q -O /dev/null http://127.0.0.1:8080/", interval: "1s" },
    },
  ],
}
