// Each NAME.json beside this file is an evaluated experiment. NAME.expected is its plan, or all its errors,
// in readable form. COMBU_GOLDEN_WRITE=1 rewrites the expected files: review the difference before you commit
// it.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

namespace {

namespace fs = std::filesystem;
using namespace combu;

const std::string k_folder = COMBU_SOURCE_DIR "/tests/golden";

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Replaces the path of the checkout's folder tests/golden by FOLDER.
std::string without_folder(std::string text) {
  for (std::size_t at = 0; (at = text.find(k_folder, at)) != std::string::npos;) {
    text.replace(at, k_folder.size(), "FOLDER");
  }
  return text;
}

Caller ada() {
  Caller caller;
  caller.file = k_folder + "/experiment.jsonnet";
  caller.folder = k_folder;
  caller.home = "/home/ada";
  caller.uid = 1000;
  caller.gid = 1001;
  caller.env = [](const std::string& name) {
    return name == "TOKEN" ? std::optional<std::string>("a token") : std::nullopt;
  };
  return caller;
}

class Lines {
 public:
  void add(std::string_view field, const std::string& value) {
    if (!value.empty()) text_ += fmt::format("      {}: {}\n", field, value);
  }
  void add(std::string_view field, const std::optional<std::vector<std::string>>& words) {
    if (words) text_ += fmt::format("      {}: {}\n", field, *words);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string seconds(Seconds duration) {
  return fmt::format("{} s", duration.count());
}

void describe_healthcheck(const Healthcheck& check, Lines& lines) {
  lines.add("healthcheck", fmt::format("{} interval {}, timeout {}, start {}, retries {}", check.test,
                                       seconds(check.interval), seconds(check.timeout),
                                       seconds(check.start_period), check.retries));
}

void describe_worker(const WorkerSettings& worker, Lines& lines) {
  lines.add("worker", fmt::format("count {}, concurrency {}, trials {}, age {}, idle {}", worker.count,
                                  worker.concurrency, worker.trials_max, seconds(worker.age_max),
                                  seconds(worker.idle)));
}

std::string describe(const Trial& trial) {
  Lines lines;
  lines.add("image", trial.image);
  lines.add("entrypoint", trial.process.entrypoint);
  lines.add("cmd", trial.process.cmd);
  for (const auto& [name, value] : trial.process.env) lines.add("env", fmt::format("{}={}", name, value));
  lines.add("workdir", trial.process.workdir);
  lines.add("user", trial.process.user);
  if (!trial.process.init) lines.add("init", "false");
  lines.add("stop_signal", trial.process.stop_signal);
  if (trial.process.stop_grace) lines.add("stop_grace", seconds(*trial.process.stop_grace));
  for (const auto& [name, value] : trial.container.labels)
    lines.add("label", fmt::format("{}={}", name, value));
  for (const Port& port : trial.container.ports) {
    lines.add("port", fmt::format("{}|{} -> {} {}", port.host_ip, port.host, port.container, port.protocol));
  }
  for (const Volume& volume : trial.container.volumes) {
    lines.add("volume",
              fmt::format("{}{} {} -> {}{}{}", volume.remote ? "remote " : "",
                          volume.source_is_path ? "path" : "named", volume.source, volume.target,
                          volume.read_only ? " read-only" : "", volume.folder_meant ? " (a folder)" : ""));
  }
  for (const Input& input : trial.inputs) {
    lines.add("input", fmt::format("{}{} -> {}{}", input.trial.empty() ? "" : input.trial + "'s ", input.from,
                                   input.in_scratch ? "$COMBU_SCRATCH" : "", input.to));
  }
  for (const Secret& secret : *trial.container.secrets)
    lines.add("secret", fmt::format("{}{} -> {}{}", secret.source, secret.is_in_cluster ? " (cluster)" : "",
                                    secret.variable.empty() ? "" : "variable ",
                                    secret.variable.empty() ? secret.target : secret.variable));
  for (const Output& output : trial.outputs)
    lines.add("output", (output.in_scratch ? "$COMBU_SCRATCH" : "") + output.path);
  lines.add("metrics", trial.metrics->file);
  if (trial.worker) describe_worker(*trial.worker, lines);
  if (!trial.container.networks.empty())
    lines.add("networks", fmt::format("{}", fmt::join(trial.container.networks, ", ")));
  if (trial.healthcheck) describe_healthcheck(*trial.healthcheck, lines);
  if (trial.pull != Pull::missing) lines.add("pull", trial.pull == Pull::always ? "always" : "never");
  lines.add("platform", trial.platform);
  lines.add("params", trial.params + (trial.params_file ? " (also as a file)" : ""));
  lines.add("docker", trial.container.docker);
  lines.add("kubernetes", trial.container.kubernetes);
  return lines.text();
}

std::string describe(const SecretSource& source) {
  return fmt::format("secret {}: {}\n", source.name,
                     !source.file.empty()       ? "file " + source.file
                     : !source.variable.empty() ? "variable " + source.variable
                     : !source.command.empty()  ? fmt::format("command {}", source.command)
                                                : fmt::format("cluster {}/{}", source.object, source.key));
}

std::string describe(const Experiment& experiment, const Plan& plan) {
  std::string text = fmt::format("experiment {}\n", experiment.name);
  if (experiment.keep == Keep::ended) text += "keep: ended\n";
  if (experiment.ttl.count() > 0) text += fmt::format("ttl: {}\n", seconds(experiment.ttl));
  if (experiment.isolates_networks) text += "isolate: true\n";
  for (const SecretSource& source : experiment.secrets) text += describe(source);
  for (std::uint32_t wave = 0; wave < plan.wave_count; ++wave) {
    text += fmt::format("wave {}\n", wave);
    for (std::size_t at = 0; at < plan.nodes.size(); ++at) {
      if (plan.nodes[at].wave != wave) continue;
      text += fmt::format("  {}\n", experiment.trials[at].name);
      for (const Edge& edge : plan.nodes[at].needs) {
        text +=
            fmt::format("      needs {} {}\n", experiment.trials[edge.trial].name, to_string(edge.condition));
      }
      text += describe(experiment.trials[at]);
    }
  }
  return text;
}

std::string outcome(const std::string& json) {
  const Reading reading = read_experiment(json, ada());
  const Planning planning = make_plan(reading.experiment);
  std::string errors;
  for (const auto* list : {&reading.errors, &planning.errors}) {
    for (const Error& error : *list) errors += fmt::format("{}\n", error.what());
  }
  return without_folder(errors.empty() ? describe(reading.experiment, planning.plan) : errors);
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(k_folder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, PlanOrErrorsAreAsExpected) {
  const fs::path json = fs::path(k_folder) / (GetParam() + ".json");
  const fs::path expected = fs::path(k_folder) / (GetParam() + ".expected");
  const std::string actual = outcome(read_file(json));
  if (std::getenv("COMBU_GOLDEN_WRITE") != nullptr) {  // NOLINT(concurrency-mt-unsafe): one thread
    std::ofstream(expected, std::ios::binary) << actual;
  }
  EXPECT_EQ(read_file(expected), actual);
}

INSTANTIATE_TEST_SUITE_P(Files, Golden, testing::ValuesIn(cases()), [](const auto& named) {
  std::string name = named.param;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
