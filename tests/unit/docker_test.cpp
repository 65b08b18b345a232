// The parts of the Docker room that need no engine.

#include "combu/docker.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "docker/connections.hpp"
#include "docker/container_json.hpp"
#include "docker/credentials.hpp"
#include "docker/image_reference.hpp"
#include "docker/json_pieces.hpp"
#include "docker/labels.hpp"
#include "docker/log_frames.hpp"
#include "docker/shared_listing.hpp"
#include "docker/status.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

Run example_run() {
  Run run;
  run.id = RunId("run1");
  run.experiment.name = "exp";
  run.experiment.file = "/f";
  return run;
}

Trial example_trial() {
  Trial trial;
  trial.name = "a";
  trial.image = "img";
  return trial;
}

json labels_json() {
  return {{"combu.gpus", ""},          {"combu.attempt", "1"},     {"combu.cpus", "0"},
          {"combu.experiment", "exp"}, {"combu.file", "/f"},       {"combu.memory", "0"},
          {"combu.run", "run1"},       {"combu.service", "false"}, {"combu.trial", "a"}};
}

json body_of(const Trial& trial, NetworksAtCreate networks = NetworksAtCreate::all) {
  return container_json(example_run(), trial, 1, networks);
}

std::optional<Error> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

// A folder for one test.
class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "combu-docker-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path() const { return path_; }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }

 private:
  std::string path_;
};

// ---- container_json

TEST(ContainerJson, OfTheLeastTrial) {
  EXPECT_EQ(body_of(example_trial()),
            (json{{"Image", "img"}, {"HostConfig", {{"Init", true}}}, {"Labels", labels_json()}}));
}

