#pragma once
// An engine that does not copy files: its containers are processes of this machine, whose first process is
// the agent. Faults happen between the client and the agents when the test wants.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "combu/engine.hpp"
#include "combu/workers.hpp"
#include "error_of.hpp"
#include "experiments.hpp"
#include "unit/agent_fixture.hpp"

namespace combu::test {

inline constexpr std::int64_t k_all_bytes = std::numeric_limits<std::int64_t>::max();

class PodEngine : public Engine {
 public:
  // The containers use this folder of this machine instead of the folder `/combu`.
  explicit PodEngine(std::string folder) : folder_(std::move(folder)), program_(folder_ + "/agent") {
    std::ofstream(program_, std::ios::binary) << agent::program_for(agent::k_platform);
    std::filesystem::permissions(program_, std::filesystem::perms::owner_all);
  }

  Facts facts(std::stop_token /*stop*/) override {
    Facts facts;
    facts.can_exec = true;
    facts.places_attempts = true;
    return facts;
  }
  bool copies_files() const override { return does_copy_files; }
  bool gives_secrets() const override { return !does_copy_files; }
  std::vector<Gpu> gpus(std::stop_token /*stop*/) override { return {}; }
  std::vector<Error> check(const combu::Run& run, std::stop_token /*stop*/) override {
    checked = run.experiment.trials;
    return {};
  }
  std::vector<Error> prepare(const combu::Run& run,
                             const std::function<void(const Preparation&)>& on_progress,
                             std::stop_token /*stop*/) override {
    ++prepares;
    for (const Trial& trial : run.experiment.trials)
      on_progress({.kind = Preparation::Kind::found,
                   .name = trial.image,
                   .platform = trial.platform,
                   .program = image_program});
    return {};
  }

