// Reads bytes as the file of results that an agent leaves. The reader may throw nothing but Error, and that
// only for the engine's archive. Each result must come from a Started and a later Ended message of the file.
// If the file is cut at any byte, the results must be the first ones of the whole file. If the results are
// written as the agent writes them, they must be read again. An engine's archive of the file must give the
// same results as the file.
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
  while (!bytes.empty()) {
    const auto type = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    switch (type) {
      case 'S':
        agent::append(file, agent::Started{.id = text(), .at = 1});
        break;
      case 'L':
        agent::append(file, agent::Log{.chunks = {{.at = 2, .stream = 1, .bytes = text()}}});
        break;
      case 'E':
        agent::append(file, agent::Ended{.id = text(), .at = 3});
        break;
      default:
        agent::append_frame(file, static_cast<agent::FrameType>(type), text());
    }
  }
  return file;
}

// Returns the part of a file of results that holds one result.
std::string to_bytes(const Result& result) {
  std::string file;
  agent::append(file, result.started);
  for (const agent::LogChunk& chunk : result.log) agent::append(file, agent::Log{.chunks = {chunk}});
  agent::append(file, result.ended);
  return file;
}

std::string to_bytes(const std::vector<Result>& results) {
  std::string file;
  for (const Result& result : results) file += to_bytes(result);
  return file;
}

// Aborts if the file does not have the messages of the results, in their order.
void expect_messages(std::string_view file, const std::vector<Result>& results) {
  const auto skip = [&](const auto& message) {
    std::string frame;
    agent::append(frame, message);
    const std::size_t at = file.find(frame);
    if (at == std::string_view::npos) std::abort();
    file.remove_prefix(at + frame.size());
  };
  for (const Result& result : results) {
    if (result.started.id != result.ended.id) std::abort();
    skip(result.started);
    skip(result.ended);
  }
}

// Writes the results as the agent writes them. Aborts if the reader does not give the same results.
void expect_read_again(const std::vector<Result>& results) {
  const std::string messages = to_bytes(results);
  std::string file;
  agent::append(file, agent::Welcome{.version = agent::k_version});
  file += messages;
  agent::append(file, agent::Listed{});
  if (to_bytes(workers::read_results(file)) != messages) std::abort();
}

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

std::vector<Result> results_in(std::string_view archive, std::size_t piece) {
  OneFile engine(archive, piece);
  return workers::results_of(engine, {.run = RunId("r"), .trial = "t", .attempt = 1}, "/results", {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t k_head = 3;
  if (size < k_head) return 0;
  const std::size_t number = data[1] + std::size_t{data[2]} * 256;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + k_head, size - k_head);
  if (data[0] % 3 == 2) {
    try {
      expect_read_again(results_in(fuzz::with_checksums(bytes), number + 1));
    } catch (const Error&) {
    }
    return 0;
  }

  const std::string file = data[0] % 3 == 0 ? with_valid_frames(bytes) : file_of_messages(bytes);
  const std::vector<Result> results = workers::read_results(file);
  expect_messages(file, results);
  const std::string whole = to_bytes(results);
  const std::string_view cut = std::string_view(file).substr(0, number % (file.size() + 1));
  if (!whole.starts_with(to_bytes(workers::read_results(cut)))) std::abort();
  expect_read_again(results);

  std::string archive;
  fuzz::append_entry(archive, {.type = "0", .mode = "600", .time = "1", .name = "results", .content = file});
  fuzz::append_end(archive);
  if (to_bytes(results_in(archive, number + 1)) != whole) std::abort();
  return 0;
}