TEST(ContainerJson, OfEveryField) {
  Trial trial = example_trial();
  trial.entrypoint = {"e"};
  trial.cmd = {"c", "d"};
  trial.env = {{"A", "1"}, {"B", "x=y"}};
  trial.workdir = "/w";
  trial.user = "1:2";
  trial.init = false;
  trial.stop_signal = "SIGINT";
  trial.stop_grace = Seconds{1.2};
  trial.labels = {{"l", "v"}};
  trial.ports = {{.host_ip = "127.0.0.1", .host = 8080, .container = 80, .protocol = "tcp"},
                 {.host_ip = "", .host = 8081, .container = 80, .protocol = "tcp"}};
  Volume bind;
  bind.source = "/host";
  bind.target = "/in";
  bind.read_only = true;
  Volume named;
  named.source = "vol";
  named.source_is_path = false;
  named.target = "/data";
  trial.volumes = {bind, named};
  trial.networks = {"n1", "n2"};
  trial.healthcheck = Healthcheck{.test = {"CMD", "true"}, .interval = Seconds{0.5}, .retries = 2};
  json labels = labels_json();
  labels["l"] = "v";
  EXPECT_EQ(body_of(trial).dump(1), json::parse(R"({
    "Image": "img", "Entrypoint": ["e"], "Cmd": ["c", "d"], "Env": ["A=1", "B=x=y"], "WorkingDir": "/w", "User": "1:2",
    "StopSignal": "SIGINT", "StopTimeout": 2, "ExposedPorts": {"80/tcp": {}},
    "Healthcheck": {"Test": ["CMD", "true"], "Interval": 500000000, "Retries": 2},
    "HostConfig": {
      "Init": false, "NetworkMode": "n1",
      "Mounts": [{"Type": "bind", "Source": "/host", "Target": "/in", "ReadOnly": true},
                 {"Type": "volume", "Source": "vol", "Target": "/data"}],
      "PortBindings": {"80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "8080"}, {"HostIp": "", "HostPort": "8081"}]}},
    "NetworkingConfig": {"EndpointsConfig": {"n1": {"Aliases": ["a"]}, "n2": {"Aliases": ["a"]}}},
    "Labels": {"combu.attempt": "1", "combu.experiment": "exp", "combu.file": "/f", "combu.run": "run1",
               "combu.cpus": "0", "combu.gpus": "", "combu.memory": "0", "combu.service": "false", "combu.trial": "a", "l": "v"}})")
                                        .dump(1));
  EXPECT_EQ(
      body_of(trial, NetworksAtCreate::first).at("/NetworkingConfig/EndpointsConfig"_json_pointer).size(),
      1U);
}

TEST(ContainerJson, TheEnginesOwnNetworksHaveNoAliases) {
  Trial trial = example_trial();
  trial.networks = {"host"};
  EXPECT_EQ(body_of(trial).at("HostConfig").at("NetworkMode"), "host");
  EXPECT_FALSE(body_of(trial).contains("NetworkingConfig"));
  trial.networks = {"bridge", "n"};
  EXPECT_EQ(body_of(trial).at("/NetworkingConfig/EndpointsConfig"_json_pointer),
            (json{{"bridge", json::object()}, {"n", {{"Aliases", {"a"}}}}}));
}

TEST(ContainerJson, TheDockerSectionIsMergedLast) {
  Trial trial = example_trial();
  trial.env = {{"A", "1"}};
  trial.docker =
      R"({"HostConfig": {"Init": false, "CapAdd": ["SYS_PTRACE"]}, "Env": ["B=2"], "Labels": {"x": "y"}})";
  const json body = body_of(trial);
  EXPECT_EQ(body.at("HostConfig"), (json{{"Init", false}, {"CapAdd", {"SYS_PTRACE"}}}));
  EXPECT_EQ(body.at("Env"), (json{"A=1", "B=2"}));
  EXPECT_EQ(body.at("Labels").at("x"), "y");
  EXPECT_EQ(body.at("Labels").at("combu.trial"), "a");
}

// ---- the `docker` section

std::vector<std::string> faults_of_section(const std::string& section) {
  Experiment experiment;
  experiment.trials = {example_trial(), example_trial()};
  for (Trial& trial : experiment.trials) trial.docker = section;
  experiment.trials[0].path = "[0]";
  experiment.trials[1].path = "[1]";
  std::vector<std::string> texts;
  for (const Error& error : check_docker_sections(experiment)) {
    EXPECT_EQ(error.kind(), ErrorKind::invalid);
    texts.emplace_back(error.what());
  }
  return texts;
}

TEST(DockerSection, WhatCannotBeHonouredIsToldOnceForAllThatShareIt) {
  const std::map<std::string, std::string> cases = {
      {R"({"HostConfg": {}})",
       "[0].docker.HostConfg: the Docker API has no such field; did you mean HostConfig? (trial `a`)"},
      {R"({"Name": "b"})",
       "[0].docker.Name: the Docker API's container has no such field, or it is combu's own (trial `a`)"},
      {R"({"CapAdd": ["SYS_PTRACE"]})",
       "[0].docker.CapAdd: it stands inside HostConfig: docker: {HostConfig: {CapAdd: …}} (trial `a`)"},
      {R"({"HostConfig": 1})", "[0].docker.HostConfig: must be an object (trial `a`)"},
      {R"({"HostConfig": {"Memry": 1}})",
       "[0].docker.HostConfig.Memry: the Docker API has no such field; did you mean Memory? (trial `a`)"},
      {R"({"HostConfig": {"Gpu": 1}})",
       "[0].docker.HostConfig.Gpu: the Docker API's HostConfig has no such field (trial `a`)"},
      {R"({"HostConfig": {"Memory": "512m"}})",
       "[0].docker.HostConfig.Memory: must be a whole number, in the Docker API's unit (trial `a`)"},
      {R"({"HostConfig": {"AutoRemove": true}})",
       "[0].docker.HostConfig.AutoRemove: would take the exit code away with the container; remove with "
       "`combu kill` (trial `a`)"},
      {R"({"HostConfig": {"RestartPolicy": {"Name": "always"}}})",
       "[0].docker.HostConfig.RestartPolicy: would start a trial again that combu takes to be over (trial "
       "`a`)"},
      {R"({"Labels": {"combu.run": "x"}})",
       "[0].docker.Labels.combu.run: labels that begin with combu. are combu's own (trial `a`)"},
  };
  for (const auto& [section, text] : cases) {
    EXPECT_EQ(faults_of_section(section), std::vector<std::string>{text}) << section;
  }
}

TEST(DockerSection, TellsAllThatIsWrongWithIt) {
  EXPECT_EQ(faults_of_section(R"({"Tty": 1, "HostConfig": {"Dns": "1.1.1.1", "Init": "yes"}})").size(), 3U);
}

TEST(DockerSection, WhatIsWrongInTheDefaultsIsToldThere) {
  Experiment experiment;
  experiment.defaults_docker = R"({"Tty": 1})";
  experiment.trials = {example_trial(), example_trial()};
  experiment.trials[0].docker = experiment.defaults_docker;
  experiment.trials[1].docker = R"({"Tty": 1, "Bogus": 1})";
  experiment.trials[1].path = "trials[1]";
  const std::vector<Error> errors = check_docker_sections(experiment);
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_STREQ(errors[0].what(), "defaults.docker.Tty: must be true or false");
  EXPECT_STREQ(errors[1].what(),
               "trials[1].docker.Bogus: the Docker API's container has no such field, or it is combu's own "
               "(trial `a`)");
}

TEST(DockerSection, WhatATrialReservesIsCheckedForEach) {
  Experiment experiment;
  experiment.trials = {example_trial(), example_trial()};
  for (Trial& trial : experiment.trials) trial.docker = R"({"HostConfig": {"NanoCpus": 1}})";
  experiment.trials[1].path = "[1]";
  experiment.trials[1].slots.cpus = parse_cpus("2");
  const std::vector<Error> errors = check_docker_sections(experiment);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_STREQ(errors[0].what(),
               "[1].docker.HostConfig.NanoCpus: the trial's `cpus` says it already; keep one (trial `a`)");
}

TEST(DockerSection, TakesWhatTheApiKnows) {
  EXPECT_EQ(faults_of_section(R"({"Tty": true, "Hostname": "h", "Cmd": "true", "Labels": {"x": "y"},
                                  "HostConfig": {"Memory": 1, "CapAdd": null, "AutoRemove": false,
                                                 "Ulimits": [{"Name": "nofile", "Soft": 1, "Hard": 1}]}})"),
            std::vector<std::string>());
}

