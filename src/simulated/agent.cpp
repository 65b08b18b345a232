#include "agent.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

namespace combu {

namespace {

using agent::Done;
using agent::Ended;
using agent::FrameType;
using agent::Refused;

constexpr Bytes k_mebibyte{std::int64_t{1} << 20U};
constexpr std::size_t k_staged_max = std::size_t{1} << 20U;

std::int64_t nanoseconds_of(Instant instant) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(instant.time_since_epoch()).count();
}

std::uint64_t duration_of(Instant from, Instant to) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, nanoseconds_of(to) - nanoseconds_of(from)));
}

std::size_t size_of(const std::vector<agent::LogChunk>& log) {
  std::size_t size = 0;
  for (const agent::LogChunk& chunk : log) size += chunk.bytes.size();
  return size;
}

template <class Message>
void add(AgentAnswer& answer, const Message& message, std::size_t size) {
  AgentAnswer::Part& part = answer.parts.emplace_back();
  agent::append(part.frame, message);
  part.size = size;
}

// Returns the files of a tar archive, or nullopt if the bytes are no tar archive. Keeps only the beginning of
// a large file.
std::optional<std::map<std::string, std::string>> files_in(const std::string& tar) {
  const std::unique_ptr<archive, decltype(&archive_read_free)> from(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(from.get());
  if (archive_read_open_memory(from.get(), tar.data(), tar.size()) != ARCHIVE_OK) return std::nullopt;
  std::map<std::string, std::string> files;
  archive_entry* entry = nullptr;
  int status = ARCHIVE_OK;
  while ((status = archive_read_next_header(from.get(), &entry)) == ARCHIVE_OK) {
    if (archive_entry_filetype(entry) != AE_IFREG) continue;
    std::string content(
        std::min<std::size_t>(static_cast<std::size_t>(archive_entry_size(entry)), k_staged_max), '\0');
    const la_ssize_t count = archive_read_data(from.get(), content.data(), content.size());
    if (count < 0) return std::nullopt;
    content.resize(static_cast<std::size_t>(count));
    files.emplace(archive_entry_pathname(entry), std::move(content));
  }
  if (status != ARCHIVE_EOF) return std::nullopt;
  return files;
}

}  // namespace

SimulatedAgent::SimulatedAgent(AgentSurroundings surroundings, std::string folder, Seconds idle,
                               std::string note, Instant now)
    : around_(std::move(surroundings)),
      folder_(std::move(folder)),
      idle_(idle),
      note_(std::move(note)),
      boot_(fmt::format("{:016x}", around_.random())) {
  note_idle(now);
}

bool SimulatedAgent::chance(double probability) {
  return probability > 0 && static_cast<double>(around_.random() >> 11U) * 0x1p-53 < probability;
}

std::string SimulatedAgent::scratch_of(const Attempt& attempt) const {
  return fmt::format("{}/{}", folder_, attempt.number);
}

// ---- Connections

std::shared_ptr<AgentConnection> SimulatedAgent::join() {
  return connections_.emplace_back(std::make_shared<AgentConnection>());
}

template <class Message>
void SimulatedAgent::send(AgentConnection& to, const Message& message) {
  std::string frame;
  agent::append(frame, message);
  send_frame(to, std::move(frame));
}

// The faults break the frame or the connection.
void SimulatedAgent::send_frame(AgentConnection& to, std::string frame) {
  if (to.is_over) return;
  if (chance(around_.options.faults.agent_garbage)) {
    // Either the type and the payload do not fit the checksum, or the size is too large.
    const std::size_t last_of_size = 3;
    const bool is_size = around_.random() % 2 == 0;
    char& byte = is_size ? frame[last_of_size] : frame.back();
    byte = static_cast<char>(byte ^ 0x55);
  }
  if (chance(around_.options.faults.agent_stream_cut)) {
    frame.resize(around_.random() % (frame.size() + 1));
    cut(to);
  }
  to.unread += frame;
}

template <class Message>
void SimulatedAgent::broadcast(const Message& message) {
  for (const auto& connection : connections_)
    if (connection->is_greeted) send(*connection, message);
}

