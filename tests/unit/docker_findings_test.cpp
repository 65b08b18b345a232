// The findings of `combu doctor` about sockets, and about the settings of an engine.

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "docker/findings.hpp"
#include "docker_fixture.hpp"

namespace combu::docker {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using Kind = Finding::Kind;

constexpr const char* k_source = "DOCKER_HOST";

// A socket on which this process listens.
class Listening {
 public:
  explicit Listening(const std::string& path) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, std::begin(address.sun_path));
    if (::bind(socket_.number(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(socket_.number(), 8) != 0)
      throw std::runtime_error("listen");
  }
  void end() { socket_.close(); }

 private:
  Descriptor socket_;
};

// Returns the text of socket_fault() with the remedy.
std::string fault_text(const SocketState& socket, const Machine& machine = {}) {
  const Finding fault = socket_fault(socket, machine, k_source);
  EXPECT_EQ(fault.kind, Kind::fault);
  EXPECT_EQ(fault.subject, "socket");
  EXPECT_TRUE(fault.is_unreachable);
  return fault.text + "; " + fault.remedy;
}

TEST(SocketFinding, NoneIfAProcessListens) {
  const Folder folder;
  const Listening listening(folder.path() + "/s");
  const SocketState socket = examine_socket(folder.path() + "/s");
  EXPECT_EQ(socket.error, 0);
  EXPECT_TRUE(socket.is_found);
  EXPECT_TRUE(socket.is_socket);
}

TEST(SocketFinding, AMissingSocketNamesTheWayToStartTheEngine) {
  const SocketState socket = examine_socket("/nonexistent/docker.sock");
  EXPECT_EQ(
      fault_text(socket, {.has_dockerd = true, .has_systemd = true}),
      "/nonexistent/docker.sock (from DOCKER_HOST) does not exist: no engine runs there; run `sudo systemctl "
      "start docker`, or name the address of another engine with --engine or DOCKER_HOST");
  EXPECT_THAT(fault_text(socket, {.has_dockerd = true}), HasSubstr("run `sudo dockerd`, or name"));
  EXPECT_THAT(fault_text(socket),
              HasSubstr("install Docker Engine (https://docs.docker.com/engine/install), or"));
  EXPECT_THAT(socket_fault(socket, {}, "the default").text, HasSubstr("docker.sock (the default) does not"));
  EXPECT_THAT(socket_fault(socket, {}, "context lab").text, HasSubstr("(from context lab) does not"));
  const SocketState own{.path = "/run/user/1000/docker.sock", .error = ENOENT};
  EXPECT_THAT(fault_text(own, {.has_dockerd = true, .has_systemd = true}),
              HasSubstr("run `systemctl --user start docker`"));
}

TEST(SocketFinding, NamesAnotherEngineOfThisMachine) {
  const Folder folder;
  // NOLINTBEGIN(concurrency-mt-unsafe): no other thread runs
  const char* const old = std::getenv("XDG_RUNTIME_DIR");
  const std::string kept = old == nullptr ? "" : old;
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const std::string path = folder.path() + "/docker.sock";
  {
    const Listening listening(path);
    EXPECT_THAT(examine_machine().sockets, testing::Contains(path));
    EXPECT_THAT(fault_text(examine_socket("/nonexistent/docker.sock"), {.sockets = {path}}),
                HasSubstr("; an engine listens at unix://" + path + ": use --engine unix://" + path +
                          ", or set DOCKER_HOST=unix://" + path));
  }
  EXPECT_THAT(examine_machine().sockets, Not(testing::Contains(path))) << "no process listens there any more";
  if (old == nullptr) {
    ::unsetenv("XDG_RUNTIME_DIR");
  } else {
    ::setenv("XDG_RUNTIME_DIR", kept.c_str(), 1);
  }
  // NOLINTEND(concurrency-mt-unsafe)
}

TEST(SocketFinding, ASocketWithoutAProcess) {
  const Folder folder;
  const std::string path = folder.path() + "/s";
  Listening(path).end();
  const SocketState socket = examine_socket(path);
  EXPECT_EQ(socket.error, ECONNREFUSED);
  EXPECT_THAT(fault_text(socket, {.has_dockerd = true, .has_systemd = true}),
              StartsWith("no process listens on " + path +
                         " (from DOCKER_HOST): the engine does not run; run `sudo systemctl start docker`"));
}

TEST(SocketFinding, AFileOrFolderIsNoSocket) {
  const Folder folder;
  folder.write("file", "");
  for (const std::string& path : {folder.path(), folder.path() + "/file"})
    EXPECT_THAT(fault_text(examine_socket(path)),
                HasSubstr(path + " (from DOCKER_HOST) must be a socket, not"));
}

TEST(SocketFinding, OtherErrorsHaveTheSystemsText) {
  EXPECT_THAT(fault_text(examine_socket("/" + std::string(200, 'x'))),
              HasSubstr("File name too long; correct"));
  const Folder folder;
  folder.write("file", "");
  EXPECT_THAT(fault_text(examine_socket(folder.path() + "/file/s")), HasSubstr("Not a directory; correct"));
}

// ---- Permissions

// Examines the socket in a process of another user, and passes the state to `expect`, which returns true if
// the state is as expected. A test that does not run as root cannot become another user, and stays its own.
bool holds_for_user(uid_t user, gid_t group, const std::vector<gid_t>& groups, const std::string& path,
                    const std::function<bool(const SocketState&)>& expect) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_other = ::geteuid() != 0 || (::setgroups(groups.size(), groups.data()) == 0 &&
                                               ::setgid(group) == 0 && ::setuid(user) == 0);
    ::_exit(is_other && expect(examine_socket(path)) ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A folder that all users may enter, with a socket that only its group may use.
class PermissionTest : public testing::Test {
 protected:
  PermissionTest() {
    ::chmod(folder_.path().c_str(), 0755);
    ::chmod(path_.c_str(), 0060);
  }
  void give_to_group(gid_t group) const {
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(path_.c_str(), 0, group), 0);
    }
  }
  const Folder folder_;
  const std::string path_ = folder_.path() + "/s";
  const Listening listening_{path_};
};

