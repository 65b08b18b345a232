// The diagnosis of a scripted daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "wire/docker_fixture.hpp"

namespace combu::wire {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using Kind = Finding::Kind;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// The members of /info of an engine on this machine without faults.
json good_info() {
  return {{"NCPU", 1},
          {"MemTotal", 1},
          {"Name", host_name()},
          {"DockerRootDir", std::filesystem::temp_directory_path()},
          {"LiveRestoreEnabled", true},
          {"MemoryLimit", true},
          {"SwapLimit", true},
          {"CpuCfsQuota", true},
          {"PidsLimit", true},
          {"CgroupDriver", "systemd"},
          {"SecurityOptions", {"name=seccomp,profile=builtin"}},
          {"Runtimes", {{"runc", json::object()}}}};
}

ScriptedDaemon::Handler with_info(const json& info) {
  return after_ping([info](const Asked& asked) {
    if (asked.target.ends_with("/version")) return whole(200, R"({"Version": "29.1", "ApiVersion": "1.52"})");
    return whole(200, info.dump());
  });
}

std::vector<Finding> diagnosed(const ScriptedDaemon& daemon, Seconds silence_max = Seconds{20}) {
  return open_at(daemon.address(), silence_max)->diagnose({});
}

// Returns the finding with this subject, or an empty finding.
Finding finding_about(const std::vector<Finding>& findings, const std::string& subject) {
  for (const Finding& finding : findings)
    if (finding.subject == subject) return finding;
  return {};
}

TEST(DockerDiagnosis, AGoodEngine) {
  const ScriptedDaemon daemon(with_info(good_info()));
  const std::vector<Finding> findings = diagnosed(daemon);
  EXPECT_EQ(findings.at(0).kind, Kind::good);
  EXPECT_EQ(findings.at(0).subject, "engine");
  EXPECT_EQ(findings.at(0).text, "Docker Engine 29.1 (API 1.41) at " + daemon.address() + " (from the test)");
  EXPECT_EQ(finding_about(findings, "restart").kind, Kind::good);
  EXPECT_THAT(finding_about(findings, "disk").text,
              HasSubstr("are free on the disk of " + std::filesystem::temp_directory_path().string()));
  EXPECT_EQ(finding_about(findings, "limits").text, "");
}

TEST(DockerDiagnosis, ReadsTheSettingsOfTheEngine) {
  json info = good_info();
  info["LiveRestoreEnabled"] = false;
  info["MemoryLimit"] = false;
  info["SecurityOptions"].push_back("name=rootless");
  const std::vector<Finding> findings = diagnosed(ScriptedDaemon(with_info(info)));
  EXPECT_THAT(finding_about(findings, "restart").remedy, HasSubstr("~/.config/docker/daemon.json"));
  EXPECT_THAT(finding_about(findings, "limits").remedy, HasSubstr("controller memory"));
  info = good_info();
  info["CgroupDriver"] = "none";
  info["Swarm"] = {{"LocalNodeState", "active"}};
  const std::vector<Finding> others = diagnosed(ScriptedDaemon(with_info(info)));
  EXPECT_THAT(finding_about(others, "limits").text, HasSubstr("without control groups"));
  EXPECT_EQ(finding_about(others, "restart").text, "");
}

TEST(DockerDiagnosis, MembersOfAnotherTypeCountAsAbsent) {
  json info = good_info();
  for (const char* name : {"Name", "DockerRootDir", "LiveRestoreEnabled", "MemoryLimit", "CgroupDriver",
                           "SecurityOptions", "Runtimes", "Swarm"})
    info[name] = 1;
  EXPECT_EQ(diagnosed(ScriptedDaemon(with_info(info))).at(0).kind, Kind::good);
}

TEST(DockerDiagnosis, DisksOfAnotherMachineAreNotMeasured) {
  json info = good_info();
  info["Name"] = "another-machine.example";
  EXPECT_EQ(finding_about(diagnosed(ScriptedDaemon(with_info(info))), "disk").text, "");
  const ScriptedDaemon tcp(with_info(good_info()), ScriptedDaemon::Kind::tcp);
  EXPECT_EQ(finding_about(diagnosed(tcp), "disk").text, "");
}

TEST(DockerDiagnosis, AMissingSocketIsUnreachable) {
  const std::vector<Finding> findings = open_at("unix:///nonexistent/docker.sock")->diagnose({});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_TRUE(findings[0].is_unreachable);
  EXPECT_THAT(findings[0].text, StartsWith("/nonexistent/docker.sock (from the test) does not exist"));
}

TEST(DockerDiagnosis, AnEngineThatIsTooOld) {
  const std::vector<Finding> findings =
      diagnosed(ScriptedDaemon(after_ping([](const Asked&) { return whole(200, "{}"); }, "1.40")));
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].kind, Kind::fault);
  EXPECT_FALSE(findings[0].is_unreachable);
  EXPECT_THAT(findings[0].text, HasSubstr("combu needs version 1.41"));
}