// Sends the parts of answers that the client has allowed, and the ends of answers.
void SimulatedAgent::send_answers(AgentConnection& to) {
  std::erase_if(to.answers, [&](AgentAnswer& answer) {
    const auto attempt = attempts_.find(answer.log_of);
    if (!answer.log_of.empty() && attempt == attempts_.end()) {
      send(to, Done{.request = answer.request, .status = Done::unknown_attempt});
      return true;
    }
    for (; answer.credit > 0 && !answer.parts.empty(); answer.parts.pop_front()) {
      answer.credit -= static_cast<std::int64_t>(answer.parts.front().size);
      send_frame(to, std::move(answer.parts.front().frame));
    }
    if (answer.credit <= 0) return false;
    if (answer.is_follow && attempt->second.state != Attempt::State::ended) return false;
    send(to, Done{.request = answer.request});
    return true;
  });
}

void SimulatedAgent::cut(AgentConnection& connection) {
  connection.is_over = true;
  connection.is_cut = true;
}

void SimulatedAgent::cut_all(Instant now) {
  for (const auto& connection : connections_) cut(*connection);
  sweep(now);
}

void SimulatedAgent::close(AgentConnection& connection, Instant now) {
  connection.is_over = true;
  sweep(now);
}

// Forgets the connections that have ended, and the attempts that await inputs from them.
void SimulatedAgent::sweep(Instant now) {
  const bool was_idle = is_idle();
  for (const auto& connection : connections_)
    if (connection->is_over)
      std::erase_if(attempts_, [&](const auto& one) {
        return one.second.state == Attempt::State::awaits_inputs && one.second.asker == connection.get();
      });
  std::erase_if(connections_, [](const auto& connection) { return connection->is_over; });
  if (is_idle() && !was_idle) note_idle(now);
}

bool SimulatedAgent::is_idle() const {
  return connections_.empty() && std::ranges::none_of(attempts_, [](const auto& one) {
           return one.second.state == Attempt::State::running;
         });
}

void SimulatedAgent::note_idle(Instant now) {
  idle_since_ = now;
  around_.schedule(later(now, idle_), AgentDue::idle, 0);
}

void SimulatedAgent::receive(AgentConnection& connection, std::string_view bytes, Instant now) {
  connection.received.feed(bytes);
  agent::Frame frame;
  while (!connection.is_over) {
    const agent::FrameReader::Result result = connection.received.next(frame);
    if (result == agent::FrameReader::Result::incomplete) break;
    if (result == agent::FrameReader::Result::corrupt) {
      send(connection, agent::Fault{.text = "the stream has no valid frame"});
      connection.is_over = true;
      break;
    }
    if (chance(around_.options.faults.agent_stream_cut)) {
      // The agent has read this frame, or not.
      if (around_.random() % 2 == 0) take(connection, frame, now);
      cut(connection);
      break;
    }
    take(connection, frame, now);
  }
  sweep(now);
}

void SimulatedAgent::take(AgentConnection& from, const agent::Frame& frame, Instant now) {
  const auto decoded = [&]<class Message>(Message message) {
    if (!agent::decode(frame.payload, message)) return false;
    handle(from, message, now);
    return true;
  };
  const auto dispatch = [&] {
    if (from.is_greeted == (frame.type == FrameType::hello)) return false;
    switch (frame.type) {
      case FrameType::hello:
        return decoded(agent::Hello{});
      case FrameType::start:
        return decoded(agent::Start{});
      case FrameType::put:
        return decoded(agent::Put{});
      case FrameType::stop:
        return decoded(agent::Stop{});
      case FrameType::forget:
        return decoded(agent::Forget{});
      case FrameType::read_log:
        return decoded(agent::ReadLog{});
      case FrameType::collect:
        return decoded(agent::Collect{});
      case FrameType::cancel:
        return decoded(agent::Cancel{});
      case FrameType::more:
        return decoded(agent::More{});
      case FrameType::get_usage:
        return decoded(agent::GetUsage{});
      case FrameType::call:
        return decoded(agent::Call{});
      case FrameType::ping:
        return decoded(agent::Ping{});
      default:
        return false;
    }
  };
  if (dispatch()) return;
  send(from, agent::Fault{.text = "the client has broken the protocol"});
  from.is_over = true;
}

// ---- Messages