TEST_F(PermissionTest, AUserOutsideOfTheGroupIsDenied) {
  give_to_group(64002);
  EXPECT_TRUE(holds_for_user(64001, 64001, {}, path_, [](const SocketState& socket) {
    const bool is_outside = ::geteuid() != 64001 || (!socket.has_group && !socket.is_member &&
                                                     socket.group == "64002" && socket.user == "64001");
    return socket.error == EACCES && socket.is_found && socket.mode == 0060 && is_outside;
  }));
}

TEST_F(PermissionTest, TheGroupsOfProcessAndUserMayDiffer) {
  give_to_group(1);
  // The user database assigns the user 1 to the group 1, but the process has other groups, like a session
  // that is older than the assignment.
  EXPECT_TRUE(holds_for_user(1, 64002, {64003}, path_, [](const SocketState& socket) {
    return ::geteuid() != 1 || (socket.error == EACCES && !socket.has_group && socket.is_member);
  }));
  EXPECT_TRUE(holds_for_user(64001, 64002, {64003, 1}, path_, [](const SocketState& socket) {
    return ::geteuid() != 64001 || (socket.error == 0 && socket.has_group && !socket.is_member);
  }));
}

TEST_F(PermissionTest, AFolderThatMayNotBeEntered) {
  ::chmod(folder_.path().c_str(), 0000);
  EXPECT_TRUE(holds_for_user(64001, 64001, {}, path_, [](const SocketState& socket) {
    return socket.error == EACCES && !socket.is_found &&
           socket_fault(socket, {}, k_source).text.find("may not enter its folder") != std::string::npos;
  }));
  ::chmod(folder_.path().c_str(), 0755);
}

SocketState denied_socket() {
  return {.path = "/s",
          .error = EACCES,
          .is_found = true,
          .is_socket = true,
          .mode = 0660,
          .owner = "root",
          .group = "docker",
          .user = "alice"};
}

TEST(PermissionFinding, AUserOutsideOfTheGroup) {
  EXPECT_EQ(fault_text(denied_socket()),
            "permission denied for /s (from DOCKER_HOST), which belongs to root:docker and has the mode "
            "0660: alice "
            "does not belong to the group docker; run `sudo usermod -aG docker alice`, and log in again");
}

TEST(PermissionFinding, ASessionThatIsOlderThanTheMembership) {
  SocketState socket = denied_socket();
  socket.is_member = true;
  EXPECT_THAT(fault_text(socket),
              HasSubstr("alice belongs to the group docker, but this session is older; log in "
                        "again, or run `newgrp docker`"));
}

TEST(PermissionFinding, AnAccessThatASecurityModuleDenies) {
  SocketState socket = denied_socket();
  socket.has_group = socket.is_member = true;
  EXPECT_THAT(fault_text(socket), AllOf(HasSubstr("although alice belongs to the group docker"),
                                        HasSubstr("AppArmor"), Not(HasSubstr("usermod"))));
}

TEST(PermissionFinding, ASocketForRootOnly) {
  SocketState socket = denied_socket();
  socket.group = "root";
  socket.is_of_root_group = true;
  const std::string text = fault_text(socket);
  EXPECT_THAT(text, HasSubstr("run `sudo groupadd -f docker`, `sudo usermod -aG docker alice` and"));
  EXPECT_THAT(text, Not(HasSubstr("-aG root")));
  socket = denied_socket();
  socket.mode = 0600;
  EXPECT_THAT(fault_text(socket), HasSubstr("groupadd -f docker"));
}

// ---- Settings of the engine

SystemFacts docker_facts() {
  return {.product = "Docker Engine", .version = "29.0"};
}