TEST(ContainerJson, AsksForGpusByNameInTheWayThatTheNameTells) {
  Trial trial = example_trial();
  trial.gpus = GpuWish{.count = 3};
  EXPECT_FALSE(body_of(trial).at("HostConfig").contains("DeviceRequests")) << "before it is started";
  trial.slots.gpus = {"nvidia.com/gpu=0", "1", "2"};
  EXPECT_EQ(body_of(trial).at("HostConfig").at("DeviceRequests"), json::parse(R"([
    {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=0"]},
    {"DeviceIDs": ["1", "2"], "Capabilities": [["gpu"]]}])"));
}

// ---- labels

TEST(Labels, AreReadBackAsTheyWereWritten) {
  const combu::Run run = example_run();
  const Labels labels = labels_of(run, example_trial(), 2);
  const auto identity = identity_of(labels, "a");
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->key, (Key{RunId("run1"), "a", 2}));
  EXPECT_EQ(identity->experiment, "exp");
  EXPECT_EQ(identity->file, "/f");
  EXPECT_TRUE(are_labels_of(labels, run, "a", 2));
  EXPECT_FALSE(are_labels_of(labels, run, "a", 1));
}

TEST(Labels, WhatLacksOneIsNotOurs) {
  for (const char* name : {k_label_experiment, k_label_run, k_label_trial, k_label_attempt}) {
    Labels labels = labels_of(example_run(), example_trial(), 1);
    labels.erase(name);
    EXPECT_FALSE(identity_of(labels, "a")) << name;
    labels[name] = "";
    EXPECT_FALSE(identity_of(labels, "a")) << name;
  }
  Labels labels = labels_of(example_run(), example_trial(), 1);
  labels[k_label_attempt] = "1x";
  EXPECT_FALSE(identity_of(labels, "a"));
}

TEST(Labels, ThoseOfAnImageThatWasMadeFromATrialAreNotItsContainers) {
  const Labels labels = labels_of(example_run(), example_trial(), 1);
  EXPECT_FALSE(identity_of(labels, "b"));
  EXPECT_FALSE(identity_of(labels, ""));
}

TEST(Labels, SayWhatTheTrialIsNotSoThatNoImageSaysIt) {
  const Labels labels = labels_of(example_run(), example_trial(), 1);
  EXPECT_EQ(labels.at(k_label_service), "false");
  EXPECT_EQ(labels.at(k_label_cpus), "0");
  EXPECT_EQ(labels.at(k_label_memory), "0");
  EXPECT_EQ(labels.at(k_label_gpus), "");
}

TEST(Labels, NameTheGpusThatAreHeld) {
  Trial trial = example_trial();
  trial.slots.gpus = {"nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1"};
  const Labels labels = labels_of(example_run(), trial, 1);
  EXPECT_EQ(labels.at(k_label_gpus), "nvidia.com/gpu=0,nvidia.com/gpu=GPU-1");
  EXPECT_EQ(identity_of(labels, "a")->slots.gpus, trial.slots.gpus);
}

TEST(Labels, AnEmptySelectorStillSelectsOnlyOurs) {
  EXPECT_THAT(label_filters(Selector{}), ElementsAre("combu.experiment"));
  Selector selector;
  selector.file = "/f";
  selector.run = RunId("r");
  EXPECT_THAT(label_filters(selector), ElementsAre("combu.file=/f", "combu.run=r"));
}

// ---- status

