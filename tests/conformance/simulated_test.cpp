// The conformance suite on the simulated engine, and on workers of the simulated engine.

#include "combu/simulated.hpp"

#include <fmt/format.h>

#include "conformance/engine_suite.hpp"
#include "conformance/wrapped_subject.hpp"

namespace combu::conformance {
namespace {

constexpr double k_speed = 20;

class SimulatedSubject : public Subject {
 public:
  explicit SimulatedSubject(const SimulationOptions& options = {}) : world_(options) {}

  Engine& engine() override { return *engine_; }

  Trial runs_until_stopped(const std::string& name) override { return does(name, "sleep 1000000"); }
  Trial exits_with(const std::string& name, int code) override {
    return does(name, "exit " + std::to_string(code));
  }
  Trial says(const std::string& name, const std::vector<std::string>& out,
             const std::vector<std::string>& err) override {
    std::string script;
    for (const std::string& line : out) script += "echo " + line + "; ";
    for (const std::string& line : err) script += "echo " + line + " >&2; ";
    return does(name, script);
  }
  Trial turns(const std::string& name, Health health) override {
    Trial trial = runs_until_stopped(name);
    trial.healthcheck = Healthcheck{.test = {"CMD", health == Health::healthy ? "true" : "false"}};
    return trial;
  }
  Trial cannot_start(const std::string& name) override {
    Trial trial = runs_until_stopped(name);
    trial.process.cmd = {"/no/such/command"};
    return trial;
  }

  Trial eats(const std::string& name, Bytes memory) override {
    return does(name, "eat " + std::to_string(memory.count));
  }

  Trial leaves(const std::string& name) override { return does(name, "echo kept > /out/a"); }
  Trial repeats(const std::string& name, const std::string& path) override {
    return does(name, fmt::format("cat {0} {0} > /out/a; cat {0} {0}", path));
  }

  void make_stranger(const std::string& name, std::uint16_t host_port) override {
    world_.add_stranger(name, host_port == 0 ? std::vector<Port>{} : std::vector<Port>{{.host = host_port}});
  }
  bool stranger_runs(const std::string& name) override { return world_.has_container(name); }
  void make_strange_network(const std::string& name) override { world_.add_strange_network(name); }
  bool has_network(const std::string& name) override { return world_.has_network(name); }

 private:
  static Trial does(const std::string& name, const std::string& script) {
    Trial trial;
    trial.name = name;
    trial.image = "image";
    trial.process.cmd = {"sh", "-c", script};
    return trial;
  }

  World world_;
  std::unique_ptr<Engine> engine_ = open_simulated(world_, k_speed);
};

const Flavour k_containers{"simulated", [] { return std::make_unique<SimulatedSubject>(); }};
const Flavour k_workers{"workers", [] {
                          return in_workers(std::make_unique<SimulatedSubject>(),
                                            [](std::string_view) { return "agent"; });
                        }};

const Flavour k_placing{"placing",
                        [] { return std::make_unique<SimulatedSubject>(SimulationOptions{.places = true}); }};

const Flavour k_placing_workers{"placing_workers", [] {
                                  return in_workers(
                                      std::make_unique<SimulatedSubject>(SimulationOptions{.places = true}),
                                      [](std::string_view) { return "agent"; });
                                }};

INSTANTIATE_TEST_SUITE_P(Simulated, EngineSuite,
                         testing::Values(k_containers, k_workers, k_placing, k_placing_workers),
                         flavour_name);
INSTANTIATE_TEST_SUITE_P(Simulated, HostSuite, testing::Values(k_containers, k_workers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Simulated, FileSuite,
                         testing::Values(k_containers, k_workers, k_placing, k_placing_workers),
                         flavour_name);
INSTANTIATE_TEST_SUITE_P(Simulated, HealthSuite, testing::Values(k_containers, k_placing), flavour_name);
INSTANTIATE_TEST_SUITE_P(Simulated, PlacingSuite, testing::Values(k_placing), flavour_name);
INSTANTIATE_TEST_SUITE_P(Simulated, ContainerSuite, testing::Values(k_containers), flavour_name);
// The containers of the simulation have no programs.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ExecSuite);
// The simulation ignores secrets: its programs have neither files nor variables.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SecretSuite);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SecretFileSuite);

}  // namespace
}  // namespace combu::conformance
