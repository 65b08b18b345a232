// bare_loop start|remove WIDTH EXPERIMENT.json ADDRESS
//
// Sends the same requests for each trial as combu, and nothing else: no plan, no checks, no events. The time
// is a lower bound for any program. WIDTH threads send the requests, each over its own connection.
// EXPERIMENT.json is evaluated JSON. If other trials depend on the first trial, the program starts the first
// trial alone. Prints the duration in seconds.

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "combu/base.hpp"
#include "combu/http.hpp"
#include "combu/spec.hpp"
#include "docker/container_json.hpp"

namespace combu {
namespace {

using Steady = std::chrono::steady_clock;

class Loop {
 public:
  Loop(Address address, std::size_t width) : address_(std::move(address)), width_(width) {}

  // Calls `send` for each index from `first` to `end`, from up to `width_` threads. Each thread has its own
  // connection.
  void run(std::size_t first, std::size_t end, const std::function<void(Channel&, std::size_t)>& send) {
    std::vector<std::unique_ptr<Channel>> idle;
    std::mutex mutex;
    in_parallel(end - first, width_, [&](std::size_t i) {
      std::unique_ptr<Channel> channel;
      {
        const std::scoped_lock lock(mutex);
        if (!idle.empty()) {
          channel = std::move(idle.back());
          idle.pop_back();
        }
      }
      if (!channel) channel = std::make_unique<Channel>(address_);
      send(*channel, first + i);
      const std::scoped_lock lock(mutex);
      idle.push_back(std::move(channel));
    });
  }

 private:
  Address address_;
  std::size_t width_;
};

std::string send(Channel& channel, const std::string& method, const std::string& target,
                 const std::string& body) {
  const HttpResponse answer = channel.send({.method = method, .target = "/v1.41" + target, .body = body}, {});
  if (answer.status >= 400 && answer.status != 409) {
    throw Error(ErrorKind::refused, target, fmt::format("{} {}", answer.status, answer.body));
  }
  return answer.body;
}

void start_all(const Experiment& experiment, const Address& address, std::size_t width) {
  const Run run{.id = RunId("bare"), .experiment = experiment};
  std::vector<std::string> bodies;
  std::set<std::string> networks;
  for (const Trial& trial : experiment.trials) {
    bodies.push_back(docker::container_json(run, trial, 1, docker::NetworksAtCreate::first).dump());
    networks.insert(trial.container.networks.begin(), trial.container.networks.end());
  }
  const auto began = Steady::now();
  Channel one(address);
  for (const std::string& network : networks) {
    send(one, "POST", "/networks/create", fmt::format(R"({{"Name":"{}","CheckDuplicate":true}})", network));
  }
  const auto start = [&](Channel& channel, std::size_t i) {
    const std::string created =
        send(channel, "POST", "/containers/create?name=" + experiment.trials[i].name, bodies[i]);
    send(channel, "POST",
         "/containers/" + nlohmann::json::parse(created).at("Id").get<std::string>() + "/start", "");
  };
  const bool one_first = experiment.trials.size() > 1 && !experiment.trials[1].depends.empty();
  if (one_first) start(one, 0);
  Loop(address, width).run(one_first ? 1 : 0, experiment.trials.size(), start);
  fmt::print("{:.4f}\n", std::chrono::duration<double>(Steady::now() - began).count());
}

void remove_all(const Experiment& experiment, const Address& address, std::size_t width) {
  std::set<std::string> networks;
  for (const Trial& trial : experiment.trials)
    networks.insert(trial.container.networks.begin(), trial.container.networks.end());
  const auto began = Steady::now();
  Loop(address, width).run(0, experiment.trials.size(), [&](Channel& channel, std::size_t i) {
    send(channel, "DELETE", "/containers/" + experiment.trials[i].name + "?force=1&v=1", "");
  });
  Channel one(address);
  for (const std::string& network : networks) {
    // Engine 20.10 can lose count of a network's users (moby#42119). The engine then refuses to remove the
    // network.
    const HttpResponse answer = one.send({.method = "DELETE", .target = "/v1.41/networks/" + network}, {});
    if (answer.status == 403) fmt::print(stderr, "the network {} stays: {}\n", network, answer.body);
  }
  fmt::print("{:.4f}\n", std::chrono::duration<double>(Steady::now() - began).count());
}

int bare_loop(const std::string& what, std::size_t width, const std::string& file,
              const std::string& address) {
  std::ostringstream json;
  json << std::ifstream(file).rdbuf();
  const Reading reading = read_experiment(
      json.str(),
      {.file = "bare", .folder = "/", .home = "/", .env = [](const std::string&) { return std::nullopt; }});
  for (const Error& error : reading.errors) throw Error(error);
  (what == "start" ? start_all : remove_all)(reading.experiment, parse_address(address), width);
  return 0;
}

}  // namespace
}  // namespace combu

int main(int argc, char** argv) {
  if (argc != 5) {
    fmt::print(stderr, "usage: bare_loop start|remove WIDTH EXPERIMENT.json ADDRESS\n");
    return 2;
  }
  try {
    return combu::bare_loop(argv[1], std::strtoull(argv[2], nullptr, 10), argv[3], argv[4]);
  } catch (const combu::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
