#pragma once
// Runs the agent's program on this machine: a worker with a folder of its own, and clients that join it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "combu/agent.hpp"

namespace combu::agent {

namespace fs = std::filesystem;

inline constexpr std::chrono::seconds k_patience{20};

#ifdef __aarch64__
inline constexpr std::string_view k_platform = "linux/arm64";
#else
inline constexpr std::string_view k_platform = "linux/amd64";
#endif

// Returns the platform of the program that the tests run. With COMBU_TEST_AGENT_PLATFORM, that of another
// processor, which this machine must be able to run (docs/release.md).
inline std::string_view tested_platform() {
  const char* platform = std::getenv("COMBU_TEST_AGENT_PLATFORM");
  return platform == nullptr ? k_platform : platform;
}

// Waits until the condition holds.
inline void await_state(const std::function<bool()>& holds) {
  const auto deadline = std::chrono::steady_clock::now() + k_patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("the state did not come");
    ::usleep(1000);
  }
}

inline std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// A child process. Gets SIGTERM at the end, so that an agent can kill its attempts, and later SIGKILL.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& argv, int in, int out, int errors) {
    std::vector<char*> arguments;
    for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    if (in >= 0) ::dup2(in, 0);
    if (out >= 0) ::dup2(out, 1);
    if (errors >= 0) ::dup2(errors, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~ChildProcess() {
    constexpr int k_polls = 2000;
    if (status_) return;
    ::kill(pid_, SIGTERM);
    for (int i = 0; i < k_polls; ++i) {
      if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;
      ::usleep(1000);
    }
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Waits for the end. Returns the exit code; -1 after a signal.
  int wait() {
    has_ended(0);
    return *status_;
  }
  [[nodiscard]] bool has_ended() { return has_ended(WNOHANG); }

 private:
  bool has_ended(int flags) {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, flags) == pid_)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return status_.has_value();
  }

  pid_t pid_ = -1;
  std::optional<int> status_;
};

// The client's side of a connection.
class Client {
 public:
  explicit Client(const std::vector<std::string>& join) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
      throw std::runtime_error("pipe");
    process_.emplace(join, in[0], out[1], -1);
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Client() {
    hang_up();
    ::close(from_);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Closes the direction to the agent.
  void hang_up() {
    if (to_ >= 0) ::close(std::exchange(to_, -1));
  }
  ChildProcess& process() { return *process_; }

  void write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t count = ::write(to_, bytes.data(), bytes.size());
      if (count <= 0) throw std::runtime_error("write");
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }
  template <class Message>
  void send(const Message& message) const {
    std::string bytes;
    append(bytes, message);
    write(bytes);
  }
  // Sends Hello, and waits for Welcome.
  Welcome greet() {
    send(Hello{});
    return await<Welcome>();
  }
  // Waits for a message of this type that the condition accepts. Other messages stay for later calls.
  template <class Message>
  Message await(const std::function<bool(const Message&)>& accepts = [](const Message&) { return true; }) {
    std::size_t seen = 0;
    while (true) {
      for (; seen < frames_.size(); ++seen) {
        Message message;
        if (frames_[seen].first != Message::k_type) continue;
        if (!decode(frames_[seen].second, message)) throw std::runtime_error("malformed message");
        if (!accepts(message)) continue;
        frames_.erase(frames_.begin() + static_cast<std::ptrdiff_t>(seen));
        return message;
      }
      if (!receive()) throw std::runtime_error("the agent has closed the connection");
    }
  }
  template <class Message>
  Message await_of(const std::string& id) {
    return await<Message>([&](const Message& message) { return message.id == id; });
  }
  template <class Message>
  Message await_answer(std::uint32_t request) {
    return await<Message>([&](const Message& message) { return message.request == request; });
  }
  // Reads until the agent closes the connection.
  void await_end() {
    while (receive()) continue;
  }
  [[nodiscard]] std::size_t count(FrameType type) const {
    std::size_t count = 0;
    for (const auto& frame : frames_) count += frame.first == type ? 1 : 0;
    return count;
  }
  // Reads what comes next. Returns false at the end of the stream.
  bool receive() {
    pollfd waiting{.fd = from_, .events = POLLIN, .revents = 0};
    const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(k_patience);
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) == 0)
      throw std::runtime_error("no frame came");
    std::array<char, 65536> part{};
    const ssize_t size = ::read(from_, part.data(), part.size());
    if (size <= 0) return false;
    reader_.feed({part.data(), static_cast<std::size_t>(size)});
    Frame frame;
    FrameReader::Result result{};
    while ((result = reader_.next(frame)) == FrameReader::Result::frame) {
      grant(frame);
      frames_.emplace_back(frame.type, std::string(frame.payload));
    }
    if (result == FrameReader::Result::corrupt) throw std::runtime_error("corrupt frame");
    return true;
  }

 private:
  // Lets the agent send more of an answer, as a client that has consumed the frame.
  void grant(const Frame& frame) const {
    if (to_ < 0) return;
    if (Data data; frame.type == FrameType::data && decode(frame.payload, data))
      send(More{.request = data.request, .bytes = data.bytes.size()});
    Log log;
    if (frame.type != FrameType::log || !decode(frame.payload, log)) return;
    std::uint64_t bytes = 0;
    for (const LogChunk& chunk : log.chunks) bytes += chunk.bytes.size();
    send(More{.request = log.request, .bytes = bytes});
  }

  std::optional<ChildProcess> process_;
  int to_ = -1;
  int from_ = -1;
  FrameReader reader_;
  std::vector<std::pair<FrameType, std::string>> frames_;
};

