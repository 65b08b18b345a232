#pragma once
// The output of an attempt: the newest part in memory, the rest in an unlinked file that is used as a ring.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "system.hpp"

namespace combu::agent {

class AttemptLog;

// The memory that all logs share, and the place of their files.
class LogSpace {
 public:
  // `make_file` opens a new unlinked file; it returns a closed descriptor if it cannot.
  explicit LogSpace(std::function<Descriptor()> make_file) : make_file_(std::move(make_file)) {}

 private:
  friend class AttemptLog;
  // Moves logs to their files until all logs together fit into the memory.
  void relieve();

  std::function<Descriptor()> make_file_;
  std::vector<AttemptLog*> logs_;
  std::size_t used_ = 0;  // bytes of all logs in memory
};

class AttemptLog {
 public:
  // The log keeps at most `bytes_max` bytes of output, and drops the oldest ones.
  AttemptLog(LogSpace& space, std::uint64_t bytes_max);
  ~AttemptLog();
  AttemptLog(const AttemptLog&) = delete;
  AttemptLog& operator=(const AttemptLog&) = delete;
  AttemptLog(AttemptLog&&) = delete;
  AttemptLog& operator=(AttemptLog&&) = delete;

  // Adds a chunk of at most k_part_max bytes. `at`: nanoseconds since 1970; a time before that of the last
  // chunk counts as the time of the last chunk.
  void add(std::int64_t at, std::uint8_t stream, std::string_view bytes);
  // Appends the next chunks at or after the position, of about k_part_max bytes, to `chunks`, except chunks
  // before `since`; advances the position. Returns false if the position is the end of the log.
  bool read(std::uint64_t& position, std::int64_t since, std::vector<LogChunk>& chunks);

  // Drops the whole log and its file.
  void discard();
  // Gives the space of the file before the position back, if the file system can. Only later positions may be
  // read.
  void free_before(std::uint64_t position);

  [[nodiscard]] bool has_file() const { return file_.is_open(); }
  // Number of all bytes of output, including dropped ones.
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] std::uint64_t kept() const { return kept_; }
  [[nodiscard]] bool was_cut() const { return was_cut_; }
  [[nodiscard]] bool is_incomplete() const { return is_incomplete_; }

 private:
  friend class LogSpace;
  // Records in the file, at positions from `begin` to `end`.
  struct Block {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::uint64_t kept = 0;    // bytes of output in the block
    std::int64_t last_at = 0;  // time of its last chunk
  };

  [[nodiscard]] std::size_t memory_size() const { return memory_.size() - memory_begin_; }
  [[nodiscard]] std::uint64_t memory_position() const { return end_ - memory_size(); }
  void spool();
  bool write(std::uint64_t position, std::string_view bytes) const;
  bool read_block(std::uint64_t position, std::string& bytes) const;
  void drop_oldest();
  void drop_from_memory();

  LogSpace& space_;
  std::uint64_t bytes_max_;
  std::uint64_t block_max_;
  std::uint64_t capacity_;  // size of the ring in bytes
  Descriptor file_;
  std::vector<Block> blocks_;
  std::string memory_;  // records from memory_begin_
  std::size_t memory_begin_ = 0;
  std::uint64_t freed_ = 0;        // position before which the file has no space
  std::uint64_t memory_kept_ = 0;  // bytes of output in memory
  std::uint64_t end_ = 0;          // position behind the last record
  std::uint64_t kept_ = 0;
  std::uint64_t size_ = 0;
  std::int64_t last_at_ = 0;
  bool was_cut_ = false;
  bool is_incomplete_ = false;
};

}  // namespace combu::agent