TEST(Status, ReadsDockersWords) {
  struct Case {
    std::string state;
    std::string text;
    Phase phase;
    Health health;
    std::optional<int> exit_code;
  };
  const std::vector<Case> cases = {
      {"created", "Created", Phase::created, Health::none, {}},
      {"running", "Up 3 seconds", Phase::running, Health::none, {}},
      {"running", "Up 3 seconds (healthy)", Phase::running, Health::healthy, {}},
      {"running", "Up 3 seconds (unhealthy)", Phase::running, Health::unhealthy, {}},
      {"running", "Up Less than a second (health: starting)", Phase::running, Health::starting, {}},
      {"paused", "Up 2 hours (Paused)", Phase::running, Health::none, {}},
      {"restarting", "Restarting (1) 2 seconds ago", Phase::running, Health::none, {}},
      {"exited", "Exited (137) 2 hours ago", Phase::ended, Health::none, 137},
      {"exited", "Exited (0) Less than a second ago", Phase::ended, Health::none, 0},
      {"dead", "Dead", Phase::gone, Health::none, {}},
      {"removing", "Removal In Progress", Phase::gone, Health::none, {}},
  };
  for (const Case& each : cases) {
    const Status status = parse_status(each.state, each.text);
    EXPECT_EQ(status.phase, each.phase) << each.text;
    EXPECT_EQ(status.health, each.health) << each.text;
    EXPECT_EQ(status.exit_code, each.exit_code) << each.text;
  }
}

// ---- streams

std::vector<std::string> pieces_of(const std::vector<std::string>& fed) {
  std::vector<std::string> seen;
  JsonPieces pieces([&](std::string_view text) { seen.emplace_back(text); });
  for (const std::string& bytes : fed) pieces.feed(bytes);
  pieces.finish();
  return seen;
}

TEST(JsonPieces, FindsObjectsHoweverTheyAreCut) {
  const std::string text = R"([{"a":"}]\"{"}, {"b":[{}]}])";
  const auto wanted = ElementsAre(R"({"a":"}]\"{"})", R"({"b":[{}]})");
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_THAT(pieces_of({text.substr(0, cut), text.substr(cut)}), wanted) << cut;
  }
  EXPECT_THAT(pieces_of({"{}\r\n{}{}"}), ElementsAre("{}", "{}", "{}"));
  EXPECT_THAT(pieces_of({"[]\n"}), ElementsAre());
}

TEST(JsonPieces, RefusesWhatIsNoObject) {
  for (const std::string text : {"{", "[{}", "hello", "[1]", "{}]", "null"}) {
    const auto error = error_of([&] { (void)pieces_of({text}); });
    ASSERT_TRUE(error) << text;
    EXPECT_EQ(error->kind(), ErrorKind::corrupt);
  }
}

TEST(LogFrames, AreTakenApartHoweverTheyAreCut) {
  const std::string bytes = std::string("\1\0\0\0\0\0\0\2ab", 10) + std::string("\2\0\0\0\0\0\0\0", 8) +
                            std::string("\2\0\0\0\0\0\0\1c", 9);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string out;
    std::string err;
    LogFrames frames(
        [&](const LogPiece& piece) { (piece.stream == LogStream::out ? out : err) += piece.text; }, false);
    frames.feed(std::string_view(bytes).substr(0, cut));
    frames.feed(std::string_view(bytes).substr(cut));
    EXPECT_EQ(out, "ab");
    EXPECT_EQ(err, "c");
  }
  LogFrames frames([](const LogPiece&) {}, false);
  EXPECT_THROW(frames.feed("plain text"), Error);
}

TEST(LogFrames, TimedOnesAreToldWholeHoweverTheyAreCut) {
  const std::string bytes = std::string("\1\0\0\0\0\0\0\x23", 8) + "2026-01-31T12:00:00.000000007Z one\n" +
                            std::string("\2\0\0\0\0\0\0\x18", 8) + "2026-01-31T12:00:01Z tw\n" +
                            std::string("\1\0\0\0\0\0\0\x15", 8) + "2026-01-31T12:00:02Z ";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::vector<std::string> told;
    LogFrames frames(
        [&](const LogPiece& piece) {
          told.push_back(fmt::format("{} {} {}", piece.stream == LogStream::out ? "out" : "err",
                                     (piece.at - *parse_moment("2026-01-31T12:00:00Z")).count(), piece.text));
        },
        true);
    frames.feed(std::string_view(bytes).substr(0, cut));
    frames.feed(std::string_view(bytes).substr(cut));
    EXPECT_THAT(told, ElementsAre("out 7 one\n", "err 1000000000 tw\n", "out 2000000000 "));
  }
  LogFrames frames([](const LogPiece&) {}, true);
  EXPECT_THROW(frames.feed(std::string("\1\0\0\0\0\0\0\3one", 11)), Error);
}