TEST(DockerDiagnosis, AServerThatIsNoEngine) {
  for (const Reply& reply : {whole(200, "<html>welcome</html>"), cut("220 mail.example.com ESMTP\r\n")}) {
    const std::vector<Finding> findings = diagnosed(ScriptedDaemon([&](const Asked&) { return reply; }));
    ASSERT_EQ(findings.size(), 1U);
    EXPECT_EQ(findings[0].kind, Kind::fault);
    EXPECT_TRUE(findings[0].is_unreachable);
  }
}

TEST(DockerDiagnosis, AnEngineThatDoesNotAnswer) {
  const std::vector<Finding> silent =
      diagnosed(ScriptedDaemon([](const Asked&) { return stall(); }), Seconds{0.05});
  ASSERT_EQ(silent.size(), 1U);
  EXPECT_TRUE(silent[0].is_unreachable);
  EXPECT_THAT(silent[0].remedy, HasSubstr("journalctl"));
  const std::vector<Finding> absent = open_at("tcp://127.0.0.1:1")->diagnose({});
  ASSERT_EQ(absent.size(), 1U);
  EXPECT_TRUE(absent[0].is_unreachable);
}

TEST(DockerDiagnosis, CanBeCancelled) {
  ScriptedDaemon daemon([](const Asked&) { return stall(); });
  std::stop_source stop;
  stop.request_stop();
  const std::optional<Error> error =
      error_of([&] { (void)open_at(daemon.address())->diagnose(stop.get_token()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::cancelled);
}

TEST(DockerDiagnosis, AnInvalidConfigurationIsAFault) {
  const ScriptedDaemon daemon(with_info(good_info()));
  const auto engine = open_docker(
      {parse_address(daemon.address()), "the test", "/nonexistent"},
      {.gpus = []() -> std::vector<Gpu> { throw Error(ErrorKind::invalid, "config.json", "why"); }});
  const Finding finding = finding_about(engine->diagnose({}), "configuration");
  EXPECT_EQ(finding.kind, Kind::fault);
  EXPECT_EQ(finding.text, "config.json: why");
}

// A machine with an NVIDIA GPU: PATH is a folder with an `nvidia-smi`.
class NvidiaMachine : public testing::Test {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs between two tests
  NvidiaMachine() {
    if (::mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no folder");
    if (const char* path = std::getenv("PATH")) path_ = path;
    ::setenv("PATH", folder_.c_str(), 1);
    write("nvidia-smi", "echo '0, GPU-5d1f, 81559, NVIDIA H100 80GB HBM3'\n");
  }
  ~NvidiaMachine() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  // NOLINTEND(concurrency-mt-unsafe)
  NvidiaMachine(const NvidiaMachine&) = delete;
  NvidiaMachine& operator=(const NvidiaMachine&) = delete;

  void write(const std::string& name, const std::string& script) const {
    std::ofstream(folder_ + "/" + name) << "#!/bin/sh\n" << script;
    std::filesystem::permissions(folder_ + "/" + name, std::filesystem::perms::owner_all);
  }
  static Finding of(const json& info) {
    return finding_about(diagnosed(ScriptedDaemon(with_info(info))), "gpus");
  }

 private:
  std::string folder_ = std::filesystem::temp_directory_path() / "combu-nvidia-XXXXXX";
  std::string path_;
};

TEST_F(NvidiaMachine, NeedsTheToolkit) {
  EXPECT_EQ(of(good_info()).kind, Kind::warning);
  EXPECT_THAT(of(good_info()).remedy, StartsWith("install the package"));
  write("nvidia-ctk", "");
  EXPECT_THAT(of(good_info()).remedy, StartsWith("run `sudo nvidia-ctk"));
  write("nvidia-container-runtime-hook", "");
  EXPECT_EQ(of(good_info()).kind, Kind::good);
}

TEST_F(NvidiaMachine, MayHaveARuntimeOrCdiDevices) {
  json info = good_info();
  info["Runtimes"]["nvidia"] = json::object();
  EXPECT_THAT(of(info).text, HasSubstr("by NVIDIA's runtime"));
  info = good_info();
  info["DiscoveredDevices"] = {{{"Source", "cdi"}, {"ID", "nvidia.com/gpu=0"}}};
  EXPECT_THAT(of(info).text, HasSubstr("as CDI devices"));
}

}  // namespace
}  // namespace combu::wire
