// Runs the conformance suite on the Docker Engine in COMBU_TEST_ENGINE (unix:///…/docker.sock), and tests
// that only a Docker Engine can pass. COMBU_TEST_IMAGE is an image of that engine with a shell, sleep and
// cat; the default is "combu-test:latest".

#include "combu/docker.hpp"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "combu/agent.hpp"
#include "combu/http.hpp"
#include "conformance/engine_suite.hpp"
#include "conformance/wrapped_subject.hpp"

namespace combu::conformance {
namespace {

using nlohmann::json;

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string image() {
  const std::string named = setting("COMBU_TEST_IMAGE");
  return named.empty() ? "combu-test:latest" : named;
}

Address address() {
  const std::string named = setting("COMBU_TEST_ENGINE");
  if (named.empty())
    throw Error(ErrorKind::invalid, "COMBU_TEST_ENGINE", "must name an engine to test on: unix:///PATH");
  return parse_address(named);
}

// Accesses the engine without combu's client.
class Plainly {
 public:
  Plainly() : channel_(address()) {}

  HttpResponse ask(const std::string& method, const std::string& target, const json& body = nullptr) {
    HttpRequest request;
    request.method = method;
    request.target = target;
    if (!body.is_null()) request.body = body.dump();
    return channel_.send(request);
  }

  json inspect(const std::string& name) {
    return json::parse(ask("GET", "/containers/" + name + "/json").body);
  }

 private:
  Channel channel_;
};

class DockerSubject : public Subject {
 public:
  DockerSubject() : engine_(open_docker({address(), "the test", "/nonexistent"})) {}

  ~DockerSubject() override {
    for (const std::string& name : strangers_) plainly_.ask("DELETE", "/containers/" + name + "?force=1&v=1");
    for (const std::string& name : networks_) plainly_.ask("DELETE", "/networks/" + name);
  }

  Engine& engine() override { return *engine_; }

  Trial runs_until_stopped(const std::string& name) override { return shell(name, "exec sleep 1000"); }
  Trial exits_with(const std::string& name, int code) override {
    return shell(name, "exit " + std::to_string(code));
  }

  Trial says(const std::string& name, const std::vector<std::string>& out,
             const std::vector<std::string>& err) override {
    std::string script;
    for (const std::string& line : out) script += "echo " + line + "; ";
    for (const std::string& line : err) script += "echo " + line + " >&2; ";
    return shell(name, script);
  }

  Trial turns(const std::string& name, Health health) override {
    Trial trial = runs_until_stopped(name);
    Healthcheck check;
    check.test = {"CMD-SHELL", health == Health::healthy ? "true" : "false"};
    check.interval = Seconds{0.1};
    check.retries = 1;
    trial.healthcheck = check;
    return trial;
  }

  Trial cannot_start(const std::string& name) override {
    Trial trial = runs_until_stopped(name);
    trial.process.cmd = {"/no/such/command"};
    trial.process.init = false;  // an init process would start, and exit with 127
    return trial;
  }

  Trial leaves(const std::string& name) override { return shell(name, "mkdir -p /out; echo kept > /out/a"); }
  Trial repeats(const std::string& name, const std::string& path) override {
    return shell(name, fmt::format("mkdir -p /out; cat {0} {0} > /out/a; cat {0} {0}", path));
  }

  Trial tells_secrets(const std::string& name, const std::string& path,
                      const std::string& variable) override {
    return shell(name, fmt::format("cat {0}; stat -L -c %a {0}; echo \"${1}\"", path, variable));
  }
  Trial eats(const std::string& name, Bytes memory) override {
    return shell(name, "exec dd if=/dev/zero of=/dev/null count=1 bs=" + std::to_string(memory.count));
  }