TEST(TimedLines, AreTakenApartHoweverTheyAreCut) {
  const std::string_view bytes = "2026-01-31T12:00:00Z one\r\n2026-01-31T12:00:01Z two words\r\n";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    std::string text;
    TimedLines lines([&](const LogPiece& piece) { text += piece.text; });
    lines.feed(bytes.substr(0, cut));
    lines.feed(bytes.substr(cut));
    EXPECT_EQ(text, "one\r\ntwo words\r\n");
  }
  std::string text;
  TimedLines lines([&](const LogPiece& piece) { text += piece.text; });
  lines.feed("2026-01-31T12:00:00Z one\r\n2026-01-31T12:00:01Z no end");
  lines.end();
  lines.end();
  EXPECT_EQ(text, "one\r\nno end");
}

// The pieces that a feeder tells, and whether each has at most the size and the one time of a piece.
struct Told {
  LogTell tell = [this](const LogPiece& piece) {
    largest = std::max(largest, piece.text.size());
    sizes.push_back(piece.text.size());
    text += piece.text;
    if (times.empty() || times.back() != piece.at) times.push_back(piece.at);
  };
  std::string text;
  std::vector<std::size_t> sizes;
  std::size_t largest = 0;
  std::vector<Instant> times;  // without repetitions
};

std::string header_of(std::size_t size) {
  std::string header("\1\0\0\0", 4);
  for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> shift & 0xFFU);
  return header;
}

const std::string k_moment = "2026-01-31T12:00:00.000000007Z ";

TEST(LogFrames, AHugeTimedFrameIsToldInBoundedPieces) {
  constexpr std::size_t k_size = std::size_t{64} << 20U;
  Told told;
  LogFrames frames(told.tell, true);
  frames.feed(header_of(k_moment.size() + k_size) + k_moment);
  const std::string feed(4096, 'x');
  for (std::size_t fed = 0; fed < k_size; fed += feed.size()) frames.feed(feed);
  frames.feed(header_of(k_moment.size() + 1) + k_moment + "y");
  EXPECT_EQ(told.largest, k_timed_piece_max);
  EXPECT_EQ(told.text, std::string(k_size, 'x') + "y");
  EXPECT_THAT(told.times, ElementsAre(*parse_moment("2026-01-31T12:00:00.000000007Z")));
}

TEST(TimedLines, AHugeLineIsToldInBoundedPieces) {
  constexpr std::size_t k_size = std::size_t{64} << 20U;
  Told told;
  TimedLines lines(told.tell);
  lines.feed(k_moment);
  const std::string feed(4096, 'x');
  for (std::size_t fed = 0; fed < k_size; fed += feed.size()) lines.feed(feed);
  lines.feed("\n2026-01-31T12:00:01Z y");
  lines.end();
  EXPECT_EQ(told.largest, k_timed_piece_max);
  EXPECT_EQ(told.text, std::string(k_size, 'x') + "\ny");
  EXPECT_THAT(told.times, ElementsAre(*parse_moment("2026-01-31T12:00:00.000000007Z"),
                                      *parse_moment("2026-01-31T12:00:01Z")));
}

// A later reading skips as many pieces as are stored: it must have the same ones.
TEST(TimedMessages, HaveTheSamePiecesHoweverTheyAreCut) {
  for (const std::size_t size : {k_timed_piece_max - 1, k_timed_piece_max, k_timed_piece_max + 1,
                                 2 * k_timed_piece_max, 3 * k_timed_piece_max + 5}) {
    const std::string text(size, 'x');
    const std::string frame = header_of(k_moment.size() + size) + k_moment + text;
    const std::string line = k_moment + text + "\n";
    std::vector<std::size_t> frame_sizes;
    std::vector<std::size_t> line_sizes;
    for (std::size_t left = size; left > 0; left -= std::min(left, k_timed_piece_max))
      frame_sizes.push_back(std::min(left, k_timed_piece_max));
    for (std::size_t left = size + 1; left > 0; left -= std::min(left, k_timed_piece_max))
      line_sizes.push_back(std::min(left, k_timed_piece_max));
    for (const std::size_t step : {std::size_t{1}, std::size_t{13}, std::size_t{4096}, k_timed_piece_max - 1,
                                   k_timed_piece_max, k_timed_piece_max + 1, frame.size()}) {
      Told of_frame;
      Told of_line;
      LogFrames frames(of_frame.tell, true);
      TimedLines lines(of_line.tell);
      for (std::size_t i = 0; i < frame.size(); i += step)
        frames.feed(std::string_view(frame).substr(i, step));
      for (std::size_t i = 0; i < line.size(); i += step) lines.feed(std::string_view(line).substr(i, step));
      EXPECT_EQ(of_frame.sizes, frame_sizes) << size << " by " << step;
      EXPECT_EQ(of_line.sizes, line_sizes) << size << " by " << step;
    }
  }
}

