#include "attempts.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include "remove_tree.hpp"
#include "shared_buffer.hpp"
#include "tar_read.hpp"

namespace combu::agent {
namespace {

constexpr std::size_t k_id_max = 255;

Pipe pipe_or_closed(int& error) {
  Pipe pipe;
  if (!open_pipe(pipe)) error = errno;
  return pipe;
}

}  // namespace

Ended end_without_log(const Attempt& attempt) {
  Ended message = attempt.end;
  message.log_size = attempt.log.size();
  if (attempt.log.size() == 0) message.flags |= Ended::log_is_whole;
  if (attempt.log.was_cut()) message.flags |= Ended::log_was_cut;
  if (attempt.log.is_incomplete()) message.flags |= Ended::log_is_incomplete;
  return message;
}

Ended ended_message(Attempt& attempt) {
  Ended message = end_without_log(attempt);
  if (attempt.log.size() <= k_inline_log_max && attempt.log.kept() == attempt.log.size()) {
    std::uint64_t position = 0;
    while (attempt.log.read(position, 0, message.log)) continue;
    message.flags |= Ended::log_is_whole;
  }
  if (attempt.log.is_incomplete()) message.flags &= ~Ended::log_is_whole;
  return message;
}

Attempts::Attempts(Loop& loop, Folder& folder, Kind kind, AttemptEvents events)
    : loop_(loop),
      folder_(folder),
      kind_(kind),
      events_(std::move(events)),
      group_(kind == Kind::worker && getpid() == 1),
      log_space_([&folder] { return folder.make_unnamed_file(); }),
      forwards_{Forward(STDOUT_FILENO), Forward(STDERR_FILENO)} {}

Attempt* Attempts::find(std::string_view id) {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : found->second;
}

Attempt* Attempts::find_number(std::uint64_t number) {
  const auto found = attempts_.find(number);
  return found == attempts_.end() || found->second->is_forgotten ? nullptr : found->second.get();
}

Attempt* Attempts::next_after(std::uint64_t number) {
  auto next = attempts_.upper_bound(number);
  while (next != attempts_.end() && next->second->is_forgotten) ++next;
  return next == attempts_.end() ? nullptr : next->second.get();
}

void Attempts::start(Start start, std::uint64_t connection) {
  const std::uint64_t number = ++last_number_;
  Attempt& attempt = *attempts_
                          .emplace(number, std::make_unique<Attempt>(log_space_, number, std::move(start),
                                                                     kind_ == Kind::supervisor))
                          .first->second;
  attempt.asker = connection;
  attempt.end.id = attempt.started.id = attempt.start.id;
  ids_.emplace(attempt.start.id, &attempt);
  active_.push_back(&attempt);
  if (attempt.start.id.size() > k_id_max || attempt.start.argv.empty()) {
    refuse(attempt, Refused::other, EINVAL, {});
    return;
  }
  if (!folder_.is_in_place()) folder_.repair();
  int error = attempt.is_supervised ? 0 : folder_.make_scratch(attempt.scratch);
  if (error != 0) {
    refuse(attempt, Refused::scratch, error, {});
    return;
  }
  for (const File& file : attempt.start.files) {
    error = folder_.write_file(attempt.scratch, file);
    if (error != 0) {
      refuse(attempt, Refused::inputs, error, {});
      return;
    }
  }
  if (attempt.start.awaits_inputs == 0)
    run(attempt);
  else if (!await_inputs(attempt))
    refuse(attempt, Refused::process, errno, {});
}

void Attempts::refuse(Attempt& attempt, std::uint8_t stage, int code, std::string text) {
  events_.refused(attempt.asker,
                  Refused{.id = attempt.start.id, .stage = stage, .code = code, .text = std::move(text)});
  remove(attempt);
}

// Removes an attempt that does not run.
void Attempts::remove(Attempt& attempt) {
  remove_scratch(attempt);
  if (const auto known = ids_.find(attempt.start.id); known != ids_.end() && known->second == &attempt)
    ids_.erase(known);
  std::erase(active_, &attempt);
  attempts_.erase(attempt.number);
}

void Attempts::remove_scratch(const Attempt& attempt) {
  if (attempt.scratch == 0 || folder_.empty_scratch(attempt.scratch)) return;
  Helper helper;
  const auto work = [name = to_text(attempt.scratch)](int, int folder) {
    remove_tree(folder, name);
    return Report{};
  };
  if (start_helper(Direction::none, folder_.descriptor(), work, helper)) add_helper(helper.pid);
}

bool Attempts::await_inputs(Attempt& attempt) {
  auto inputs = std::make_unique<Inputs>();
  const Descriptor base = attempt.is_supervised ? Descriptor(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC))
                                                : folder_.open_scratch(attempt.scratch);
  const auto work = attempt.is_supervised ? read_tar_into_image : read_tar;
  if (!base.is_open() || !start_helper(Direction::to_helper, base.get(), work, inputs->helper)) return false;
  add_helper(inputs->helper.pid);
  inputs->write_watch.start(loop_, inputs->helper.stream.get(), 0, [this, &attempt](std::uint32_t events) {
    if ((events & EPOLLERR) != 0)
      attempt.inputs->write_watch.stop();  // the helper has failed, and reports why
    else
      flush_inputs(attempt);
  });
  inputs->report_watch.start(loop_, inputs->helper.report.get(), EPOLLIN, [&attempt](std::uint32_t) {
    attempt.inputs->report_watch.stop();
    attempt.inputs->write_watch.stop();  // act() goes on
  });
  attempt.inputs = std::move(inputs);
  return true;
}

