#include "attempt_log.hpp"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace combu::agent {
namespace {

// Bytes in memory of one log, and of all logs.
constexpr std::size_t k_memory_max = std::size_t{64} << 10U;
constexpr std::size_t k_all_memory_max = std::size_t{512} << 10U;
constexpr std::size_t k_small_memory = std::size_t{2} << 10U;
constexpr std::uint64_t k_blocks = 128;

// A record is a header and the bytes of a chunk.
struct RecordHeader {
  std::int64_t at = 0;
  std::uint32_t size = 0;
  std::uint32_t stream = 0;
};
constexpr std::size_t k_record_max = sizeof(RecordHeader) + k_part_max;

RecordHeader header_at(std::string_view bytes) {
  RecordHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

// Appends the chunks of the complete records, and returns the size of these records.
std::size_t take_records(std::string_view bytes, std::int64_t since, std::vector<LogChunk>& chunks) {
  std::size_t taken = 0;
  while (bytes.size() - taken >= sizeof(RecordHeader)) {
    const RecordHeader header = header_at(bytes.substr(taken));
    const std::size_t size = sizeof(header) + header.size;
    if (bytes.size() - taken < size) break;
    if (header.at >= since)
      chunks.push_back({.at = header.at,
                        .stream = static_cast<std::uint8_t>(header.stream),
                        .bytes = std::string(bytes.substr(taken + sizeof(header), header.size))});
    taken += size;
  }
  return taken;
}

}  // namespace

void LogSpace::relieve() {
  while (used_ > k_all_memory_max) {
    AttemptLog& largest =
        **std::ranges::max_element(logs_, [](const AttemptLog* one, const AttemptLog* other) {
          return one->memory_size() < other->memory_size();
        });
    const std::size_t before = used_;
    largest.spool();
    if (used_ == before) {  // there is no space for its file
      largest.is_incomplete_ = true;
      largest.drop_from_memory();
    }
  }
}

AttemptLog::AttemptLog(LogSpace& space, std::uint64_t bytes_max)
    : space_(space),
      bytes_max_(std::max(bytes_max, std::uint64_t{1})),
      block_max_(std::max<std::uint64_t>(k_memory_max, bytes_max_ / k_blocks)),
      capacity_(bytes_max_ + bytes_max_ / 2 + 4 * block_max_) {
  space_.logs_.push_back(this);
}

AttemptLog::~AttemptLog() {
  std::erase(space_.logs_, this);
  space_.used_ -= memory_size();
}

void AttemptLog::add(std::int64_t at, std::uint8_t stream, std::string_view bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  if (bytes.size() > bytes_max_) {
    bytes.remove_prefix(bytes.size() - bytes_max_);
    was_cut_ = true;
  }
  last_at_ = std::max(at, last_at_);
  const RecordHeader header{
      .at = last_at_, .size = static_cast<std::uint32_t>(bytes.size()), .stream = stream};
  const std::size_t size = sizeof(header) + bytes.size();
  if (memory_size() + size > k_memory_max) {
    spool();
    if (memory_size() > 0) is_incomplete_ = true;
    while (memory_size() > 0 && memory_size() + size > k_memory_max) drop_from_memory();
  }
  // A large block has pages of its own. Only the used ones take memory, and all go back to the system.
  if (memory_.size() + size > k_small_memory && memory_.capacity() < k_memory_max)
    memory_.reserve(std::max(memory_.size() + size, k_memory_max));
  memory_.append(reinterpret_cast<const char*>(&header), sizeof(header));
  memory_.append(bytes);
  end_ += size;
  space_.used_ += size;
  kept_ += bytes.size();
  memory_kept_ += bytes.size();
  while (kept_ > bytes_max_ && (!blocks_.empty() || memory_kept_ > bytes.size())) drop_oldest();
  if (size > k_memory_max / 2) spool();
  if (space_.used_ > k_all_memory_max) space_.relieve();
}

// Moves the records from memory to the file. If that fails, they stay in memory.
void AttemptLog::spool() {
  if (memory_size() == 0) return;
  if (!file_.is_open()) file_ = space_.make_file_();
  if (!file_.is_open()) return;
  const std::string_view records = std::string_view(memory_).substr(memory_begin_);
  while (!blocks_.empty() && end_ - blocks_.front().begin > capacity_) drop_oldest();
  if (!write(memory_position(), records)) return;
  const bool extends = !blocks_.empty() && blocks_.back().end == memory_position() &&
                       blocks_.back().end - blocks_.back().begin + records.size() <= block_max_;
  if (!extends) blocks_.push_back({.begin = memory_position()});
  blocks_.back().end = end_;
  blocks_.back().kept += memory_kept_;
  blocks_.back().last_at = last_at_;
  space_.used_ -= records.size();
  memory_kept_ = 0;
  memory_begin_ = 0;
  std::string().swap(memory_);
}

bool AttemptLog::write(std::uint64_t position, std::string_view bytes) const {
  while (!bytes.empty()) {
    const std::uint64_t at = position % capacity_;
    const std::size_t size = std::min<std::uint64_t>(bytes.size(), capacity_ - at);
    const ssize_t count = pwrite(file_.get(), bytes.data(), size, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    position += static_cast<std::uint64_t>(count);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

// Fills `bytes` from the file.
bool AttemptLog::read_block(std::uint64_t position, std::string& bytes) const {
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const std::uint64_t at = position % capacity_;
    const std::size_t size = std::min<std::uint64_t>(bytes.size() - filled, capacity_ - at);
    const ssize_t count = pread(file_.get(), bytes.data() + filled, size, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    position += static_cast<std::uint64_t>(count);
    filled += static_cast<std::size_t>(count);
  }
  return true;
}

bool AttemptLog::read(std::uint64_t& position, std::int64_t since, std::vector<LogChunk>& chunks) {
  for (const Block& block : blocks_) {
    if (block.end <= position) continue;
    position = std::max(position, block.begin);
    if (block.last_at < since) {
      position = block.end;
      continue;
    }
    std::string bytes(std::min<std::uint64_t>(block.end - position, k_record_max), '\0');
    const std::size_t taken = read_block(position, bytes) ? take_records(bytes, since, chunks) : 0;
    if (taken == 0) is_incomplete_ = true;
    position = taken == 0 ? block.end : position + taken;
    return true;
  }
  position = std::max(position, memory_position());
  if (position == end_) return false;
  take_records(std::string_view(memory_).substr(memory_.size() - (end_ - position)), since, chunks);
  position = end_;
  return true;
}

void AttemptLog::discard() {
  is_incomplete_ = true;
  blocks_.clear();
  file_.close();
  space_.used_ -= memory_size();
  memory_begin_ = 0;
  memory_kept_ = kept_ = 0;
  std::string().swap(memory_);
}

void AttemptLog::free_before(std::uint64_t position) {
  constexpr std::uint64_t k_page = 4096;
  if (!file_.is_open()) return;
  if (freed_ == 0 && !blocks_.empty()) freed_ = blocks_.front().begin;
  position = std::min(position / k_page * k_page, memory_position());
  while (freed_ < position) {
    const std::uint64_t at = freed_ % capacity_;
    const std::uint64_t size = std::min(position - freed_, capacity_ - at);
    (void)fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(at),
                    static_cast<off_t>(size));
    freed_ += size;
  }
}

void AttemptLog::drop_oldest() {
  was_cut_ = true;
  if (blocks_.empty()) {
    drop_from_memory();
    return;
  }
  kept_ -= blocks_.front().kept;
  blocks_.erase(blocks_.begin());
}

// Drops the first record in memory.
void AttemptLog::drop_from_memory() {
  const RecordHeader header = header_at(std::string_view(memory_).substr(memory_begin_));
  const std::size_t size = sizeof(header) + header.size;
  memory_begin_ += size;
  space_.used_ -= size;
  memory_kept_ -= header.size;
  kept_ -= header.size;
  if (memory_begin_ > memory_.size() / 2) {
    memory_.erase(0, memory_begin_);
    memory_begin_ = 0;
  }
}

}  // namespace combu::agent
