#include "telemetry/metric_file.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>

namespace combu::telemetry {
namespace {

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
  void operator()(archive* reader) const { archive_read_free(reader); }
};

// The engine pushes an archive, and a reader pulls: a file that nobody sees is between them.
std::unique_ptr<std::FILE, Close> spooled(Engine& engine, const Key& key, const std::string& path,
                                          const std::stop_token& stop) {
  std::unique_ptr<std::FILE, Close> spool(std::tmpfile());
  const auto expect = [&](bool done) {
    if (!done)
      throw Error(ErrorKind::refused, path,
                  "there is no room for a copy of it in the folder of temporary files");
  };
  expect(spool != nullptr);
  const bool found = engine.copy_out(
      key, path,
      [&](std::string_view bytes) {
        expect(std::fwrite(bytes.data(), 1, bytes.size(), spool.get()) == bytes.size());
      },
      stop);
  if (!found) return nullptr;
  expect(std::fflush(spool.get()) == 0);
  std::rewind(spool.get());
  return spool;
}

}  // namespace

FileMetrics read_metric_file(Engine& engine, const Key& key, const std::string& path, MetricNames& names,
                             const std::stop_token& stop) {
  const auto spool = spooled(engine, key, path, stop);
  if (!spool) return {.fault = fmt::format("there is no file of metrics {}", path)};
  const std::unique_ptr<archive, Close> reader(archive_read_new());
  archive_read_support_format_tar(reader.get());
  archive_read_open_FILE(reader.get(), spool.get());
  archive_entry* entry = nullptr;
  if (archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK ||
      archive_entry_filetype(entry) != AE_IFREG)
    return {.fault = fmt::format("{} is no file of metrics: it is not a file", path)};
  const Instant at{std::chrono::seconds(archive_entry_mtime(entry))};
  MetricLines numbers(path.ends_with(".csv") ? MetricLines::Form::csv : MetricLines::Form::json, names);
  Lines lines([&](std::string_view line, Instant when) { numbers.take(line, when); });
  std::array<char, 1U << 16U> buffer{};
  for (;;) {
    const auto size = archive_read_data(reader.get(), buffer.data(), buffer.size());
    if (size < 0)
      throw Error(ErrorKind::unavailable, path,
                  fmt::format("its archive makes no sense: {}", archive_error_string(reader.get())));
    if (size == 0) break;
    lines.feed({buffer.data(), static_cast<std::size_t>(size)}, at);
  }
  lines.end(at);
  FileMetrics file{.metrics = numbers.taken()};
  if (file.metrics.empty()) file.fault = fmt::format("there are no numbers in its file of metrics {}", path);
  return file;
}

}  // namespace combu::telemetry