  void make_stranger(const std::string& name, std::uint16_t host_port) override {
    json body = {{"Image", image()}, {"Cmd", {"sleep", "1000"}}, {"HostConfig", {{"Init", true}}}};
    if (host_port != 0) {
      body["ExposedPorts"]["80/tcp"] = json::object();
      body["HostConfig"]["PortBindings"]["80/tcp"] = {{{"HostPort", std::to_string(host_port)}}};
    }
    strangers_.push_back(name);
    ASSERT_EQ(plainly_.ask("POST", "/containers/create?name=" + name, body).status, 201);
    ASSERT_EQ(plainly_.ask("POST", "/containers/" + name + "/start").status, 204);
  }
  bool stranger_runs(const std::string& name) override {
    return plainly_.inspect(name).at("State").at("Running").get<bool>();
  }

  void make_strange_network(const std::string& name) override {
    networks_.push_back(name);
    ASSERT_EQ(plainly_.ask("POST", "/networks/create", {{"Name", name}, {"CheckDuplicate", true}}).status,
              201);
  }
  bool has_network(const std::string& name) override {
    return plainly_.ask("GET", "/networks/" + name).status == 200;
  }

 private:
  static Trial shell(const std::string& name, const std::string& script) {
    Trial trial;
    trial.name = name;
    trial.image = image();
    trial.process.cmd = {"sh", "-c", script};
    return trial;
  }

