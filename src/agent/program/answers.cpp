#include "answers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "forked_work.hpp"
#include "shared_buffer.hpp"
#include "tar_write.hpp"

namespace combu::agent {
namespace {

// True for a small file directly in the scratch folder. Reading it takes less time than a fork.
bool is_small_file(int scratch, const std::string& path) {
  constexpr off_t k_small = 32768;  // its archive fits into a pipe
  struct stat status {};
  return scratch >= 0 && path.find('/') == std::string::npos &&
         fstatat(scratch, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
         status.st_size <= k_small;
}

Answer::State finish(Connection& connection, std::uint32_t request, std::uint8_t status, std::string text) {
  connection.send(Done{.request = request, .status = status, .text = std::move(text)});
  return Answer::State::over;
}

class LogAnswer : public Answer {
 public:
  LogAnswer(Attempts& attempts, std::uint64_t attempt, const ReadLog& request)
      : Answer(request.request),
        attempts_(attempts),
        attempt_(attempt),
        since_(request.since),
        is_follow_(request.is_follow != 0) {}

  State produce(Connection& connection) override {
    Attempt* attempt = attempts_.find_number(attempt_);
    if (attempt == nullptr) return finish(connection, request(), Done::unknown_attempt, {});
    Log part{.request = request(), .chunks = {}};
    const bool has_more = attempt->log.read(position_, since_, part.chunks);
    for (const LogChunk& chunk : part.chunks) spend(chunk.bytes.size());
    if (!part.chunks.empty()) connection.send(part);
    if (has_more) return State::more;
    if (is_follow_ && attempt->phase != Phase::ended) return State::waiting;
    return finish(connection, request(), attempt->log.is_incomplete() ? Done::incomplete : Done::ok, {});
  }

 private:
  Attempts& attempts_;
  std::uint64_t attempt_;
  std::int64_t since_;
  bool is_follow_;
  std::uint64_t position_ = 0;
};

class ArchiveAnswer : public Answer {
 public:
  ArchiveAnswer(Loop& loop, Attempts& attempts, const Folder& folder, std::uint64_t attempt,
                const CollectRest& request)
      : Answer(request.request), loop_(loop), attempts_(attempts), skip_(request.skip), crc_(request.crc) {
    const auto work = [path = request.path](int stream, int base) {
      if (base < 0 && !path.starts_with('/')) return Report{.status = Done::absent, .text = {}};
      return write_tar(base, path, stream);
    };
    const Descriptor scratch = folder.open_scratch(attempt);
    if (is_small_file(scratch.get(), request.path) && help_without_child(scratch.get(), work, helper_)) {
      is_readable_ = true;
      return;
    }
    if (!start_helper(Direction::from_helper, scratch.get(), work, helper_)) {
      error_ = errno;
      return;
    }
    attempts.add_helper(helper_.pid);
    await_bytes();
  }
  ArchiveAnswer(const ArchiveAnswer&) = delete;
  ArchiveAnswer& operator=(const ArchiveAnswer&) = delete;
  ArchiveAnswer(ArchiveAnswer&&) = delete;
  ArchiveAnswer& operator=(ArchiveAnswer&&) = delete;
  ~ArchiveAnswer() override { attempts_.kill_helper(helper_.pid); }

  State produce(Connection& connection) override {
    if (error_ != 0) return finish(connection, request(), Done::failed, problem_text("fork", error_));
    if (!is_readable_) return State::waiting;
    const ssize_t count = read(helper_.stream.get(), shared_buffer().data(), shared_buffer().size());
    if (count > 0) {
      std::string_view bytes(shared_buffer().data(), static_cast<std::size_t>(count));
      const std::string_view skipped = bytes.substr(0, skip_);
      skip_ -= skipped.size();
      skipped_crc_ = crc_after(skipped_crc_, skipped);
      bytes.remove_prefix(skipped.size());
      if (skip_ == 0 && skipped_crc_ != crc_) return finish(connection, request(), Done::changed, {});
      if (bytes.empty()) return State::more;
      spend(bytes.size());
      connection.send(Data{.request = request(), .bytes = std::string(bytes)});
      return State::more;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      await_bytes();
      return State::waiting;
    }
    Report report = report_of(helper_, Done::failed);
    if (skip_ > 0 && report.status == Done::ok) report.status = Done::changed;
    return finish(connection, request(), report.status, std::move(report.text));
  }

 private:
  void await_bytes() {
    is_readable_ = false;
    watch_.start(loop_, helper_.stream.get(), EPOLLIN, [this](std::uint32_t) {
      is_readable_ = true;
      watch_.stop();
    });
  }

  Loop& loop_;
  Attempts& attempts_;
  std::uint64_t skip_;  // number of bytes that are still to be skipped
  std::uint32_t crc_;   // of all skipped bytes, as the client knows them
  std::uint32_t skipped_crc_ = 0;
  Helper helper_;
  Watch watch_;
  int error_ = 0;
  bool is_readable_ = false;
};

}  // namespace

std::unique_ptr<Answer> make_log_answer(Attempts& attempts, std::uint64_t attempt, const ReadLog& request) {
  return std::make_unique<LogAnswer>(attempts, attempt, request);
}

std::unique_ptr<Answer> make_archive_answer(Loop& loop, Attempts& attempts, const Folder& folder,
                                            std::uint64_t attempt, const CollectRest& request) {
  return std::make_unique<ArchiveAnswer>(loop, attempts, folder, attempt, request);
}

}  // namespace combu::agent
