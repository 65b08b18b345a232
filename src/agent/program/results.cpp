#include "results.hpp"

#include <unistd.h>

#include "combu/agent.hpp"
#include "system.hpp"

namespace combu::agent {
namespace {

template <class Message>
bool write_message(int file, const Message& message) {
  std::string bytes;
  append(bytes, message);
  return write_all(file, bytes);
}

bool write_attempt(int file, Attempt& attempt) {
  if (!write_message(file, attempt.started)) return false;
  const Ended ended = ended_message(attempt);
  std::uint64_t position = 0;
  Log part;
  while ((ended.flags & Ended::log_is_whole) == 0 && attempt.log.read(position, 0, part.chunks)) {
    if (!write_message(file, part)) return false;
    part.chunks.clear();
  }
  return write_message(file, ended);
}

}  // namespace

bool write_results(Attempts& attempts, const Folder& folder, const std::string& boot) {
  const Descriptor file = folder.make_results_file();
  if (!file.is_open()) return false;
  if (!write_message(file.get(), Welcome{.version = k_version, .boot = boot, .now = real_time()}))
    return false;
  for (Attempt* attempt = attempts.next_after(0); attempt != nullptr;
       attempt = attempts.next_after(attempt->number))
    if (attempt->phase == Phase::ended && !write_attempt(file.get(), *attempt)) return false;
  return write_message(file.get(), Listed{}) && fsync(file.get()) == 0;
}

}  // namespace combu::agent
