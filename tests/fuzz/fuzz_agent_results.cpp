// Reads bytes as the file of results that an agent leaves. The readers may throw nothing but Error. Each
// result must come from a Started and the next Ended message of the file. If the file is cut at any byte, the
// results and the logs must be the first parts of those of the whole file. If the results are written as the
// agent writes them, they must be read again. An archive that comes in pieces must give the same results as
// the whole archive.
//
// The first byte of the input gives the form of the other bytes: 0: a file of results, whose checksums are
// corrected; 1: a list of messages; 2: an engine's archive. The next two bytes give the position of the cut.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "combu/engine.hpp"
#include "passing_engine.hpp"
#include "tar_bytes.hpp"
#include "workers/results_file.hpp"

namespace {

using namespace combu;
using workers::Result;

// Corrects the checksums of the frames.
std::string with_valid_frames(std::string_view bytes) {
  std::string file;
  while (bytes.size() >= agent::k_header_size) {
    std::uint32_t size = 0;
    for (std::size_t i = sizeof size; i > 0; --i)
      size = size << 8U | static_cast<unsigned char>(bytes[i - 1]);
    if (size > bytes.size() - agent::k_header_size) break;
    agent::append_frame(file, static_cast<agent::FrameType>(bytes[agent::k_header_size - 1]),
                        bytes.substr(agent::k_header_size, size));
    bytes.remove_prefix(agent::k_header_size + size);
  }
  file += bytes;
  return file;
}

// Each message is a byte for its type and a text. A text begins with a byte for its size.
std::string file_of_messages(std::string_view bytes) {
  const auto text = [&] {
    if (bytes.empty()) return std::string();
    const auto size = static_cast<unsigned char>(bytes.front());
    const std::string found(bytes.substr(1, size));
    bytes.remove_prefix(std::min(found.size() + 1, bytes.size()));
    return found;
  };
  std::string file;
  std::uint32_t request = 1;
  while (!bytes.empty()) {
    const auto type = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    switch (type) {
      case 'S':
        agent::append(file, agent::Started{.id = text(), .at = 1});
        break;
      case 'L':
        agent::append(file,
                      agent::Log{.request = request, .chunks = {{.at = 2, .stream = 1, .bytes = text()}}});
        break;
      case 'E':
        agent::append(file, agent::Ended{.id = text(), .at = 3});
        break;
      case 'D':
        agent::append(file, agent::Done{.request = request++});
        break;
      case 'T':
        agent::append(file, agent::Listed{});
        break;
      default:
        agent::append_frame(file, static_cast<agent::FrameType>(type), text());
    }
  }
  return file;
}

// The ends and the log of the first result, as the readers find them in an archive.
struct Found {
  workers::EndsReader ends;
  std::string log;
  bool is_log_whole = false;
};

// An engine whose containers have one file.
class OneFile : public test::PassingEngine {
 public:
  // `archive` must live longer.
  OneFile(std::string_view archive, std::size_t piece)
      : PassingEngine(static_cast<Engine&>(*this)), archive_(archive), piece_(piece) {}
  bool copy_out(const Key& /*key*/, const std::string& /*path*/,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token /*stop*/) override {
    for (std::string_view left = archive_; !left.empty(); left.remove_prefix(std::min(piece_, left.size())))
      on_bytes(left.substr(0, piece_));
    return true;
  }

 private:
  std::string_view archive_;
  std::size_t piece_;
};

Found found_in(std::string_view archive, std::size_t piece) {
  OneFile engine(archive, piece);
  Found found;
  workers::ResultLogReader log(1, [&](const agent::LogChunk& chunk) { found.log += chunk.bytes; });
  const auto read = [&](auto& reader) {
    const auto take = [&](const agent::Frame& frame) { return reader.take(frame); };
    try {
      (void)workers::read_results(engine, {.run = RunId("r"), .trial = "t", .attempt = 1}, "/results", take,
                                  {});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid && error.kind() != ErrorKind::corrupt) std::abort();
    }
  };
  read(found.ends);
  read(log);
  found.is_log_whole = log.is_whole;
  return found;
}

std::string archive_of(std::string_view file) {
  std::string archive;
  fuzz::append_entry(archive, {.type = "0", .mode = "600", .time = "1", .name = "results", .content = file});
  return archive;
}

std::string to_bytes(const std::vector<Result>& results) {
  std::string file;
  for (const Result& result : results) {
    agent::append(file, result.started);
    agent::append(file, result.ended);
  }
  return file;
}

// Aborts if the file does not have the messages of the results, in their order.
void expect_messages(std::string_view file, const std::vector<Result>& results) {
  std::uint32_t number = 0;
  const auto skip = [&](const auto& message) {
    std::string frame;
    agent::append(frame, message);
    const std::size_t at = file.find(frame);
    if (at == std::string_view::npos) std::abort();
    file.remove_prefix(at + frame.size());
  };
  for (const Result& result : results) {
    if (result.started.id != result.ended.id || result.number <= number) std::abort();
    number = result.number;
    skip(result.started);
    skip(result.ended);
  }
}

// Writes the results as the agent writes them. Aborts if the reader does not give the same results.
void expect_read_again(const Found& found, std::size_t piece) {
  const std::string messages = to_bytes(found.ends.results);
  std::string file;
  agent::append(file, agent::Welcome{.version = agent::k_version});
  file += messages;
  agent::append(file, agent::Listed{});
  agent::append(file, agent::Log{.request = 1, .chunks = {{.at = 2, .stream = 1, .bytes = "log"}}});
  agent::append(file, agent::Done{.request = 1});
  const Found again = found_in(archive_of(file), piece);
  if (!again.ends.is_whole || to_bytes(again.ends.results) != messages || again.log != "log" ||
      !again.is_log_whole)
    std::abort();
}

void expect_equal(const Found& one, const Found& other) {
  if (one.ends.is_whole != other.ends.is_whole ||
      to_bytes(one.ends.results) != to_bytes(other.ends.results) || one.log != other.log ||
      one.is_log_whole != other.is_log_whole)
    std::abort();
}

// Aborts if `part` is not what may be found in the beginning of the file of `whole`.
void expect_beginning(const Found& part, const Found& whole) {
  if (part.ends.is_whole > whole.ends.is_whole || part.is_log_whole > whole.is_log_whole ||
      !to_bytes(whole.ends.results).starts_with(to_bytes(part.ends.results)) ||
      !whole.log.starts_with(part.log))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_head = 3;
  if (size < k_head) return 0;
  const std::size_t number = data[1] + std::size_t{data[2]} * 256;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + k_head, size - k_head);
  std::string archive;
  if (data[0] % 3 == 2) {
    archive = fuzz::with_checksums(bytes);
  } else {
    const std::string file = data[0] % 3 == 0 ? with_valid_frames(bytes) : file_of_messages(bytes);
    archive = archive_of(file);
    expect_messages(file, found_in(archive, archive.size()).ends.results);
  }
  const Found whole = found_in(archive, archive.size() + 1);
  expect_equal(found_in(archive, number + 1), whole);
  expect_read_again(whole, number + 1);
  expect_beginning(found_in(std::string_view(archive).substr(0, number % (archive.size() + 1)), number + 1),
                   whole);
  return 0;
}
