#pragma once
// One trial, its container as an engine describes it, and a Docker engine that talks to a scripted daemon.

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "combu/docker.hpp"
#include "error_of.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::wire {

using nlohmann::json;
using test::error_of;

inline const std::string k_id = "0123456789abcdef";

inline Reply ping(const std::string& version = "1.41") {
  return whole(200, "OK", "Api-Version: " + version + "\r\n");
}

inline std::string message(const std::string& text) {
  return json{{"message", text}}.dump();
}

// Answers /_ping and the request for past events; `rest` answers all other requests.
inline ScriptedDaemon::Handler after_ping(ScriptedDaemon::Handler rest, const std::string& version = "1.41") {
  return [rest = std::move(rest), version](const Asked& asked) {
    if (asked.target.find("&until=") != std::string::npos) return whole(200, "");
    return asked.target == "/_ping" ? ping(version) : rest(asked);
  };
}

inline std::unique_ptr<Engine> open_at(const std::string& address, Seconds silence_max = Seconds{20}) {
  return open_docker({parse_address(address), "the test", "/nonexistent"}, {silence_max});
}

inline Run example_run() {
  Run run;
  run.id = RunId("run1");
  run.experiment.name = "exp";
  run.experiment.file = "/f";
  Trial trial;
  trial.name = "a";
  trial.image = "img";
  run.experiment.trials = {trial};
  return run;
}

inline json example_labels() {
  return {{"combu.experiment", "exp"},
          {"combu.file", "/f"},
          {"combu.run", "run1"},
          {"combu.trial", "a"},
          {"combu.attempt", "1"}};
}

inline std::string inspected(const std::string& state, const json& labels) {
  return json{{"Id", k_id},
              {"Name", "/a"},
              {"State", {{"Status", state}, {"ExitCode", 5}, {"StartedAt", "2026-01-02T03:04:05Z"}}},
              {"Config", {{"Image", "img"}, {"Tty", false}, {"Labels", labels}}}}
      .dump();
}

inline std::string listed(const std::string& state, const std::string& status) {
  return json::array({{{"Id", k_id},
                       {"Names", {"/a"}},
                       {"Image", "img"},
                       {"State", state},
                       {"Status", status},
                       {"Created", 1700000000},
                       {"Labels", example_labels()},
                       {"Ports", json::array()}}})
      .dump();
}

inline std::string event(const std::string& action, const std::string& exit_code = "",
                         const std::string& signal = "") {
  json attributes = example_labels();
  attributes["image"] = "img";
  attributes["name"] = "a";
  if (!exit_code.empty()) attributes["exitCode"] = exit_code;
  if (!signal.empty()) attributes["signal"] = signal;
  return json{
             {"Type", "container"}, {"Action", action}, {"Actor", {{"ID", k_id}, {"Attributes", attributes}}}}
             .dump() +
         "\n";
}

inline std::optional<Error> start_error(const std::string& address) {
  const std::unique_ptr<Engine> engine = open_at(address);
  const combu::Run run = example_run();
  return error_of([&] { engine->start(run, run.experiment.trials[0], 1, {}); });
}

}  // namespace combu::wire