void SimulatedAgent::handle(AgentConnection& from, agent::Hello& message, Instant now) {
  if (message.magic != agent::k_magic || message.version < agent::k_version_oldest ||
      message.version_oldest > agent::k_version) {
    send(from, agent::Fault{.text = "the client and the agent have no version of the protocol in common"});
    from.is_over = true;
    return;
  }
  from.is_greeted = true;
  send(from, agent::Welcome{.version = std::min(message.version, agent::k_version),
                            .boot = boot_,
                            .now = nanoseconds_of(now),
                            .note = note_,
                            .begun = last_attempt_});
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.state == Attempt::State::awaits_inputs) continue;
    send(from, attempt.started);
    if (attempt.state == Attempt::State::ended) send(from, attempt.ended);
  }
  send(from, agent::Listed{});
}

void SimulatedAgent::handle(AgentConnection& from, agent::Start& message, Instant now) {
  if (const auto known = attempts_.find(message.id); known != attempts_.end()) {
    const Attempt& attempt = known->second;
    if (attempt.state == Attempt::State::awaits_inputs) return;
    send(from, attempt.started);
    if (attempt.state == Attempt::State::ended) send(from, attempt.ended);
    return;
  }
  Attempt& attempt = attempts_[message.id];
  attempt.number = ++last_attempt_;
  attempt.start = std::move(message);
  attempt.asker = &from;
  if (attempt.start.awaits_inputs != 0) {
    attempt.state = Attempt::State::awaits_inputs;
  } else {
    begin(attempt, now);
  }
}

void SimulatedAgent::handle(AgentConnection& from, agent::Put& message, Instant now) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end() || found->second.asker != &from ||
      found->second.state != Attempt::State::awaits_inputs)
    return;
  Attempt& attempt = found->second;
  attempt.inputs += message.bytes;
  if (message.is_last != 0) begin(attempt, now);
}

void SimulatedAgent::handle(AgentConnection& /*from*/, agent::Stop& message, Instant now) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end() || found->second.state == Attempt::State::ended) return;
  Attempt& attempt = found->second;
  if (attempt.state == Attempt::State::awaits_inputs)
    return refuse(attempt, {.stage = Refused::other, .code = ECANCELED});
  const bool is_kill = message.grace_ms == 0;
  const int signal = attempt.start.stop_signal == 0 ? SIGTERM : attempt.start.stop_signal;
  end(attempt, -1, is_kill ? SIGKILL : signal, Ended::stopped, now);
}

void SimulatedAgent::handle(AgentConnection& /*from*/, agent::Forget& message, Instant now) {
  for (const std::string& id : message.ids) forget(id, now);
}

void SimulatedAgent::handle(AgentConnection& from, agent::ReadLog& message, Instant /*now*/) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end())
    return send(from, Done{.request = message.request, .status = Done::unknown_attempt});
  AgentAnswer answer{
      .request = message.request, .log_of = message.id, .is_follow = message.is_follow != 0, .parts = {}};
  agent::Log part{.request = message.request};
  std::size_t size = 0;
  const auto add_part = [&] {
    if (size > 0) add(answer, part, std::exchange(size, 0));
    part.chunks.clear();
  };
  for (const agent::LogChunk& chunk : found->second.log) {
    if (chunk.at < message.since) continue;
    if (size + chunk.bytes.size() > agent::k_part_max) add_part();
    size += chunk.bytes.size();
    part.chunks.push_back(chunk);
  }
  add_part();
  from.answers.push_back(std::move(answer));
  send_answers(from);
}

void SimulatedAgent::handle(AgentConnection& from, agent::Collect& message, Instant /*now*/) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end())
    return send(from, Done{.request = message.request, .status = Done::unknown_attempt});
  const bool is_absolute = message.path.starts_with('/');
  if (!is_absolute && message.path.find("..") != std::string::npos)
    return send(from, Done{.request = message.request,
                           .status = Done::unreadable,
                           .text = "a relative path must not contain `..`"});
  const std::string path = is_absolute ? message.path : scratch_of(found->second) + "/" + message.path;
  const std::map<std::string, std::string> files = files_below(around_.files, path);
  if (files.empty()) return send(from, Done{.request = message.request, .status = Done::absent});
  const std::string tar = tar_of(files);
  AgentAnswer answer{.request = message.request, .log_of = {}, .parts = {}};
  for (std::size_t at = 0; at < tar.size(); at += agent::k_part_max) {
    const agent::Data part{.request = message.request, .bytes = tar.substr(at, agent::k_part_max)};
    add(answer, part, part.bytes.size());
  }
  from.answers.push_back(std::move(answer));
  send_answers(from);
}