  StartResult start(const combu::Run& run, const Trial& trial, int attempt,
                    std::stop_token /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    if (is_away) throw Error(ErrorKind::unavailable, trial.name, "away");
    const Key key{.run = run.id, .trial = trial.name, .attempt = attempt};
    if (!pods_.contains(key)) {
      Pod& pod = pods_[key];
      pod.seen.key = key;
      pod.seen.id = trial.name + "-" + std::to_string(attempt);
      if (trial.container.provided) pod.seen.placement.supervisor_report.emplace();
      pod.seen.placement.awaits_delivery = trial.container.awaits_delivery;
      pod.seen.health = health;
      pod.seen.phase = Phase::pending;
      pod.seen.is_unacknowledged = keeps_results;
      pod.folder = folder_ + "/" + pod.seen.id;
      pod.argv = trial.process.entrypoint.value_or(std::vector<std::string>());
      const auto& cmd = trial.process.cmd.value_or(std::vector<std::string>());
      pod.argv.insert(pod.argv.end(), cmd.begin(), cmd.end());
      for (std::string& word : pod.argv) word = here(word, pod);
      if (!is_full) run_pod(pod);
    }
    if (is_answer_lost.exchange(false)) throw Error(ErrorKind::timeout, trial.name, "no answer");
    if (places) return Accepted{};
    return Running{pods_.at(key).seen};
  }
  void stop(const Key& key, std::optional<Seconds> /*grace*/, std::stop_token /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    if (is_away || failing_stops-- > 0) throw Error(ErrorKind::unavailable, key.trial, "away");
    ++stops;
    Pod& pod = pods_.at(key);
    pod.is_stopped = true;
    if (pod.process) ::kill(pod.process->pid(), SIGTERM);
  }
  std::vector<Observation> list(const Selector& selector, ListDetail /*detail*/,
                                std::stop_token /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    if (is_away) throw Error(ErrorKind::unavailable, "list", "away");
    std::vector<Observation> listed;
    for (auto& [key, pod] : pods_) {
      refresh(pod);
      if (pod.seen.phase != Phase::gone && is_selected(selector, key)) listed.push_back(pod.seen);
    }
    return listed;
  }
  void watch(const Selector& selector, const std::function<void(const Change&)>& on_change,
             std::stop_token stop) override {
    on_change(Watching{});
    std::map<Key, Phase> known;
    while (!stop.stop_requested()) {
      std::vector<Observation> changed;
      {
        const std::scoped_lock lock(mutex_);
        for (auto& [key, pod] : pods_) {
          refresh(pod);
          const auto [phase, is_new] = known.try_emplace(key, pod.seen.phase);
          if (!is_selected(selector, key)) continue;
          if (is_new || std::exchange(phase->second, pod.seen.phase) != pod.seen.phase)
            changed.push_back(pod.seen);
        }
      }
      for (const Observation& seen : changed) on_change(seen);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  std::optional<Usage> usage(const std::string& /*id*/, std::stop_token /*stop*/) override {
    return Usage{.memory = Bytes{1}};
  }
  void logs(const Key& /*key*/, const LogOptions& /*options*/, const OnLogPiece& on_piece,
            std::stop_token /*stop*/) override {
    on_piece({.text = "from the engine\n"});
  }
  bool copy_out(const Key& key, const std::string& /*path*/,
                const std::function<void(std::string_view)>& /*on_bytes*/,
                std::stop_token /*stop*/) override {
    throw Error(ErrorKind::refused, key.trial, "not possible");
  }
  std::unique_ptr<ByteStream> exec(const Key& key, const std::vector<std::string>& argv,
                                   std::stop_token /*stop*/) override {
    const std::scoped_lock lock(mutex_);
    ++execs;
    if (exec_fault) throw Error(*exec_fault, key.trial, "no exec");
    const auto found = pods_.find(key);
    if (found == pods_.end()) throw Error(ErrorKind::not_found, key.trial, "no such container");
    Pod& pod = found->second;
    refresh(pod);
    if (pod.seen.phase != Phase::running && !pod.seen.placement.is_restarted)
      throw Error(ErrorKind::conflict, key.trial, "does not run");
    std::vector<std::string> here_argv;
    for (const std::string& word : argv) here_argv.push_back(here(word, pod));
    return std::make_unique<Stream>(*this, here_argv);
  }
  void acknowledge(const std::vector<Key>& keys) override {
    const std::scoped_lock lock(mutex_);
    acknowledged.insert(keys.begin(), keys.end());
  }
  Released release(const Selector& /*selector*/, const ReleaseCallbacks& /*callbacks*/,
                   std::stop_token /*stop*/) override {
    return {};
  }

  // Runs a container that start() could not place.
  void place(const Key& key) {
    const std::scoped_lock lock(mutex_);
    run_pod(pods_.at(key));
  }
  // The container is killed with all of its processes. `lost`, `report`: as in its observation.
  void kill(const Key& key, const std::string& lost = "", const std::string& report = "") {
    const std::scoped_lock lock(mutex_);
    Pod& pod = pods_.at(key);
    pod.seen.lost = lost;
    pod.seen.placement.supervisor_report = report;
    kill_processes(pod);
    refresh(pod);
  }
  // The container dies, and its first process begins again with the files of its volumes.
  void restart(const Key& key) {
    const std::scoped_lock lock(mutex_);
    Pod& pod = pods_.at(key);
    kill_processes(pod);
    refresh(pod);
    const Observation end = pod.seen;
    std::filesystem::remove(pod.folder + "/socket");
    run_pod(pod);
    pod.seen = end;
    pod.seen.placement.keeps_files = pod.seen.placement.is_restarted = true;
  }
  void remove(const Key& key) {
    const std::scoped_lock lock(mutex_);
    Pod& pod = pods_.at(key);
    kill_processes(pod);
    refresh(pod);
    pod.seen.phase = Phase::gone;
  }
  // Waits until the container has ended, and returns its exit code.
  int exit_code(const Key& key) {
    std::optional<int> code;
    agent::await_state([&] {
      const std::scoped_lock lock(mutex_);
      refresh(pods_.at(key));
      code = pods_.at(key).seen.exit_code;
      return code.has_value();
    });
    return *code;
  }
  Observation container(const Key& key) {
    const std::scoped_lock lock(mutex_);
    refresh(pods_.at(key));
    return pods_.at(key).seen;
  }
  std::size_t connections() {
    const std::scoped_lock lock(streams_mutex_);
    return streams_.size();
  }
  // Cuts all connections.
  void cut() {
    const std::scoped_lock lock(streams_mutex_);
    for (Stream* stream : streams_) stream->close();
  }

  Health health = Health::none;  // of new containers
  bool does_copy_files = false;  // as a Docker Engine, which does not give secrets
  std::atomic<bool> is_away{false};
  std::atomic<bool> is_full{false};  // no container has a place
  std::atomic<bool> places{true};    // start() returns Accepted
  std::atomic<bool> keeps_results{false};
  std::atomic<bool> hides_ends{false};  // containers that have ended are reported as running
  std::atomic<bool> is_answer_lost{false};
  std::atomic<int> failing_stops{0};
  std::atomic<int> stops{0};
  std::atomic<int> execs{0};
  std::optional<ErrorKind> exec_fault;  // set it only while no call runs, or by refuse_exec()
  void refuse_exec(std::optional<ErrorKind> fault) {
    const std::scoped_lock lock(mutex_);
    exec_fault = fault;
  }
  std::set<Key> acknowledged;
  std::vector<Trial> checked;
  std::atomic<int> prepares{0};
  ImageProgram image_program;  // of each image
  // The next connection breaks after so many bytes from the agent, or to the agent.
  std::atomic<std::int64_t> cut_from_agent{k_all_bytes};
  std::atomic<std::int64_t> cut_to_agent{k_all_bytes};
  std::atomic<bool> is_mute{false};    // nothing that the agents send arrives
  std::atomic<bool> is_unread{false};  // the agents do not read: writes block
  std::atomic<int> blocked_writes{0};
  // Returns the bytes of the last connection from the agent.
  std::string received() {
    const std::scoped_lock lock(streams_mutex_);
    return received_;
  }
  // `filter` is called with the bytes of each write to an agent. They are dropped if it returns false.
  void filter_writes(std::function<bool(std::string_view)> filter) {
    const std::scoped_lock lock(streams_mutex_);
    filter_ = std::move(filter);
  }

 private:
  struct Pod {
    Observation seen;
    std::vector<std::string> argv;
    std::string folder;
    std::optional<agent::ChildProcess> process;
    bool is_stopped = false;
  };

  class Stream final : public ByteStream {
   public:
    Stream(PodEngine& engine, const std::vector<std::string>& argv)
        : engine_(engine),
          left_from_agent_(engine.cut_from_agent.exchange(k_all_bytes)),
          left_to_agent_(engine.cut_to_agent.exchange(k_all_bytes)) {
      std::array<int, 2> in{};
      std::array<int, 2> out{};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in.data()) != 0 ||
          ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out.data()) != 0)
        throw Error(ErrorKind::unavailable, "exec", "no sockets");
      to_ = in[0];
      from_ = out[0];
      const int errors = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
      process_.emplace(argv, in[1], out[1], errors);
      ::close(errors);
      ::close(in[1]);
      ::close(out[1]);
      const std::scoped_lock lock(engine_.streams_mutex_);
      engine_.streams_.insert(this);
      engine_.received_.clear();
    }
    ~Stream() override {
      Stream::close();
      {
        const std::scoped_lock lock(engine_.streams_mutex_);
        engine_.streams_.erase(this);
      }
      process_.reset();
      ::close(to_);
      ::close(from_);
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    std::size_t read(std::span<char> buffer) override {
      const std::size_t most =
          std::min<std::size_t>(buffer.size(), static_cast<std::size_t>(left_from_agent_));
      if (most == 0) break_off();
      ssize_t count = 0;
      do {
        count = ::recv(from_, buffer.data(), most, 0);
      } while (engine_.is_mute && count > 0);
      if (count <= 0) return 0;
      left_from_agent_ -= count;
      const std::scoped_lock lock(engine_.streams_mutex_);
      engine_.received_.append(buffer.data(), static_cast<std::size_t>(count));
      return static_cast<std::size_t>(count);
    }
    void write(std::string_view bytes) override {
      if (!engine_.passes(bytes)) return;
      ++engine_.blocked_writes;
      while (engine_.is_unread && !is_closed_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      --engine_.blocked_writes;
      const auto most = static_cast<std::size_t>(left_to_agent_.load());
      const bool is_cut = bytes.size() > most;
      bytes = bytes.substr(0, most);
      left_to_agent_ -= static_cast<std::int64_t>(bytes.size());
      while (!bytes.empty()) {
        const ssize_t count = ::send(to_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (count <= 0) throw Error(ErrorKind::unavailable, "exec", "closed");
        bytes.remove_prefix(static_cast<std::size_t>(count));
      }
      if (is_cut) break_off();
    }
    void close() override {
      is_closed_ = true;
      ::shutdown(to_, SHUT_RDWR);
      ::shutdown(from_, SHUT_RDWR);
    }
    std::string errors() override { return ""; }

   private:
    [[noreturn]] void break_off() {
      close();
      throw Error(ErrorKind::unavailable, "exec", "cut");
    }

    PodEngine& engine_;
    std::int64_t left_from_agent_;
    std::atomic<std::int64_t> left_to_agent_;
    std::atomic<bool> is_closed_{false};
    int to_ = -1;
    int from_ = -1;
    std::optional<agent::ChildProcess> process_;
  };

  bool passes(std::string_view bytes) {
    const std::scoped_lock lock(streams_mutex_);
    return !filter_ || filter_(bytes);
  }
  static bool is_selected(const Selector& selector, const Key& key) {
    if (selector.run && *selector.run != key.run) return false;
    return selector.trials.empty() || std::ranges::find(selector.trials, key.trial) != selector.trials.end();
  }
  [[nodiscard]] std::string here(const std::string& word, const Pod& pod) const {
    if (word == "/combu/agent/agent") return program_;
    return word == "/combu/attempts/w/agent" ? pod.folder : word;
  }
  static void run_pod(Pod& pod) {
    const std::string log = pod.folder + ".log";
    const int output = ::open(log.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    pod.process.emplace(pod.argv, -1, output, output);
    ::close(output);
    // The engine reports the container when its first process listens.
    if (is_supervised(pod.seen))
      agent::await_state(
          [&] { return std::filesystem::exists(pod.folder + "/socket") || pod.process->has_ended(); });
    pod.seen.phase = Phase::running;
    pod.seen.ran_at = real_clock().now();
  }
  void refresh(Pod& pod) const {
    if (pod.seen.phase != Phase::running || hides_ends || !pod.process->has_ended()) return;
    pod.seen.phase = Phase::ended;
    pod.seen.stopped = pod.is_stopped;
    pod.seen.ended_at = real_clock().now();
    const int code = pod.process->wait();
    pod.seen.exit_code = code < 0 ? 128 + SIGKILL : code;
  }
  static void kill_processes(Pod& pod) {
    if (!pod.process || pod.process->has_ended()) return;
    const std::string number = std::to_string(pod.process->pid());
    std::istringstream children(agent::text_of("/proc/" + number + "/task/" + number + "/children"));
    ::kill(pod.process->pid(), SIGKILL);
    for (pid_t child = 0; children >> child;) ::kill(-child, SIGKILL);
    pod.process->wait();
  }

  const std::string folder_;
  const std::string program_;
  std::mutex mutex_;
  std::map<Key, Pod> pods_;
  std::mutex streams_mutex_;
  std::set<Stream*> streams_;
  std::string received_;
  std::function<bool(std::string_view)> filter_;
};

// True if the bytes of a write are a frame of this type.
inline bool is_frame(std::string_view bytes, agent::FrameType type) {
  return bytes.size() >= agent::k_header_size && bytes[agent::k_header_size - 1] == static_cast<char>(type);
}

// The entries of a tar archive, from names to contents.
inline std::map<std::string, std::string> entries_of(std::string_view archive) {
  constexpr std::size_t k_block = 512;
  std::map<std::string, std::string> entries;
  while (archive.size() >= k_block && archive.front() != '\0') {
    const std::string name(archive.data());
    const std::size_t size = std::stoul(std::string(archive.substr(124, 11)), nullptr, 8);
    entries[name] = archive.substr(k_block, size);
    archive.remove_prefix(std::min(archive.size(), k_block + (size + k_block - 1) / k_block * k_block));
  }
  return entries;
}

class SupervisedTest : public testing::Test {
 protected:
  SupervisedTest() {
    if (::mkdtemp(root_.data()) == nullptr) throw std::runtime_error("no folder");
    pods_.emplace(root_);
    engine_ = decorate();
  }
  ~SupervisedTest() override {
    end_watch();
    engine_.reset();
    other_.reset();
    pods_.reset();
    std::filesystem::remove_all(root_);
  }
  SupervisedTest(const SupervisedTest&) = delete;
  SupervisedTest& operator=(const SupervisedTest&) = delete;

  [[nodiscard]] std::unique_ptr<Engine> decorate() {
    return with_supervision(
        *pods_, [](std::string_view) { return std::string_view("agent"); }, limits_);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return root_ + "/" + name; }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  // Adds a trial that runs a shell script, and has an output, so that its container runs the agent.
  Trial& add(const std::string& name, const std::string& script) {
    Trial one = trial(name, script);
    one.process.entrypoint = std::vector<std::string>();
    one.process.stop_grace = Seconds(10);
    one.outputs = {Output{.path = path("out")}};
    run_.experiment.trials.push_back(std::move(one));
    return run_.experiment.trials.back();
  }
  // Adds a trial with an input of one file, which the script reads as path("in/input").
  Trial& add_with_input(const std::string& name, const std::string& script,
                        const std::string& text = "brought\n") {
    Trial& one = add(name, script);
    one.inputs = {Input{.from = write("from/input", text), .to = path("in/input")}};
    return one;
  }
  // Starts an attempt of a trial, and waits until its program has begun or has ended.
  Key start(const std::string& name) {
    const Key key = begin(name);
    await(key, [](const Observation& seen) { return seen.phase != Phase::pending; });
    return key;
  }
  // Starts an attempt of a trial.
  Key begin(const std::string& name) {
    watch();
    const Key key = key_of(name);
    engine_->start(run_, *std::ranges::find(run_.experiment.trials, name, &Trial::name), key.attempt, {});
    return key;
  }
  [[nodiscard]] Key key_of(const std::string& name) const {
    return {.run = run_.id, .trial = name, .attempt = 1};
  }
  Key run_to_end(const std::string& name) {
    const Key key = begin(name);
    await_end(key);
    return key;
  }

  // Watches the engine, as the owner of a run does.
  void watch() {
    if (watcher_.joinable()) return;
    bool is_watching = false;  // guarded by changes_mutex_
    watcher_ = std::jthread([&, this](const std::stop_token& stop) {
      engine_->watch(
          {},
          [&](const Change& change) {
            const std::scoped_lock lock(changes_mutex_);
            if (const auto* seen = std::get_if<Observation>(&change))
              changes_.push_back(*seen);
            else
              is_watching = true;
          },
          stop);
    });
    agent::await_state([&] {
      const std::scoped_lock lock(changes_mutex_);
      return is_watching;
    });
  }
  void end_watch() {
    watcher_.request_stop();
    if (watcher_.joinable()) watcher_.join();
  }
  // Returns the first change of the attempt that the condition accepts, since the last await() of the
  // attempt.
  Observation await(const Key& key, const std::function<bool(const Observation&)>& accepts) {
    std::optional<Observation> found;
    agent::await_state([&] {
      const std::scoped_lock lock(changes_mutex_);
      std::size_t& at = awaited_[key];
      for (; at < changes_.size() && !found; ++at)
        if (changes_[at].key == key && accepts(changes_[at])) found = changes_[at];
      return found.has_value();
    });
    return *found;
  }
  Observation await_end(const Key& key) {
    return await(key, [](const Observation& seen) { return seen.phase == Phase::ended; });
  }
  static Observation listed_by(Engine& engine, const Key& key) {
    for (const Observation& seen : engine.list({.run = key.run}, ListDetail::consistent, {}))
      if (seen.key == key) return seen;
    throw std::runtime_error("not listed");
  }
  Observation listed(const Key& key) { return listed_by(*engine_, key); }
  std::string collect(const Key& key, const std::string& from) { return collect_by(*engine_, key, from); }
  static std::string collect_by(Engine& engine, const Key& key, const std::string& from) {
    std::string archive;
    const bool is_found = engine.copy_out(key, from, [&](std::string_view bytes) { archive += bytes; }, {});
    return is_found ? archive : "absent";
  }
  std::string text_of_log(const Key& key, const LogOptions& options = {},
                          std::optional<LogStream> stream = std::nullopt) {
    std::string text;
    engine_->logs(key, options,
                  [&](const LogPiece& piece) {
                    if (!stream || piece.stream == *stream) text += piece.text;
                  },
                  {});
    return text;
  }
  // A shell script waits until allow() is called with this name.
  [[nodiscard]] std::string until(const std::string& name) const {
    return "while ! test -e " + path(name) + "; do sleep 0.01; done";
  }
  void allow(const std::string& name) const { (void)write(name, ""); }

  std::string root_ = (std::filesystem::temp_directory_path() / "combu-pods-XXXXXX").string();
  SupervisionLimits limits_{.silence_max = Seconds(20),
                            .listing_max = Seconds(20),
                            .pause_min = Seconds(0.001),
                            .pause_max = Seconds(0.01)};
  combu::Run run_{.id = RunId("run1"), .experiment = {.name = "pods", .file = "/pods"}};
  std::optional<PodEngine> pods_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> other_;  // of another process

 private:
  std::mutex changes_mutex_;
  std::vector<Observation> changes_;
  std::map<Key, std::size_t> awaited_;
  std::jthread watcher_;
};

}  // namespace combu::test
