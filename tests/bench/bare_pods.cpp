// bare_pods start|read|serve|remove WIDTH EXPERIMENT.json CONTEXT
//
// `start` creates the same Pods as combu, watches them until all have ended, and does nothing else: no plan,
// no record, no logs. `read` also reads the log of each ended Pod, and `serve` then deletes the Pod, as combu
// does. `remove` deletes the Pods by deletecollection, and waits until they are gone. WIDTH threads send the
// requests. EXPERIMENT.json is evaluated JSON without dependencies. Prints the duration in seconds. The
// cluster is that of the context CONTEXT in KUBECONFIG; each program but `remove` needs a cluster without
// Pods of an earlier program.

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "combu/base.hpp"
#include "combu/json.hpp"
#include "combu/spec.hpp"
#include "kubernetes/kubeconfig.hpp"
#include "kubernetes/manifest.hpp"
#include "kubernetes/objects.hpp"
#include "run/work_queue.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

using Steady = std::chrono::steady_clock;

constexpr const char* k_run = "bare";

std::string selector(const RunId& run) {
  return "combu.run=" + run.text();
}

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
  return {.id = RunId(k_run), .experiment = std::move(reading.experiment)};
}

std::string text_after(std::string_view line, std::string_view member) {
  const std::size_t at = line.find(member);
  if (at == std::string_view::npos) return {};
  const std::size_t begin = at + member.size();
  return std::string(line.substr(begin, line.find('"', begin) - begin));
}

// Passes the name of each Pod that ends to `on_end`, until `count` Pods have ended. The API server may end a
// watch that is slow; the next watch begins at the last known version.
void watch_ends(ApiClient& api, Objects& objects, const RunId& run, std::string version, std::size_t count,
                const std::function<void(const std::string&)>& on_end) {
  std::set<std::string> ended;
  std::stop_source stop;
  const auto take = [&](std::string_view line) {
    // The bare loop reads only the version, the phase and the name of each Pod.
    if (line.starts_with(R"({"type":"ERROR")"))
      throw Error(ErrorKind::unavailable, "the watch", std::string(line));
    version = text_after(line, R"("resourceVersion":")");
    const std::string phase = text_after(line, R"("phase":")");
    if (phase != "Succeeded" && phase != "Failed") return;
    const auto [name, is_new] = ended.emplace(text_after(line, R"("name":")"));
    if (is_new) on_end(*name);
    if (ended.size() == count) stop.request_stop();
  };
  while (ended.size() < count)
    api.read(fmt::format("{}?watch=1{}{}", objects.path(k_pods), query_part("labelSelector", selector(run)),
                         query_part("resourceVersion", version)),
             {.on_line = take, .silence_max = Seconds{600}}, stop.get_token());
}

enum class After { nothing, log, log_and_removal };

void start(ApiClient& api, Objects& objects, const Run& run, std::size_t width, After after) {
  const std::vector<Trial>& trials = run.experiment.trials;
  const std::string version = objects.list(
      k_pods, {.labels = selector(run.id), .fields = {}}, [](json&) {}, [] {}, {});
  WorkQueue<std::string> ended;
  std::atomic<std::size_t> served = 0;
  std::vector<std::jthread> servers;
  for (std::size_t i = 0; after != After::nothing && i < width; ++i)
    servers.emplace_back([&] {
      while (const auto name = ended.pop()) {
        api.read(objects.path(k_pods, *name) + "/log?timestamps=true", {.on_bytes = [](std::string_view) {}},
                 {});
        if (after == After::log_and_removal) objects.remove(k_pods, *name, std::nullopt, {}, {});
        if (++served == trials.size()) ended.close();
      }
    });
  std::jthread watcher([&] {
    watch_ends(api, objects, run.id, version, trials.size(),
               [&](const std::string& name) { ended.push(name); });
  });
  // The anchor owns the Pods of a run.
  const json anchor = objects.create(k_config_maps, anchor_manifest(run), {});
  const Home home{objects.name_space(), std::string(text_of(anchor, {"metadata", "uid"}))};
  in_parallel(trials.size(), width,
              [&](std::size_t i) { objects.create_pod(pod_manifest(run, trials[i], 1, home), {}); });
}

void remove(Objects& objects) {
  const ObjectFilter all{.labels = selector(RunId(k_run)), .fields = {}};
  objects.remove_pages(k_pods, all, 1, [](std::size_t) {}, {});
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
  if (what == "remove") {
    remove(objects);
  } else {
    const After after = what == "serve"  ? After::log_and_removal
                        : what == "read" ? After::log
                                         : After::nothing;
    start(api, objects, read_run(path), std::stoul(width), after);
  }
  fmt::print("{:.3f}\n", Seconds(Steady::now() - begin).count());
  return 0;
}

}  // namespace
}  // namespace combu::kubernetes

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "bare_pods start|read|serve|remove WIDTH EXPERIMENT.json CONTEXT\n");
    return 2;
  }
  try {
    return combu::kubernetes::bench(argv[1], argv[2], argv[3], argv[4]);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_pods: {}\n", error.what());
    return 1;
  }
}