TEST(TimedMessages, WithoutAMomentAreRefusedBeforeTheyEnd) {
  const std::string text(k_timed_piece_max, 'x');
  LogFrames frames([](const LogPiece&) {}, true);
  frames.feed(header_of(std::size_t{1} << 31U));
  EXPECT_THROW(frames.feed(text), Error);
  TimedLines lines([](const LogPiece&) {});
  EXPECT_THROW(lines.feed(text), Error);
  TimedLines short_line([](const LogPiece&) {});
  short_line.feed("2026-01-31T12:00:00Z");
  EXPECT_THROW(short_line.end(), Error);
}

// ---- images and credentials

TEST(ImageReference, FindsRegistryAndTag) {
  struct Case {
    std::string text;
    std::string name;
    std::string tag;
    std::string key;
  };
  const std::string hub = "https://index.docker.io/v1/";
  for (const Case& each : std::vector<Case>{
           {"busybox", "busybox", "latest", hub},
           {"lab/solver:1", "lab/solver", "1", hub},
           {"docker.io/lab/solver", "docker.io/lab/solver", "latest", hub},
           {"localhost/x", "localhost/x", "latest", "localhost"},
           {"127.0.0.1:5000/x:y", "127.0.0.1:5000/x", "y", "127.0.0.1:5000"},
           {"r.example.com:5000/a/b", "r.example.com:5000/a/b", "latest", "r.example.com:5000"},
           {"a:1@sha256:ff", "a", "sha256:ff", hub},
       }) {
    const ImageReference reference = parse_image_reference(each.text);
    EXPECT_EQ(reference.name, each.name);
    EXPECT_EQ(reference.tag, each.tag);
    EXPECT_EQ(reference.credentials_key(), each.key);
  }
}

TEST(Base64, GoesBothWays) {
  EXPECT_EQ(encode_base64url(""), "");
  EXPECT_EQ(encode_base64url("a"), "YQ==");
  EXPECT_EQ(encode_base64url("ab"), "YWI=");
  EXPECT_EQ(encode_base64url("\xfb\xff\xfe"), "-__-");
  EXPECT_EQ(decode_base64("+//+"), "\xfb\xff\xfe");
  EXPECT_EQ(decode_base64("dXNlcjpwYXNz"), "user:pass");
  EXPECT_EQ(decode_base64("YQ=="), "a");
}

json header_of(const Credentials& credentials) {
  return json::parse(decode_base64(credentials.header));
}

TEST(Credentials, ComeFromAuths) {
  const Folder folder;
  folder.write("config.json", R"({"auths": {"https://r.example.com/v2/": {"auth": "dXNlcjpwYTpzcw=="},
                                            "https://index.docker.io/v1/": {"identitytoken": "t"}}})");
  EXPECT_EQ(header_of(find_credentials(folder.path(), "r.example.com", Seconds{5}, {})),
            (json{{"username", "user"}, {"password", "pa:ss"}, {"serveraddress", "r.example.com"}}));
  EXPECT_EQ(header_of(find_credentials(folder.path(), "https://index.docker.io/v1/", Seconds{5}, {})),
            (json{{"identitytoken", "t"}, {"serveraddress", "https://index.docker.io/v1/"}}));
  EXPECT_EQ(find_credentials(folder.path(), "other", Seconds{5}, {}).header, "");
  EXPECT_EQ(find_credentials("/nonexistent", "other", Seconds{5}, {}).header, "");
}

TEST(Credentials, ThatAreNotUtf8AreNamed) {
  const Folder folder;
  // "us\xffr:pass", "user:p\xffss"
  for (const std::string auth : {"dXP/cjpwYXNz", "dXNlcjpw/3Nz"}) {
    folder.write("config.json", R"({"auths": {"r.example.com": {"auth": ")" + auth + "\"}}}");
    const Credentials found = find_credentials(folder.path(), "r.example.com", Seconds{5}, {});
    EXPECT_EQ(found.header, "");
    EXPECT_EQ(found.note,
              folder.path() + "/config.json: `auth` of r.example.com must be base64 of UTF-8 text");
  }
}

