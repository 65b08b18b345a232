local uuid = "UUID";
local solver(id, mode) = {
  name: "solver-%s-%d" % [mode, id],
  image: "combu-demo",
  cmd: "make simulation ID=%d MODE=%s UUID=%s" % [id, mode, uuid],
  networks: ["simulation"],
  depends: ["loader"],
};
[solver(id, mode) for id in std.range(1, 5) for mode in ["a", "b"]] +
[{ name: "loader", image: "combu-demo", cmd: "loader", networks: ["simulation"], service: true }]