  std::unique_ptr<Engine> engine_;
  Plainly plainly_;
  std::vector<std::string> strangers_;
  std::vector<std::string> networks_;
};

const Flavour k_containers{"docker", [] { return std::make_unique<DockerSubject>(); }};
const Flavour k_workers{"workers",
                        [] { return in_workers(std::make_unique<DockerSubject>(), agent::program_for); }};

// The agent gives the programs of containers their secrets.
const Flavour k_supervised{"supervised",
                           [] { return supervised(std::make_unique<DockerSubject>(), agent::program_for); }};

INSTANTIATE_TEST_SUITE_P(Docker, EngineSuite, testing::Values(k_containers, k_workers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, HostSuite, testing::Values(k_containers, k_workers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, FileSuite, testing::Values(k_containers, k_workers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, HealthSuite, testing::Values(k_containers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, ContainerSuite, testing::Values(k_containers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, ExecSuite, testing::Values(k_containers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, SecretSuite, testing::Values(k_supervised, k_workers), flavour_name);
INSTANTIATE_TEST_SUITE_P(Docker, SecretFileSuite, testing::Values(k_supervised), flavour_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PlacingSuite);

// ---- Tests that only a Docker Engine can pass

class DockerOnly : public EngineSuite {
 protected:
  Plainly& plainly() { return plainly_; }

 private:
  Plainly plainly_;
};
INSTANTIATE_TEST_SUITE_P(Docker, DockerOnly,
                         testing::Values(Flavour{"docker", [] { return std::make_unique<DockerSubject>(); }}),
                         flavour_name);

TEST_P(DockerOnly, CopyOutFollowsASymbolicLink) {
  Trial trial = subject().exits_with("links-a", 0);
  trial.process.cmd = {
      "sh", "-c",
      "mkdir -p /data/run-7; echo kept > /data/run-7/a; ln -s data/run-7 /latest; ln -s /no/such /broken"};
  const Run run = ready("links", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  ASSERT_TRUE(watcher.wait_for("links-a", Phase::ended));
  const Key key{.run = run.id, .trial = "links-a"};
  std::string bytes;
  const auto take = [&](std::string_view piece) { bytes += piece; };
  EXPECT_FALSE(engine().copy_out(key, "/broken", take, {}));
  EXPECT_EQ(bytes, "");
  EXPECT_TRUE(engine().copy_out(key, "/latest", take, {}));
  EXPECT_THAT(bytes, testing::StartsWith("run-7/"));
  EXPECT_THAT(bytes, testing::HasSubstr("kept\n"));
}

TEST_P(DockerOnly, EveryFieldReachesTheContainer) {
  Trial trial = subject().runs_until_stopped("fields-a");
  trial.process.env = {{"A", "1 2"}, {"B", ""}};
  trial.process.workdir = "/tmp";
  trial.process.user = "65534:65534";
  trial.process.stop_signal = "SIGINT";
  trial.process.stop_grace = Seconds{3.5};
  trial.container.labels = {{"mine", "yes"}};
  trial.container.ports = {Port{.host_ip = "127.0.0.1", .host = 38481, .container = 81, .protocol = "udp"}};
  trial.container.volumes = {
      Volume{.source = "/tmp", .target = "/host", .read_only = true, .path = ""},
      Volume{.source = "combu-test-volume", .source_is_path = false, .target = "/named", .path = ""}};
  trial.container.docker = R"({"HostConfig": {"CpuShares": 512, "Memory": 33554432}, "Hostname": "guest"})";
  const Run run = ready("fields", {trial});
  start_all(run);
  const json seen = plainly().inspect("fields-a");
  plainly().ask("DELETE", "/volumes/combu-test-volume?force=1");
  EXPECT_EQ(seen.at("/Config/WorkingDir"_json_pointer), "/tmp");
  EXPECT_EQ(seen.at("/Config/User"_json_pointer), "65534:65534");
  EXPECT_EQ(seen.at("/Config/StopSignal"_json_pointer), "SIGINT");
  EXPECT_EQ(seen.at("/Config/StopTimeout"_json_pointer), 4);
  EXPECT_EQ(seen.at("/Config/Hostname"_json_pointer), "guest");
  EXPECT_EQ(seen.at("/Config/Labels/mine"_json_pointer), "yes");
  EXPECT_EQ(seen.at("/Config/Labels"_json_pointer).at("combu.run"), run.id.text());
  EXPECT_THAT(seen.at("/Config/Env"_json_pointer).get<std::vector<std::string>>(),
              testing::IsSupersetOf({"A=1 2", "B="}));
  EXPECT_EQ(seen.at("/HostConfig/Init"_json_pointer), true);
  EXPECT_EQ(seen.at("/HostConfig/CpuShares"_json_pointer), 512);
  EXPECT_EQ(seen.at("/HostConfig/PortBindings"_json_pointer).at("81/udp")[0].at("HostPort"), "38481");
  EXPECT_EQ(seen.at("Mounts").size(), 2U);
}

TEST_P(DockerOnly, TrialsOfANetworkReachEachOtherByName) {
  Trial server = subject().runs_until_stopped("reach-server");
  Trial client = subject().exits_with("reach-client", 0);
  server.container.networks = client.container.networks = {"combu-net-reach-1", "combu-net-reach-2"};
  client.process.cmd = {"sh", "-c", "exec ping -c 1 -W 5 reach-server"};
  const Run run = ready("reach", {server, client});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("reach-client", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 0) << logs_of(run, "reach-client", {}, LogStream::err);
  EXPECT_EQ(plainly().inspect("reach-client").at("/NetworkSettings/Networks"_json_pointer).size(), 2U);
}

// Runs that begin at the same instant can create a network twice, if the engine allows this (20.10).
TEST_P(DockerOnly, ANetworkThatExistsTwiceCanBeUsed) {
  const json network = {{"Name", "combu-net-twin"},
                        {"CheckDuplicate", false},
                        {"Labels", {{"combu.experiment", "elsewhere"}, {"combu.run", "elsewhere123"}}}};
  Trial first = subject().runs_until_stopped("twin-first");
  Trial second = subject().runs_until_stopped("twin-second");
  first.container.networks = second.container.networks = {"combu-net-twin"};
  const Run run = ready("twins", {first, second});
  (void)engine().start(run, first, 1, {});
  plainly().ask("POST", "/networks/create", network);
  plainly().ask("POST", "/networks/create", network);
  (void)engine().start(run, second, 1, {});
  const auto id_of = [&](const std::string& trial) {
    return plainly().inspect(trial).at("/NetworkSettings/Networks/combu-net-twin/NetworkID"_json_pointer);
  };
  EXPECT_EQ(id_of("twin-first"), id_of("twin-second"));
  std::size_t left = 0;
  for (const json& one : json::parse(plainly().ask("GET", "/networks").body))
    left += one.at("Name") == "combu-net-twin" ? 1 : 0;
  EXPECT_EQ(left, 1U);
}

TEST_P(DockerOnly, ParametersAreAFileInTheContainer) {
  Trial trial = subject().exits_with("params-a", 0);
  trial.params = R"({"lr": 0.1})";
  trial.params_file = true;
  trial.process.cmd = {"cat", "/combu/params.json"};
  const Run run = ready("params", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("params-a", Phase::ended);
  EXPECT_EQ(logs_of(run, "params-a", {}, LogStream::out), R"({"lr": 0.1})");
}

TEST_P(DockerOnly, TheLogOfATerminalIsReadWithoutFrames) {
  Trial trial = subject().says("tty-a", {"one"}, {});
  trial.container.docker = R"({"Tty": true})";
  const Run run = ready("tty", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  watcher.wait_for("tty-a", Phase::ended);
  EXPECT_EQ(logs_of(run, "tty-a", {}, LogStream::out), "one\r\n");
}

// ---- Programs that combu provides

class ProvidedPrograms : public DockerOnly {
 protected:
  // Returns a script that differs for each call, so that no other test has filled its volume. Only root can
  // execute a script, because its interpreter reads it.
  static std::shared_ptr<const ProvidedProgram> script() {
    return provided("#!/bin/sh\n# " + RunId::random().text() + "\n\"$@\"\n", "program");
  }
  static std::shared_ptr<const ProvidedProgram> provided(std::string content, const std::string& name) {
    ProvidedProgram program;
    program.path = "/combu-bin/" + name;
    program.content = std::move(content);
    program.folder = "/combu-work";
    return std::make_shared<const ProvidedProgram>(std::move(program));
  }
  // Returns the test image's static busybox, which a user who cannot read it can execute. Its bytes differ
  // for each call, as those of script() do.
  std::string busybox() {
    const std::string name = "busybox-" + RunId::random().text();
    const Run run = ready(name, {subject().runs_until_stopped("busybox-a")});
    start_all(run);
    // The answer is a tar archive with one file.
    const std::string tar = plainly().ask("GET", "/containers/busybox-a/archive?path=/bin/busybox").body;
    (void)engine().release(all_of(run), {}, {});
    return tar.substr(512, std::stoul(tar.substr(124, 11), nullptr, 8)) + name;
  }
  static std::string volume_of(const ProvidedProgram& program) {
    return "combu-agent-" + sha256_of(program.content).substr(0, 12);
  }
  bool has_volume(const ProvidedProgram& program) {
    return plainly().ask("GET", "/volumes/" + volume_of(program)).status == 200;
  }
  std::size_t count_volumes() {
    const json listed = json::parse(plainly().ask("GET", "/volumes").body).at("Volumes");
    return listed.is_array() ? listed.size() : 0;
  }
  // Returns the output of a shell that runs `script` in the attempt's container.
  std::string shell_output(const Run& run, const std::string& trial, const std::string& script) {
    const std::unique_ptr<ByteStream> stream =
        engine().exec(key_of(run, trial), {"sh", "-c", "exec 2>&1; " + script}, {});
    std::string text;
    std::array<char, 1000> buffer{};
    while (const std::size_t count = stream->read(buffer)) text.append(buffer.data(), count);
    return text;
  }
};
INSTANTIATE_TEST_SUITE_P(Docker, ProvidedPrograms,
                         testing::Values(Flavour{"docker", [] { return std::make_unique<DockerSubject>(); }}),
                         flavour_name);

TEST_P(ProvidedPrograms, AnyUserOfAReadOnlyContainerRunsTheProgramAndWritesToItsFolder) {
  Trial trial = subject().runs_until_stopped("provided-a");
  trial.container.provided = provided(busybox(), "busybox");
  trial.container.docker = R"({"HostConfig": {"ReadonlyRootfs": true, "CapDrop": ["ALL"]}})";
  trial.process.user = "65534:65534";
  trial.container.volumes = {Volume{.source = "/tmp", .target = "/host", .read_only = true, .path = ""}};
  const std::size_t volumes = count_volumes();
  const Run run = ready("provided", {trial});
  start_all(run);
  EXPECT_EQ(shell_output(
                run, "provided-a",
                "/combu-bin/busybox echo works; echo kept > /combu-work/w/a && cat /combu-work/w/a; "
                "ls /combu-bin /combu-work; touch /x || test -d /host && echo over; cat /combu-bin/busybox"),
            "works\nkept\n/combu-bin:\nbusybox\n\n/combu-work:\nw\ntouch: /x: Read-only file system\nover\n"
            "cat: can't open '/combu-bin/busybox': Permission denied\n");
  EXPECT_TRUE(has_volume(*trial.container.provided));
  EXPECT_EQ(engine().release(all_of(run), {}, {}).attempts, 1U);
  EXPECT_FALSE(has_volume(*trial.container.provided));
  EXPECT_EQ(count_volumes(), volumes);
}

TEST_P(ProvidedPrograms, RootOfAContainerCannotReplaceTheProgram) {
  Trial trial = subject().runs_until_stopped("replaced-a");
  trial.container.provided = script();
  const Run run = ready("replaced", {trial});
  start_all(run);
  const std::string output =
      shell_output(run, "replaced-a",
                   "id -u; echo bad > /combu-bin/program; rm /combu-bin/program; touch /combu-bin/more; "
                   "mount -o remount,rw /combu-bin && echo bad; /combu-bin/program echo works");
  EXPECT_THAT(output, testing::StartsWith("0\n"));
  EXPECT_THAT(output, testing::EndsWith("works\n"));
  EXPECT_THAT(output, testing::Not(testing::HasSubstr("bad\n")));
}

TEST_P(ProvidedPrograms, TwoStartsAtOnceFillTheVolumeOnce) {
  const std::shared_ptr<const ProvidedProgram> program = script();
  std::vector<Trial> trials;
  for (const std::string name : {"once-a", "once-b", "once-c"}) {
    trials.push_back(subject().runs_until_stopped(name));
    trials.back().container.provided = program;
  }
  const Run run = ready("once", trials);
  // Returns the time in seconds. With whole seconds, the engine would leave out the last events.
  const auto now = [] {
    return fmt::format(
        "{:.6f}", std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  };
  const std::string before = now();
  in_parallel(trials.size(), trials.size(),
              [&](std::size_t i) { (void)engine().start(run, trials[i], 1, {}); });
  for (const Trial& trial : trials)
    EXPECT_EQ(shell_output(run, trial.name, "/combu-bin/program echo works"), "works\n");
  const std::string events =
      plainly()
          .ask("GET", "/events?since=" + before + "&until=" + now() +
                          "&filters=" + percent_encode(R"({"type":["container"],"event":["create"]})"))
          .body;
  const auto count = [&](const std::string& word) {
    std::size_t found = 0;
    for (std::size_t at = events.find(word); at != std::string::npos; at = events.find(word, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("\"name\":\"combu-agent-fill-" + volume_of(*program).substr(12)), 1U) << events;
  Selector one = all_of(run);
  one.trials = {"once-a"};
  (void)engine().release(one, {}, {});
  EXPECT_TRUE(has_volume(*program));
}

TEST_P(ProvidedPrograms, AContainerThatADeadProcessLeftIsRemoved) {
  Trial trial = subject().runs_until_stopped("left-a");
  trial.container.provided = script();
  const std::string filler = "combu-agent-fill-" + volume_of(*trial.container.provided).substr(12);
  ASSERT_EQ(
      plainly().ask("POST", "/containers/create?name=" + filler, {{"Image", image()}, {"Cmd", {"x"}}}).status,
      201);
  const Run run = ready("left", {trial});
  start_all(run);
  EXPECT_EQ(shell_output(run, "left-a", "/combu-bin/program echo works"), "works\n");
  EXPECT_EQ(plainly().ask("GET", "/containers/" + filler + "/json").status, 404);
}

TEST_P(ProvidedPrograms, AnEmptyImageRunsTheProgram) {
  Trial trial = subject().exits_with("scratch-a", 0);
  trial.container.provided = provided(busybox(), "sh");
  HttpRequest import;
  import.method = "POST";
  import.target = "/images/create?fromSrc=-&repo=combu-test-scratch";
  import.content_type = "application/x-tar";
  import.body = tar_of({{ "note", "empty" }});
  ASSERT_EQ(Channel(address()).send(import).status, 200);
  trial.image = "combu-test-scratch:latest";
  trial.process.entrypoint = {"/combu-bin/sh"};
  trial.process.cmd = {"-c", "echo kept > /combu-work/w/a && exit 5"};
  trial.process.init = false;
  const Run run = ready("scratch", {trial});
  Watcher watcher(subject(), all_of(run));
  start_all(run);
  const auto ended = watcher.wait_for("scratch-a", Phase::ended);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->exit_code, 5) << logs_of(run, "scratch-a", {}, LogStream::err);
  (void)engine().release(all_of(run), {}, {});
  plainly().ask("DELETE", "/images/combu-test-scratch?force=1");
}

TEST_P(DockerOnly, AnotherAttemptWithTheSameNameIsAConflict) {
  const Run run = ready("attempts", {subject().runs_until_stopped("attempts-a")});
  start_all(run);
  EXPECT_EQ(kind_of([&] { engine().start(run, run.experiment.trials[0], 2, {}); }), ErrorKind::conflict);
  Run later = run;
  later.id = RunId::random();
  EXPECT_EQ(kind_of([&] { start_all(later); }), ErrorKind::conflict);
}

TEST_P(DockerOnly, AContainerThatWasCreatedAndNotStartedIsStarted) {
  Trial trial = subject().runs_until_stopped("half-a");
  const Run run = ready("half", {trial});
  json body = {{"Image", image()}, {"Cmd", *trial.process.cmd}};
  body["Labels"] = {{"combu.experiment", "half"},
                    {"combu.file", run.experiment.file},
                    {"combu.run", run.id.text()},
                    {"combu.trial", "half-a"},
                    {"combu.attempt", "1"}};
  ASSERT_EQ(plainly().ask("POST", "/containers/create?name=half-a", body).status, 201);
  EXPECT_EQ(list_all("half").at(0).phase, Phase::created);
  start_all(run);
  EXPECT_EQ(list_all("half").at(0).phase, Phase::running);
}

TEST_P(DockerOnly, RefusalsContainTheDaemonsMessage) {
  subject().make_stranger("port-holder", 38491);
  Trial port = subject().runs_until_stopped("port-a");
  port.container.ports = {Port{.host_ip = "", .host = 38491, .container = 80}};
  Trial user = subject().runs_until_stopped("user-a");
  user.process.user = "nobody-of-this-name";
  Trial source = subject().runs_until_stopped("source-a");
  source.container.volumes = {Volume{.source = "/no/such/folder", .target = "/in", .path = ""}};
  const Run run = ready("words", {port, user, source});
  const std::vector<std::string> expected = {"port is already allocated", "nobody-of-this-name",
                                             "/no/such/folder"};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Trial& trial = run.experiment.trials[i];
    try {
      engine().start(run, trial, 1, {});
      ADD_FAILURE() << trial.name;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::refused);
      EXPECT_EQ(error.subject(), trial.name);
      EXPECT_THAT(error.message(), testing::HasSubstr(expected[i]));
    }
  }
}

}  // namespace
}  // namespace combu::conformance
