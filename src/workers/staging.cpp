#include "workers/staging.hpp"

#include <fmt/format.h>

#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "combu/inputs.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"

namespace combu::workers {
namespace {

constexpr std::string_view k_unpacked = "unpacked";
constexpr std::size_t k_answer_size_max = 4096;

// Returns the line that the program writes. Throws Error(unavailable) if the connection ends before.
std::string read_line(ByteStream& stream, const std::string& subject) {
  std::string text;
  std::array<char, 1024> part{};
  while (text.find('\n') == std::string::npos && text.size() < k_answer_size_max) {
    const std::size_t count = stream.read(part);
    if (count == 0)
      throw Error(ErrorKind::unavailable, subject,
                  fmt::format("the connection has ended before the inputs were copied: {}", stream.errors()));
    text.append(part.data(), count);
  }
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::vector<std::string> stage_inputs(Engine& engine, const Key& key, const Trial& container,
                                      const std::stop_token& stop) {
  const auto stream = engine.exec(key, {std::string(k_program), "unpack"}, stop);
  const std::stop_callback on_stop(stop, [&] { stream->close(); });
  try {
    const auto put = [&](std::string_view bytes) {
      stream->write(bytes);
      return true;
    };
    auto digests = pack_inputs(container.inputs, input_owner(container), put);
    const std::string line = read_line(*stream, key.trial);
    if (line == k_unpacked) return *std::move(digests);
    throw Error(ErrorKind::refused, key.trial,
                fmt::format("the inputs cannot be written in the container: {}", line));
  } catch (const Error&) {
    throw_if_cancelled(key, stop);
    throw;
  }
}

}  // namespace combu::workers
