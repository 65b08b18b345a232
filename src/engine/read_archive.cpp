#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cerrno>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "combu/engine.hpp"

namespace combu {
namespace {

struct Source {
  const NextBytes& next;
  std::exception_ptr fault = nullptr;  // an exception of `next`, which must not pass through libarchive
};

la_ssize_t read_some(archive* reader, void* of, const void** bytes) {
  auto& source = *static_cast<Source*>(of);
  try {
    const std::string_view piece = source.next();
    *bytes = piece.data();
    return static_cast<la_ssize_t>(piece.size());
  } catch (...) {
    source.fault = std::current_exception();
    archive_set_error(reader, EIO, "cut off");
    return ARCHIVE_FATAL;
  }
}

// The first file of an archive.
class ArchivedFile {
 public:
  ArchivedFile(const NextBytes& next, const std::string& path)
      : path_(path), source_{next}, archive_(archive_read_new(), &archive_read_free) {
    archive_entry* entry = nullptr;
    check(archive_read_support_format_tar(archive_.get()));
    check(archive_read_open(archive_.get(), &source_, nullptr, &read_some, nullptr));
    check(archive_read_next_header(archive_.get(), &entry));
    if (archive_entry_filetype(entry) != AE_IFREG)
      throw Error(ErrorKind::invalid, path_, "must be a regular file");
    modified_ = file_time(archive_entry_mtime(entry), archive_entry_mtime_nsec(entry));
  }

  [[nodiscard]] Instant modified() const { return modified_; }
  [[nodiscard]] std::string_view next() {
    const la_ssize_t size = archive_read_data(archive_.get(), buffer_.data(), buffer_.size());
    if (size < 0) check(ARCHIVE_FATAL);
    return {buffer_.data(), static_cast<std::size_t>(size)};
  }

 private:
  // A name that is invalid in this process's locale causes only a warning.
  void check(int result) const {
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    if (source_.fault) std::rethrow_exception(source_.fault);
    throw Error(ErrorKind::corrupt, path_, "the engine's archive of this file is invalid");
  }

  const std::string& path_;
  Source source_;
  std::unique_ptr<archive, decltype(&archive_read_free)> archive_;
  Instant modified_;
  std::array<char, 1U << 16U> buffer_{};
};

}  // namespace

bool read_archive(Engine& engine, const Key& key, const std::string& path,
                  const std::function<void(const NextBytes& next)>& reader, const std::stop_token& stop) {
  BytePipe pipe;
  std::exception_ptr fault;  // of the reader
  std::jthread reads([&] {
    try {
      if (pipe.await_bytes()) reader([&] { return pipe.read(); });
    } catch (...) {
      fault = std::current_exception();
    }
    pipe.leave();
  });
  std::exception_ptr cut;  // of the engine
  bool found = false;
  bool is_enough = false;
  try {
    found = engine.copy_out(
        key, path,
        [&](std::string_view bytes) {
          if (pipe.write(bytes)) return;
          is_enough = true;
          throw Error(ErrorKind::cancelled, path, "cancelled");
        },
        stop);
  } catch (...) {
    cut = std::current_exception();
  }
  pipe.end(is_enough ? nullptr : cut);
  reads.join();
  if (fault) std::rethrow_exception(fault);
  if (is_enough) return true;
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