TEST(LimitFindings, NoneIfAllLimitsAreSupported) {
  EXPECT_THAT(limit_findings(docker_facts()), IsEmpty());
}

TEST(LimitFindings, EachLimitHasItsWarning) {
  SystemFacts system = docker_facts();
  system.limits = {.cpus = false, .memory = false, .swap = false, .processes = false};
  EXPECT_THAT(limit_findings(system),
              ElementsAre(Field(&Finding::text, HasSubstr("cannot limit the memory")),
                          Field(&Finding::text, HasSubstr("refuses trials with `cpus`")),
                          Field(&Finding::text, HasSubstr("ignores PidsLimit"))));
  for (const Finding& finding : limit_findings(system)) {
    EXPECT_EQ(finding.kind, Kind::warning);
    EXPECT_NE(finding.remedy, "");
  }
  system.limits = {.swap = false};
  EXPECT_THAT(limit_findings(system),
              ElementsAre(AllOf(Field(&Finding::text, HasSubstr("swap space")),
                                Field(&Finding::remedy, HasSubstr("`swapaccount=1`")))));
}

TEST(LimitFindings, ARootlessEngineNeedsDelegation) {
  SystemFacts system = docker_facts();
  system.is_rootless = true;
  system.limits.cpus = false;
  EXPECT_THAT(limit_findings(system),
              ElementsAre(Field(&Finding::remedy, HasSubstr("delegate the control group controller cpu"))));
  system.limits = {.cpus = false, .memory = false, .swap = false, .processes = false};
  system.cgroup_driver = "none";
  EXPECT_THAT(limit_findings(system),
              ElementsAre(Field(&Finding::text, HasSubstr("without control groups"))));
}

TEST(RestartFinding, DependsOnLiveRestore) {
  SystemFacts system = docker_facts();
  std::optional<Finding> finding = restart_finding(system);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->kind, Kind::warning);
  EXPECT_THAT(finding->remedy, HasSubstr("`\"live-restore\": true` into /etc/docker/daemon.json"));
  system.is_rootless = true;
  EXPECT_THAT(restart_finding(system)->remedy, HasSubstr("~/.config/docker/daemon.json"));
  system.keeps_running = true;
  EXPECT_EQ(restart_finding(system)->kind, Kind::good);
  system.is_in_swarm = true;
  EXPECT_FALSE(restart_finding(system));
  system = docker_facts();
  system.product = "Podman Engine";
  EXPECT_FALSE(restart_finding(system));
}

TEST(GpuFinding, WarnsIfContainersHaveNoAccess) {
  EXPECT_FALSE(gpu_finding({.gpus = 0, .has_runtime = true}));
  EXPECT_EQ(gpu_finding({.gpus = 2, .has_cdi_devices = true})->text,
            "the engine offers 2 NVIDIA GPUs as CDI devices");
  EXPECT_EQ(gpu_finding({.gpus = 1, .has_runtime = true})->text,
            "the engine offers 1 NVIDIA GPU by NVIDIA's runtime");
  const std::optional<Finding> finding = gpu_finding({.gpus = 1});
  EXPECT_EQ(finding->kind, Kind::warning);
  EXPECT_EQ(finding->text, "this machine has 1 NVIDIA GPU, but containers have no access to the GPU");
  EXPECT_THAT(finding->remedy,
              StartsWith("install the package nvidia-container-toolkit, and run `sudo nvidia-ctk "
                         "runtime configure --runtime=docker`"));
  EXPECT_THAT(gpu_finding({.gpus = 1, .has_toolkit = true})->remedy, StartsWith("run `sudo nvidia-ctk"));
}

TEST(CredentialFindings, NameEachProgramThatIsMissing) {
  const Folder folder;
  EXPECT_THAT(credential_findings(folder.path()), IsEmpty()) << "there is no config.json";
  folder.write("config.json", R"({"credsStore": "combu-absent", "credHelpers": {"r.example": "combu-absent",
      "s.example": "combu-other"}, "auths": {}})");
  const std::vector<Finding> findings = credential_findings(folder.path());
  ASSERT_THAT(findings, SizeIs(2));
  EXPECT_EQ(findings[0].kind, Kind::warning);
  EXPECT_THAT(findings[0].text,
              StartsWith(folder.path() + "/config.json names the program "
                                         "docker-credential-combu-absent, which is not in PATH"));
  EXPECT_THAT(findings[1].text, HasSubstr("docker-credential-combu-other"));
}

TEST(CredentialFindings, NameAFileThatIsNoJson) {
  const Folder folder;
  folder.write("config.json", "[");
  EXPECT_THAT(
      credential_findings(folder.path()),
      ElementsAre(AllOf(Field(&Finding::kind, Kind::warning),
                        Field(&Finding::text, folder.path() + "/config.json: must contain a JSON object; "
                                                              "correct or remove the file"))));
}

}  // namespace
}  // namespace combu::docker
