// bare_pods start|remove WIDTH EXPERIMENT.json CONTEXT
//
// Creates the same Pods as combu, watches them until all have ended, and does nothing else: no plan, no
// record, no logs. WIDTH threads send the requests. EXPERIMENT.json is evaluated JSON without dependencies.
// `remove` deletes the Pods by deletecollection, and waits until they are gone. Prints the duration in
// seconds. The cluster is that of the context CONTEXT in KUBECONFIG.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "combu/base.hpp"
#include "combu/json.hpp"
#include "combu/spec.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "kubernetes/manifest.hpp"
#include "kubernetes/objects.hpp"

namespace combu::kubernetes {
namespace {

using Steady = std::chrono::steady_clock;

const std::string k_selector = "combu.run=bare";

Run read_run(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Caller caller;
  caller.file = path;
  caller.folder = caller.home = "/";
  caller.env = [](const std::string&) { return std::optional<std::string>(); };
  Reading reading = read_experiment(text.str(), caller);
  if (!reading.errors.empty()) throw Error(reading.errors.front());
  return {.id = RunId("bare"), .experiment = std::move(reading.experiment)};
}

// Returns the moment at which the last Pod has ended.
void watch_ends(ApiClient& api, Objects& objects, const std::string& version, std::size_t count) {
  std::set<std::string> ended;
  std::stop_source stop;
  const auto take = [&](std::string_view line) {
    // The bare loop reads only the phase and the name of each Pod.
    const bool is_over = line.find("\"phase\":\"Succeeded\"") != std::string_view::npos ||
                         line.find("\"phase\":\"Failed\"") != std::string_view::npos;
    if (!is_over) return;
    const std::size_t at = line.find("\"name\":\"") + 8;
    ended.emplace(line.substr(at, line.find('"', at) - at));
    if (ended.size() == count) stop.request_stop();
  };
  api.read(fmt::format("{}?watch=1{}{}", objects.path(k_pods), query_part("labelSelector", k_selector),
                       query_part("resourceVersion", version)),
           {.on_line = take, .silence_max = Seconds{600}}, stop.get_token());
}

void start(ApiClient& api, Objects& objects, const Run& run, std::size_t width) {
  const std::vector<Trial>& trials = run.experiment.trials;
  const std::string version = objects.version(k_pods, {});
  std::jthread watcher([&] { watch_ends(api, objects, version, trials.size()); });
  const Home home{objects.name_space(), ""};
  in_parallel(trials.size(), width,
              [&](std::size_t i) { objects.create_pod(pod_manifest(run, trials[i], 1, home), {}); });
}

void remove(Objects& objects) {
  const ObjectFilter all{.labels = k_selector, .fields = {}};
  while (objects.remove_some(k_pods, all, 1, {})) {
  }
  while (objects.is_any(k_pods, all, {})) real_clock().wait(Seconds{0.1}, {});
}

int bench(const std::string& what, const char* width, const char* path, const std::string& context) {
  const auto environment = [](const std::string& name) {
    const char* const value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  const Access access = find_access(environment, context, "");
  ApiClient api(access);
  Objects objects(api, access.name_space);
  const auto begin = Steady::now();
  if (what == "start")
    start(api, objects, read_run(path), std::stoul(width));
  else
    remove(objects);
  fmt::print("{:.3f}\n", Seconds(Steady::now() - begin).count());
  return 0;
}

}  // namespace
}  // namespace combu::kubernetes

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "bare_pods start|remove WIDTH EXPERIMENT.json CONTEXT\n");
    return 2;
  }
  try {
    return combu::kubernetes::bench(argv[1], argv[2], argv[3], argv[4]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_pods: {}\n", error.what());
    return 1;
  }
}
