#include "results.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <vector>

#include "combu/agent.hpp"
#include "system.hpp"

namespace combu::agent {
namespace {

// A client reads the ends at once, and keeps them in memory.
constexpr std::size_t k_small_logs_max = std::size_t{32} << 20U;

template <class Message>
bool write_message(int file, const Message& message) {
  std::string bytes;
  append(bytes, message);
  return write_all(file, bytes);
}

// Writes the ends with their small logs, which take at most `logs_max` bytes together with their ends. Sets
// `has_log` for each attempt.
bool write_ends(int file, const std::vector<Attempt*>& ended, const std::string& boot, std::size_t logs_max,
                std::vector<bool>& has_log) {
  has_log.clear();
  if (ftruncate(file, 0) != 0 || lseek(file, 0, SEEK_SET) != 0 ||
      !write_message(file, Welcome{.version = k_version, .boot = boot, .now = real_time()}))
    return false;
  for (Attempt* attempt : ended) {
    Ended end = ended_message(*attempt);
    std::string bytes;
    append(bytes, end);
    if (bytes.size() <= logs_max) {
      logs_max -= bytes.size();
    } else {
      end = end_without_log(*attempt);
      bytes.clear();
      append(bytes, end);
    }
    has_log.push_back((end.flags & Ended::log_is_whole) != 0);
    if (!write_message(file, attempt->started) || !write_all(file, bytes)) return false;
  }
  return write_message(file, Listed{}) && fsync(file) == 0;
}

// Gives the space of the log's file back meanwhile: a full disk that holds the log holds it again.
// `number`: position of the attempt's end in the file; 1 is the first one.
bool write_log(int file, AttemptLog& log, std::uint32_t number, const std::function<bool()>& is_late) {
  std::uint64_t position = 0;
  Log part{.request = number, .chunks = {}};
  while (log.read(position, 0, part.chunks)) {
    if (is_late() || !write_message(file, part)) return false;
    part.chunks.clear();
    log.free_before(position);
  }
  const Done::Status status = log.is_incomplete() ? Done::incomplete : Done::ok;
  return write_message(file, Done{.request = number, .status = status, .text = {}});
}

}  // namespace

bool write_results(Attempts& attempts, const Folder& folder, const std::string& boot,
                   const std::function<bool()>& is_late) {
  std::vector<Attempt*> ended;
  for (Attempt* attempt = attempts.next_after(0); attempt != nullptr;
       attempt = attempts.next_after(attempt->number))
    if (attempt->phase == Phase::ended) ended.push_back(attempt);
  std::vector<std::uint32_t> by_size(ended.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::ranges::stable_sort(by_size, {}, [&](std::uint32_t i) { return ended[i]->log.kept(); });
  // If the disk is full, the files of the largest logs make room for the ends.
  auto spare = by_size.rbegin();
  const auto make_room = [&] {
    if (errno != ENOSPC && errno != EDQUOT) return false;
    while (spare != by_size.rend() && !ended[*spare]->log.has_file()) ++spare;
    if (spare == by_size.rend()) return false;
    ended[*spare]->log.discard();
    return true;
  };
  Descriptor file = folder.make_results_file();
  while (!file.is_open() && make_room()) file = folder.make_results_file();
  if (!file.is_open()) return false;
  std::vector<bool> has_log;
  if (!write_ends(file.get(), ended, boot, k_small_logs_max, has_log))
    while (!write_ends(file.get(), ended, boot, 0, has_log))
      if (!make_room()) return true;
  for (const std::uint32_t i : by_size) {
    if (has_log[i]) continue;
    if (!write_log(file.get(), ended[i]->log, i + 1, is_late)) break;
    ended[i]->log.discard();
  }
  return true;  // without fsync(), which may take long; the checksums of the frames show what is missing
}

}  // namespace combu::agent