// docker-credential-NAME programs on PATH.
class CredentialPrograms : public testing::Test {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): there is one thread between two tests
  CredentialPrograms() {
    if (const char* path = std::getenv("PATH")) path_ = path;
    ::setenv("PATH", (folder_.path() + ":" + path_).c_str(), 1);
  }
  ~CredentialPrograms() override { ::setenv("PATH", path_.c_str(), 1); }
  // NOLINTEND(concurrency-mt-unsafe)
  void program(const std::string& name, const std::string& script) const {
    folder_.write("docker-credential-" + name, "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder_.path() + "/docker-credential-" + name, std::filesystem::perms::all);
  }
  Credentials find(const std::string& config, Seconds time_max = Seconds{20},
                   const std::stop_token& stop = {}) const {
    folder_.write("config.json", config);
    return find_credentials(folder_.path(), "r.example.com", time_max, stop);
  }

 private:
  Folder folder_;
  std::string path_;
};

TEST_F(CredentialPrograms, AreAskedForTheRegistry) {
  program("store",
          R"(read -r server; echo "{\"ServerURL\":\"$server\",\"Username\":\"$1\",\"Secret\":\"s\"}")");
  const json wanted = {{"username", "get"}, {"password", "s"}, {"serveraddress", "r.example.com"}};
  EXPECT_EQ(header_of(find(R"({"credsStore": "store"})")), wanted);
  EXPECT_EQ(header_of(find(R"({"credsStore": "absent", "credHelpers": {"r.example.com": "store"}})")),
            wanted);
}

TEST_F(CredentialPrograms, MayGiveAToken) {
  program("token", R"(echo '{"Username":"<token>","Secret":"t"}')");
  EXPECT_EQ(header_of(find(R"({"credsStore": "token"})")),
            (json{{"identitytoken", "t"}, {"serveraddress", "r.example.com"}}));
}

TEST_F(CredentialPrograms, ThatFailLeaveTheRegistryToBeAskedWithout) {
  program("none", "echo credentials not found in native keychain; exit 1");
  program("slow", "exec sleep 1000");
  program("odd", "echo hello");
  EXPECT_EQ(find(R"({"credsStore": "none"})").header, "");
  EXPECT_EQ(find(R"({"credsStore": "none"})").note, "");
  EXPECT_EQ(find(R"({"credsStore": "odd"})").note, "docker-credential-odd gave no JSON");
  EXPECT_THAT(find(R"({"credsStore": "absent"})").note, HasSubstr("docker-credential-absent cannot be run"));
  EXPECT_THAT(find(R"({"credsStore": "slow"})", Seconds{0.1}).note, HasSubstr("did not end within"));
}

TEST_F(CredentialPrograms, ThatPrintWithoutAnEndAreEnded) {
  program("endless", "exec cat /dev/zero");
  EXPECT_EQ(find(R"({"credsStore": "endless"})").note, "docker-credential-endless printed more than 1 MiB");
}

TEST_F(CredentialPrograms, ThatCloseTheirOutputAndGoOnAreEnded) {
  program("silent", "exec sleep 1000 >&-");
  EXPECT_THAT(find(R"({"credsStore": "silent"})", Seconds{0.1}).note, HasSubstr("did not end within"));
}

TEST_F(CredentialPrograms, AreKilledWhenTheCallerStops) {
  program("slow", "exec sleep 1000");
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(find(R"({"credsStore": "slow"})", Seconds{600}, stop.get_token()).note,
            "docker-credential-slow was stopped");
}

TEST_F(CredentialPrograms, MayGiveWhatIsNotUtf8) {
  program("odd", R"(printf '{"Username":"u","Secret":"p\377"}')");
  EXPECT_EQ(find(R"({"credsStore": "odd"})").note, "docker-credential-odd gave no JSON");
}

TEST_F(CredentialPrograms, ThatNestTooDeepGiveNoJson) {
  program("deep", "head -c 900000 /dev/zero | tr '\\0' '['");
  EXPECT_EQ(find(R"({"credsStore": "deep"})").note, "docker-credential-deep gave no JSON");
}

// ---- listings that several share

TEST(SharedListing, HasBegunAfterItWasAskedFor) {
  constexpr int k_threads = 8;
  constexpr int k_calls = 50;
  SharedListing listing;
  std::atomic<std::int64_t> begun = 0;
  const auto ask = [&] {
    SharedListing::Containers containers(1);
    containers[0].created = ++begun;
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // as an engine takes its time
    return containers;
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < k_threads; ++i)
      threads.emplace_back([&] {
        for (int call = 0; call < k_calls; ++call) {
          const std::int64_t before = begun;
          EXPECT_GT(listing.after_now(ask)->at(0).created, before);
        }
      });
  }
  EXPECT_LT(begun, k_threads * k_calls) << "those who wait share the next one";
}

