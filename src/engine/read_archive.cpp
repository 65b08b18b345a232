#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "combu/engine.hpp"

namespace combu {
namespace {

// The first file of an archive.
class ArchivedFile {
 public:
  ArchivedFile(const NextBytes& next, const std::string& path)
      : path_(path), source_(next), archive_(archive_read_new(), &archive_read_free) {
    archive_entry* entry = nullptr;
    check(source_.open(archive_.get()));
    check(archive_read_next_header(archive_.get(), &entry));
    if (archive_entry_filetype(entry) != AE_IFREG)
      throw Error(ErrorKind::invalid, path_, "must be a regular file");
    modified_ = file_time(archive_entry_mtime(entry), archive_entry_mtime_nsec(entry));
  }

  [[nodiscard]] Instant modified() const { return modified_; }
  [[nodiscard]] std::string_view next() {
    while (true) {
      if (at_ < block_at_) {
        const auto size = std::min<la_int64_t>(block_at_ - at_, std::ssize(zeros_));
        at_ += size;
        return {zeros_.data(), static_cast<std::size_t>(size)};
      }
      if (!block_.empty()) {
        at_ += std::ssize(block_);
        block_at_ = at_;
        return std::exchange(block_, {});
      }
      const void* bytes = nullptr;
      std::size_t size = 0;
      const int result = archive_read_data_block(archive_.get(), &bytes, &size, &block_at_);
      if (result == ARCHIVE_EOF) return {};
      check(result);
      block_ = {static_cast<const char*>(bytes), size};
    }
  }

 private:
  // A name that is invalid in this process's locale causes only a warning.
  void check(int result) const {
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    source_.rethrow();
    throw Error(ErrorKind::corrupt, path_, "the engine's archive of this file is invalid");
  }

  const std::string& path_;
  ArchiveSource source_;
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  Instant modified_;
  la_int64_t at_ = 0;  // number of bytes that next() has returned
  // The next block of the file. Between `at_` and the block is a hole.
  std::string_view block_;
  la_int64_t block_at_ = 0;
  std::array<char, 1U << 16U> zeros_{};
};

}  // namespace

int ArchiveSource::open(archive* reader) {
  const auto read = [](archive* failed, void* of, const void** bytes) -> la_ssize_t {
    auto& source = *static_cast<ArchiveSource*>(of);
    try {
      const std::string_view piece = source.next_();
      *bytes = piece.data();
      return static_cast<la_ssize_t>(piece.size());
    } catch (...) {
      source.fault_ = std::current_exception();
      archive_set_error(failed, EIO, "cut off");
      return ARCHIVE_FATAL;
    }
  };
  const int status = archive_read_support_format_tar(reader);
  return status == ARCHIVE_OK ? archive_read_open(reader, this, nullptr, read, nullptr) : status;
}

bool read_archive(Engine& engine, const Key& key, const std::string& path,
                  const std::function<void(const NextBytes& next)>& reader, const std::stop_token& stop) {
  BytePipe pipe;
  std::exception_ptr fault;  // of the reader
  bool has_read = false;     // true if the reader has returned
  std::jthread reads([&] {
    try {
      if (pipe.await_bytes()) {
        reader([&] { return pipe.read(); });
        has_read = true;
      }
    } catch (...) {
      fault = std::current_exception();
    }
    pipe.leave();
  });
  std::exception_ptr cut;  // of the engine
  bool found = false;
  try {
    found = engine.copy_out(
        key, path,
        [&](std::string_view bytes) {
          if (!pipe.write(bytes)) throw Error(ErrorKind::cancelled, path, "cancelled");
        },
        stop);
  } catch (...) {
    cut = std::current_exception();
  }
  pipe.end(cut);
  reads.join();
  if (fault) std::rethrow_exception(fault);
  if (has_read) return true;
  if (cut) std::rethrow_exception(cut);
  return found;
}

bool read_file(Engine& engine, const Key& key, const std::string& path,
               const std::function<void(const NextBytes& next, Instant modified)>& reader,
               const std::stop_token& stop) {
  bool has_bytes = false;
  const bool found = read_archive(
      engine, key, path,
      [&](const NextBytes& next) {
        has_bytes = true;
        ArchivedFile file(next, path);
        reader([&] { return file.next(); }, file.modified());
      },
      stop);
  if (found && !has_bytes)
    throw Error(ErrorKind::corrupt, path, "the engine's archive of this file is empty");
  return found;
}

}  // namespace combu