// The file of results.
struct ResultsFile {
  explicit ResultsFile(std::string_view bytes) {
    FrameReader reader;
    reader.feed(bytes);
    Frame frame;
    while (reader.next(frame) == FrameReader::Result::frame) {
      if (frame.type != FrameType::log) types.push_back(frame.type);
      Ended end;
      Log log;
      Done done;
      if (frame.type == FrameType::ended && decode(frame.payload, end)) {
        numbers[end.id] = static_cast<std::uint32_t>(ended.size()) + 1;
        ended[end.id] = end;
      }
      if (frame.type == FrameType::log && decode(frame.payload, log))
        for (const LogChunk& chunk : log.chunks) logs[log.request] += chunk.bytes;
      if (frame.type == FrameType::done && decode(frame.payload, done)) statuses[done.request] = done.status;
    }
  }
  // Returns the whole log of an attempt; nullopt if the file does not have it.
  [[nodiscard]] std::optional<std::string> log_of(const std::string& id) const {
    const std::uint32_t number = numbers.at(id);
    if (const Ended& end = ended.at(id); (end.flags & Ended::log_is_whole) != 0) {
      std::string text;
      for (const LogChunk& chunk : end.log) text += chunk.bytes;
      return text;
    }
    const auto status = statuses.find(number);
    if (status == statuses.end() || status->second != Done::ok) return std::nullopt;
    const auto log = logs.find(number);
    return log == logs.end() ? "" : log->second;
  }

  std::vector<FrameType> types;  // without Log
  std::map<std::string, Ended> ended;
  std::map<std::string, std::uint32_t> numbers;
  std::map<std::uint32_t, std::string> logs;
  std::map<std::uint32_t, std::uint8_t> statuses;
};

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    if (::mkdtemp(root_.data()) == nullptr) throw std::runtime_error("no folder");
    ::signal(SIGPIPE, SIG_IGN);
    std::ofstream(program(), std::ios::binary) << program_for(tested_platform());
    fs::permissions(program(), fs::perms::owner_all);
  }
  ~AgentTest() override {
    client_.reset();
    worker_.reset();
    fs::remove_all(root_);
  }
  AgentTest(const AgentTest&) = delete;
  AgentTest& operator=(const AgentTest&) = delete;

  [[nodiscard]] std::string program() const { return root_ + "/agent"; }
  [[nodiscard]] std::string folder() const { return root_ + "/folder"; }
  [[nodiscard]] std::string path(const std::string& name) const { return root_ + "/" + name; }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }

  // `after`: the further arguments of the worker.
  void start_worker(const std::vector<std::string>& before = {}, int idle_seconds = 60,
                    const std::vector<std::string>& after = {}) {
    std::vector<std::string> argv = before;
    for (const std::string& word : {program(), std::string("worker"), folder(), std::to_string(idle_seconds)})
      argv.push_back(word);
    argv.insert(argv.end(), after.begin(), after.end());
    worker_.emplace(argv, -1, -1, -1);
    await_state([&] { return fs::exists(folder() + "/socket"); });
  }
  [[nodiscard]] std::unique_ptr<Client> connect() const {
    return std::make_unique<Client>(std::vector<std::string>{program(), "join", folder()});
  }
  // The first client, which is connected on the first call; the worker is started if none runs.
  Client& client() {
    if (client_ == nullptr) {
      if (!worker_) start_worker();
      client_ = connect();
      client_->greet();
      client_->await<Listed>();
    }
    return *client_;
  }
  static Start script(const std::string& id, const std::string& text) {
    return {.id = id, .argv = {"sh", "-c", text}, .env = {}, .files = {}, .log_max = 1 << 20};
  }
  // Runs a shell script to its end.
  Ended run(const std::string& text) {
    const std::string id = "run" + std::to_string(++runs_);
    client().send(script(id, text));
    return client().await_of<Ended>(id);
  }
  static std::string text_of_log(const std::vector<LogChunk>& log, std::uint8_t stream = 0) {
    std::string text;
    for (const LogChunk& chunk : log)
      if (stream == 0 || chunk.stream == stream) text += chunk.bytes;
    return text;
  }
  // Asks for a log or an archive and returns its Done; the parts go to `chunks` or `bytes`.
  Done read_log(const ReadLog& request, std::vector<LogChunk>& chunks) {
    client().send(request);
    const Done done = client().await_answer<Done>(request.request);
    while (client().count(FrameType::log) > 0)
      for (LogChunk& chunk : client().await_answer<Log>(request.request).chunks)
        chunks.push_back(std::move(chunk));
    return done;
  }
  Done collect(const Collect& request, std::string& bytes) {
    client().send(request);
    const Done done = client().await_answer<Done>(request.request);
    while (client().count(FrameType::data) > 0) bytes += client().await_answer<Data>(request.request).bytes;
    return done;
  }

  std::string root_ = (fs::temp_directory_path() / "combu-agent-XXXXXX").string();
  std::optional<ChildProcess> worker_;
  std::unique_ptr<Client> client_;
  int runs_ = 0;
};

}  // namespace combu::agent