void SimulatedAgent::handle(AgentConnection& from, agent::Cancel& message, Instant /*now*/) {
  const auto is_meant = [&](const AgentAnswer& answer) { return answer.request == message.request; };
  if (std::erase_if(from.answers, is_meant) > 0)
    send(from, Done{.request = message.request, .status = Done::cancelled});
}

void SimulatedAgent::handle(AgentConnection& from, agent::More& message, Instant /*now*/) {
  for (AgentAnswer& answer : from.answers)
    if (answer.request == message.request) answer.credit += static_cast<std::int64_t>(message.bytes);
  send_answers(from);
}

void SimulatedAgent::handle(AgentConnection& from, agent::GetUsage& message, Instant now) {
  const auto found = attempts_.find(message.id);
  if (found == attempts_.end() || found->second.state != Attempt::State::running)
    return send(from, Done{.request = message.request, .status = Done::unknown_attempt});
  const Attempt& attempt = found->second;
  send(from, agent::UsageAnswer{
                 .request = message.request,
                 .memory = static_cast<std::uint64_t>(std::max(attempt.script.eats.count, k_mebibyte.count)),
                 .cpu_ns = duration_of(attempt.began, now)});
}

// The scripts of the simulation are no resident programs.
void SimulatedAgent::handle(AgentConnection& from, agent::Call& message, Instant /*now*/) {
  const bool is_known = attempts_.contains(message.id);
  send(from,
       agent::Returned{.id = message.id,
                       .call = message.call,
                       .status = is_known ? agent::Returned::not_running : agent::Returned::unknown_attempt});
}

void SimulatedAgent::handle(AgentConnection& from, agent::Ping& message, Instant /*now*/) {
  send(from, agent::Pong{.number = message.number});
}

// ---- Attempts

// Runs the script. All its output and files are written at once, as in an attempt's own container.
void SimulatedAgent::begin(Attempt& attempt, Instant now) {
  const std::string id = attempt.start.id;
  std::map<std::string, std::string> files = around_.files;
  if (!attempt.inputs.empty()) {
    auto inputs = files_in(std::exchange(attempt.inputs, {}));
    if (!inputs) return refuse(attempt, {.stage = Refused::inputs, .text = "no tar archive"});
    files.merge(*inputs);
  }
  for (const agent::File& file : attempt.start.files) files.insert_or_assign(file.name, file.content);
  Trial trial;
  trial.process.cmd = attempt.start.argv;
  attempt.script = read_script(trial, around_.options.trial_takes, std::move(files));
  Script& script = attempt.script;
  if (script.cannot_start) return refuse(attempt, {.stage = Refused::program, .code = ENOENT});
  const Faults& faults = around_.options.faults;
  if (chance(faults.refused))
    return refuse(attempt,
                  {.stage = Refused::other, .code = 0, .text = "the simulated engine refused the start"});
  for (auto& [path, content] : std::exchange(script.files, {}))
    around_.files.insert_or_assign(path.starts_with('/') ? path : scratch_of(attempt) + "/" + path,
                                   std::move(content));
  for (const World::LogLine& line : std::exchange(script.output, {}))
    for (std::size_t at = 0; at < line.text.size(); at += agent::k_part_max)
      attempt.log.push_back({.at = nanoseconds_of(now),
                             .stream = static_cast<std::uint8_t>(line.stream == LogStream::err ? 2 : 1),
                             .bytes = line.text.substr(at, agent::k_part_max)});
  attempt.state = Attempt::State::running;
  attempt.began = now;
  attempt.execution = around_.executions.size();
  around_.executions.push_back({.worker = around_.worker, .id = id, .began_at = now});
  attempt.is_out_of_memory =
      chance(faults.out_of_memory) || (around_.memory.count > 0 && script.eats.count > around_.memory.count);
  Seconds takes = attempt.is_out_of_memory ? script.takes / 2 : script.takes;
  const Seconds timeout{static_cast<double>(attempt.start.timeout_ms) / 1000};
  attempt.is_timed_out = timeout > Seconds(0) && timeout < takes;
  if (attempt.is_timed_out) takes = timeout;
  if (chance(faults.agent_killed)) around_.schedule(later(now, takes / 2), AgentDue::killed, attempt.number);
  around_.schedule(later(now, takes), AgentDue::attempt_end, attempt.number);
  attempt.started = {.id = id, .at = nanoseconds_of(now), .spawn_ns = 0, .scratch = scratch_of(attempt)};
  broadcast(attempt.started);
}