void Attempts::put(Attempt& attempt, const Put& part) {
  if (attempt.inputs == nullptr || attempt.inputs->is_last) return;
  attempt.inputs->queue += part.bytes;
  attempt.inputs->is_last = part.is_last != 0;
  flush_inputs(attempt);
}

void Attempts::flush_inputs(Attempt& attempt) {
  Inputs& inputs = *attempt.inputs;
  if (!inputs.write_watch.is_active()) {
    inputs.queue.clear();
    return;
  }
  std::size_t written = 0;
  while (written < inputs.queue.size()) {
    const ssize_t count =
        write(inputs.helper.stream.get(), inputs.queue.data() + written, inputs.queue.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  inputs.queue.erase(0, written);
  inputs.write_watch.want(inputs.queue.empty() ? 0U : std::uint32_t{EPOLLOUT});
  if (inputs.queue.empty() && inputs.is_last) {
    inputs.write_watch.stop();
    inputs.helper.stream.close();
  }
}

void Attempts::run(Attempt& attempt) {
  int error = 0;
  Pipe output = pipe_or_closed(error);
  Pipe errors = pipe_or_closed(error);
  Pipe calls;
  Pipe returns;
  if (attempt.start.is_resident != 0) {
    calls = pipe_or_closed(error);
    returns = pipe_or_closed(error);
  }
  if (error != 0) {
    refuse(attempt, Refused::process, error, {});
    return;
  }
  attempt.oom_kills_before = group_.oom_kills();
  if (!attempt.is_supervised) {
    attempt.group = group_.make_group(attempt.number);
    attempt.started.scratch = folder_.scratch_path(attempt.scratch);
  }
  attempt.started.at = real_time();
  attempt.started_steady = steady_time();
  const Spawned spawned = spawner_.spawn(attempt.start, attempt.started.scratch,
                                         {.output = output.writer.get(),
                                          .errors = errors.writer.get(),
                                          .calls = calls.reader.get(),
                                          .returns = returns.writer.get()},
                                         attempt.group != nullptr ? attempt.group->entry() : -1);
  attempt.started.spawn_ns = static_cast<std::uint64_t>(steady_time() - attempt.started_steady);
  if (spawned.error != 0) {
    if (spawned.pid > 0) waitpid(spawned.pid, nullptr, 0);
    refuse(attempt, spawned.stage, spawned.error, {});
    return;
  }
  attempt.pid = spawned.pid;
  pids_.emplace(attempt.pid, &attempt);
  attempt.phase = Phase::running;
  if (attempt.start.timeout_ms > 0)
    attempt.timeout_at =
        attempt.started_steady + static_cast<std::int64_t>(attempt.start.timeout_ms) * k_millisecond;
  attempt.start.argv = {};
  attempt.start.env = {};
  attempt.start.files = {};
  watch_output(attempt, 0, std::move(output.reader));
  watch_output(attempt, 1, std::move(errors.reader));
  if (attempt.start.is_resident != 0)
    attempt.resident = std::make_unique<Resident>(
        loop_, std::move(calls.writer), std::move(returns.reader),
        [this, &attempt](std::uint64_t number, Returned::Status status, std::string bytes) {
          events_.returned(attempt, number, status, std::move(bytes));
        });
  events_.started(attempt);
}

void Attempts::watch_output(Attempt& attempt, std::size_t index, Descriptor reader) {
  Output& output = attempt.outputs[index];
  set_nonblocking(reader.get());
  output.pipe = std::move(reader);
  output.watch.start(loop_, output.pipe.get(), EPOLLIN, [this, &attempt, index](std::uint32_t) {
    if (read_output(attempt, index) || errno == EAGAIN) return;
    attempt.outputs[index].watch.stop();
    attempt.outputs[index].pipe.close();
  });
}

// Reads once. Returns false if there was nothing to read; errno is EAGAIN if that may change.
bool Attempts::read_output(Attempt& attempt, std::size_t index) {
  auto& buffer = shared_buffer();
  const ssize_t count = read(attempt.outputs[index].pipe.get(), buffer.data(), buffer.size());
  if (count == 0) errno = 0;
  if (count <= 0) return false;
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(count));
  attempt.log.add(real_time(), static_cast<std::uint8_t>(index + 1), bytes);
  if (attempt.is_supervised) forward(attempt, index, bytes);
  return true;
}

// Writes the bytes to this process's own output. While the engine does not read, neither does the agent, so
// that the program waits as it would without the agent.
void Attempts::forward(Attempt& attempt, std::size_t index, std::string_view bytes) {
  const auto go_on = [this, number = attempt.number, index] {
    if (Attempt* const known = find_number(number)) known->outputs[index].watch.want(EPOLLIN);
  };
  if (!forwards_[index].write(loop_, bytes, go_on)) attempt.outputs[index].watch.want(0);
}

void Attempts::write_output() {
  for (Forward& forward : forwards_) forward.write_rest();
}

void Attempts::forget(Attempt& attempt) {
  if (attempt.phase == Phase::ended || attempt.phase == Phase::awaiting_inputs) {
    if (attempt.inputs != nullptr) kill_helper(attempt.inputs->helper.pid);
    remove(attempt);
    return;
  }
  ids_.erase(attempt.start.id);
  attempt.is_forgotten = true;
  if (attempt.phase == Phase::running) kill(attempt);
}

void Attempts::drop_awaiting(std::uint64_t connection) {
  const std::vector<Attempt*> active = active_;
  for (Attempt* attempt : active)
    if (attempt->phase == Phase::awaiting_inputs && attempt->asker == connection) forget(*attempt);
}

UsageAnswer Attempts::usage(const Attempt& attempt) {
  UsageAnswer answer;
  answer.cpu_ns = attempt.end.cpu_ns;
  if (attempt.phase != Phase::running) return answer;
  ProcessState state;
  for (const pid_t pid : all_processes()) {
    if (!read_process(pid, state) || state.session != attempt.pid) continue;
    answer.memory += state.memory;
    answer.cpu_ns += state.cpu_ns;
  }
  return answer;
}

}  // namespace combu::agent
