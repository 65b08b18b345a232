#include "telemetry/metric_file.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

namespace combu::telemetry {
namespace {

// Connects the engine, which pushes the bytes of an archive, with libarchive, which pulls the bytes. The
// engine's thread calls write() for each piece and blocks until libarchive has read the piece.
class Handover {
 public:
  // Blocks until read() has read the piece. Returns false if the reading thread has called leave().
  bool write(std::string_view piece) {
    std::unique_lock lock(mutex_);
    piece_ = piece;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !piece_ || left_; });
    return !left_;
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  // Blocks until the writer has a piece, and returns the piece, or an empty text at the end of the archive.
  // The result is valid until the next call.
  std::string_view read() {
    std::unique_lock lock(mutex_);
    if (is_read_) piece_.reset();
    changed_.notify_all();
    changed_.wait(lock, [this] { return piece_ || ended_; });
    is_read_ = piece_.has_value();
    return piece_.value_or("");
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    left_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::string_view> piece_;
  bool is_read_ = false;  // true if read() has already returned piece_
  bool ended_ = false;
  bool left_ = false;
};

la_ssize_t read_piece(archive* /*reader*/, void* of, const void** bytes) {
  const std::string_view piece = static_cast<Handover*>(of)->read();
  *bytes = piece.data();
  return static_cast<la_ssize_t>(piece.size());
}

struct Free {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

FileMetrics read_archive(Handover& from, const Metrics& metrics, MetricLimits& limits, Bytes size_max) {
  const std::string& path = metrics.file;
  const std::unique_ptr<archive, Free> reader(archive_read_new());
  archive_read_support_format_tar(reader.get());
  archive_entry* entry = nullptr;
  if (archive_read_open(reader.get(), &from, nullptr, read_piece, nullptr) != ARCHIVE_OK ||
      archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK ||
      archive_entry_filetype(entry) != AE_IFREG)
    return {.fault = fmt::format("the metrics file {} must be a regular file", path)};
  const Instant at = file_time(archive_entry_mtime(entry));
  MetricLines numbers(path.ends_with(".csv") ? MetricLines::Form::csv : MetricLines::Form::json, limits,
                      metrics);
  Lines lines([&](std::string_view line, Instant when) { numbers.add(line, when); });
  FileMetrics file;
  std::array<char, 1U << 16U> buffer{};
  for (std::int64_t left = size_max.count;;) {
    const auto size = archive_read_data(reader.get(), buffer.data(), buffer.size());
    if (size < 0) file.fault = fmt::format("the engine's archive of the metrics file {} is invalid", path);
    if (size <= 0) break;
    lines.feed({buffer.data(), static_cast<std::size_t>(std::min<std::int64_t>(size, left))}, at);
    left -= size;
    if (left >= 0) continue;
    file.fault = fmt::format("the metrics file {} is larger than {}: combu reads only its beginning", path,
                             to_string(size_max));
    break;
  }
  if (file.fault.empty()) lines.end(at);
  file.metrics = numbers.take_points();
  if (file.metrics.empty() && file.fault.empty())
    file.fault = fmt::format("the metrics file {} has no numbers", path);
  return file;
}

}  // namespace

FileMetrics read_metric_file(Engine& engine, const Key& key, const Metrics& metrics, MetricLimits& limits,
                             const std::stop_token& stop, Bytes size_max) {
  const std::string& path = metrics.file;
  Handover handover;
  FileMetrics file;
  std::exception_ptr fault;
  bool found = false;
  {
    const std::jthread reads([&] {
      try {
        file = read_archive(handover, metrics, limits, size_max);
      } catch (...) {
        fault = std::current_exception();
      }
      handover.leave();
    });
    bool is_enough = false;
    const auto on_bytes = [&](std::string_view bytes) {
      if (bytes.empty() || handover.write(bytes)) return;
      is_enough = true;
      throw Error(ErrorKind::cancelled, path, "cancelled");
    };
    try {
      found = engine.copy_out(key, path, on_bytes, stop);
    } catch (const Error& error) {
      handover.end();  // without end(), the reading thread would wait for more bytes
      if (error.kind() == ErrorKind::invalid)
        return {.fault = fmt::format("the metrics file {} {}", path, error.message())};
      if (!is_enough) throw;
      found = true;
    } catch (...) {
      handover.end();
      throw;
    }
    handover.end();
  }
  if (fault) std::rethrow_exception(fault);
  if (!found) return {.fault = fmt::format("the metrics file {} does not exist", path)};
  return file;
}

}  // namespace combu::telemetry