// Only the connection that has sent the start gets the refusal.
void SimulatedAgent::refuse(Attempt& attempt, Refused refused) {
  refused.id = attempt.start.id;
  for (const auto& connection : connections_)
    if (connection.get() == attempt.asker) send(*connection, refused);
  attempts_.erase(refused.id);
}

void SimulatedAgent::end(Attempt& attempt, int exit_code, int signal, std::uint32_t flags, Instant now) {
  Ended& ended = attempt.ended;
  ended = {.id = attempt.start.id,
           .at = nanoseconds_of(now),
           .exit_code = exit_code,
           .signal = static_cast<std::uint8_t>(signal),
           .flags = flags,
           .wall_ns = duration_of(attempt.began, now),
           .cpu_ns = duration_of(attempt.began, now),
           .memory_peak = static_cast<std::uint64_t>(std::max(attempt.script.eats.count, k_mebibyte.count)),
           .log_size = size_of(attempt.log)};
  while (size_of(attempt.log) > attempt.start.log_max) {
    attempt.log.erase(attempt.log.begin());
    ended.flags |= Ended::log_was_cut;
  }
  if (size_of(attempt.log) <= agent::k_inline_log_max) {
    ended.flags |= Ended::log_is_whole;
    ended.log = attempt.log;
  }
  attempt.state = Attempt::State::ended;
  around_.executions[attempt.execution].ended_at = now;
  broadcast(ended);
  for (const auto& connection : connections_) send_answers(*connection);
  if (is_idle()) note_idle(now);
}

void SimulatedAgent::forget(const std::string& id, Instant now) {
  const auto found = attempts_.find(id);
  if (found == attempts_.end()) return;
  if (found->second.state == Attempt::State::running)
    around_.executions[found->second.execution].ended_at = now;
  const std::string below = scratch_of(found->second) + "/";
  std::erase_if(around_.files, [&](const auto& file) { return file.first.starts_with(below); });
  attempts_.erase(found);
  for (const auto& connection : connections_) send_answers(*connection);
  if (is_idle()) note_idle(now);
}

bool SimulatedAgent::handle(AgentDue what, std::uint64_t attempt, Instant now) {
  if (what == AgentDue::idle) {
    if (!is_idle() || now < later(idle_since_, idle_)) return false;
    finish(now);
    return true;
  }
  const auto found =
      std::ranges::find_if(attempts_, [&](const auto& one) { return one.second.number == attempt; });
  if (found == attempts_.end() || found->second.state != Attempt::State::running) return false;
  if (what == AgentDue::killed) return true;
  Attempt& one = found->second;
  if (one.is_timed_out) {
    end(one, -1, SIGTERM, Ended::timed_out, now);
  } else if (one.is_out_of_memory) {
    end(one, -1, SIGKILL, Ended::out_of_memory, now);
  } else {
    end(one, one.script.exit_code, 0, 0, now);
  }
  sweep(now);
  return false;
}

// ---- The end of the agent

void SimulatedAgent::finish(Instant now) {
  std::string results;
  agent::append(
      results,
      agent::Welcome{.version = agent::k_version, .boot = boot_, .now = nanoseconds_of(now), .note = note_});
  std::string logs;
  std::uint32_t number = 0;
  for (const auto& [id, attempt] : attempts_) {
    if (attempt.state != Attempt::State::ended) continue;
    agent::append(results, attempt.started);
    Ended ended = attempt.ended;
    ended.log.clear();
    if (!attempt.log.empty()) ended.flags &= ~std::uint32_t{Ended::log_is_whole};
    agent::append(results, ended);
    ++number;
    for (const agent::LogChunk& chunk : attempt.log)
      agent::append(logs, agent::Log{.request = number, .chunks = {chunk}});
    agent::append(logs, Done{.request = number});
  }
  agent::append(results, agent::Listed{});
  results += logs;
  around_.files.insert_or_assign(folder_ + "/results", std::move(results));
  die(now);
}

void SimulatedAgent::die(Instant now) {
  for (auto& [id, attempt] : attempts_) {
    if (attempt.state != Attempt::State::running) continue;
    World::Execution& execution = around_.executions[attempt.execution];
    execution.ended_at = now;
    execution.is_lost = true;
  }
  attempts_.clear();
  for (const auto& connection : connections_) connection->is_over = true;
  connections_.clear();
}

}  // namespace combu