TEST(SharedListing, ThatFailsFailsForWhoHasAskedAlone) {
  SharedListing listing;
  EXPECT_THROW(listing.after_now(
                   []() -> SharedListing::Containers { throw Error(ErrorKind::unavailable, "", "away"); }),
               Error);
  EXPECT_EQ(listing.after_now([] { return SharedListing::Containers(2); })->size(), 2U);
}

// ---- finding the engine

using Environment = std::map<std::string, std::string>;

DockerPlace find_in(const Environment& environment, const std::string& address = "") {
  return find_docker(
      [&](const std::string& name) {
        const auto at = environment.find(name);
        return at == environment.end() ? std::nullopt : std::optional(at->second);
      },
      address);
}

TEST(FindDocker, GoesByWhatDockersClientGoesBy) {
  const Folder folder;
  folder.write("config.json", R"({"currentContext": "lab"})");
  folder.write("contexts/meta/0a/meta.json",
               R"({"Name": "lab", "Endpoints": {"docker": {"Host": "unix:///lab.sock"}}})");
  folder.write("contexts/meta/0b/meta.json",
               R"({"Name": "far", "Endpoints": {"docker": {"Host": "ssh://far"}}})");
  Environment environment = {{"HOME", "/home/x"}};
  EXPECT_EQ(find_in(environment).address.text(), "unix:///var/run/docker.sock");
  EXPECT_EQ(find_in(environment).config_folder, "/home/x/.docker");
  environment["DOCKER_CONFIG"] = folder.path();
  EXPECT_EQ(find_in(environment).address.text(), "unix:///lab.sock");
  EXPECT_EQ(find_in(environment).source, "context lab");
  environment["DOCKER_CONTEXT"] = "default";
  EXPECT_EQ(find_in(environment).address.text(), "unix:///var/run/docker.sock");
  environment["DOCKER_CONTEXT"] = "far";
  EXPECT_THAT(error_of([&] { (void)find_in(environment); })->message(),
              HasSubstr("ssh:// addresses are not supported yet"));
  environment["DOCKER_CONTEXT"] = "gone";
  EXPECT_EQ(error_of([&] { (void)find_in(environment); })->kind(), ErrorKind::invalid);
  environment["DOCKER_HOST"] = "tcp://127.0.0.1:2375";
  EXPECT_EQ(find_in(environment).address.text(), "tcp://127.0.0.1:2375");
  EXPECT_EQ(find_in(environment, "unix:///mine").address.text(), "unix:///mine");
  environment["DOCKER_TLS_VERIFY"] = "1";
  EXPECT_THAT(error_of([&] { (void)find_in(environment); })->message(),
              HasSubstr("TLS is not supported yet"));
}

TEST(FindDocker, PlainTcpIsForThisMachineOnly) {
  for (const char* address : {"tcp://127.0.0.1:2375", "tcp://localhost:1", "tcp://[::1]:2375"})
    EXPECT_EQ(find_in({}, address).address.text(), address);
  const auto error = error_of([&] { (void)find_in({{"DOCKER_HOST", "tcp://10.1.2.3:2375"}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_THAT(error->what(), HasSubstr("tcp://10.1.2.3:2375: DOCKER_HOST means another machine"));
}

TEST(FindDocker, ABrokenConfigIsNamed) {
  const Folder folder;
  folder.write("config.json", "{");
  const auto error = error_of([&] { (void)find_in({{"DOCKER_CONFIG", folder.path()}}); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::invalid);
  EXPECT_EQ(error->subject(), folder.path() + "/config.json");
}

// ---- refusals

TEST(Refusals, AreOneLineInTheDaemonsWords) {
  HttpResponse response;
  response.status = 500;
  response.body = R"({"message": "  first\n\tsecond  "})";
  EXPECT_EQ(message_of(response), "first second");
  response.body = "plain";
  EXPECT_EQ(message_of(response), "status 500: plain");
  response.body = "";
  EXPECT_EQ(message_of(response), "status 500 without a word");
  response.body = json{{"message", std::string(10000, 'x')}}.dump();
  EXPECT_LT(message_of(response).size(), 600U);
}

TEST(ApiVersion, IsComparedAsNumbers) {
  EXPECT_LT(parse_api_version("1.9"), parse_api_version("1.41"));
  for (const std::string text : {"", "1", "1.", "v1.41", "1.41x"}) {
    EXPECT_THROW((void)parse_api_version(text), Error) << text;
  }
}

}  // namespace
}  // namespace combu::docker
