#include "workers/results_file.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <iterator>
#include <memory>
#include <utility>

namespace combu::workers {

std::vector<Result> read_results(std::string_view bytes) {
  std::vector<Result> results;
  agent::FrameReader reader;
  reader.feed(bytes);
  agent::Frame frame;
  Result next;
  bool has_start = false;
  while (reader.next(frame) == agent::FrameReader::Result::frame) {
    bool is_valid = true;
    if (frame.type == agent::FrameType::started) {
      next = {};
      is_valid = agent::decode(frame.payload, next.started);
      has_start = true;
    } else if (frame.type == agent::FrameType::log) {
      agent::Log log;
      is_valid = agent::decode(frame.payload, log);
      std::ranges::move(log.chunks, std::back_inserter(next.log));
    } else if (frame.type == agent::FrameType::ended) {
      is_valid = agent::decode(frame.payload, next.ended);
      if (is_valid && has_start && next.ended.id == next.started.id) {
        results.push_back(std::exchange(next, {}));
        has_start = false;
      }
    }
    if (!is_valid) break;
  }
  return results;
}

std::vector<Result> results_of(Engine& engine, const Key& worker, const std::string& path,
                               const std::stop_token& stop) {
  constexpr std::size_t k_archive_max = std::size_t{1} << 30U;
  std::string tar;
  const auto take = [&](std::string_view bytes) {
    if (tar.size() + bytes.size() > k_archive_max)
      throw Error(ErrorKind::corrupt, worker.trial, "the file of results is larger than 1 GiB");
    tar += bytes;
  };
  if (!engine.copy_out(worker, path, take, stop)) return {};
  const std::unique_ptr<archive, decltype(&archive_read_free)> from(archive_read_new(), archive_read_free);
  archive_read_support_format_tar(from.get());
  archive_entry* entry = nullptr;
  if (archive_read_open_memory(from.get(), tar.data(), tar.size()) != ARCHIVE_OK ||
      archive_read_next_header(from.get(), &entry) != ARCHIVE_OK)
    return {};
  std::string bytes;
  constexpr std::size_t k_piece = std::size_t{64} << 10U;
  std::string piece(k_piece, '\0');
  la_ssize_t count = 0;
  while ((count = archive_read_data(from.get(), piece.data(), piece.size())) > 0) {
    bytes.append(piece, 0, static_cast<std::size_t>(count));
    // Only a file with holes is larger than its archive. The agent makes no such file.
    if (bytes.size() > tar.size())
      throw Error(ErrorKind::corrupt, worker.trial, "the file of results has holes");
  }
  return read_results(bytes);
}

}  // namespace combu::workers
