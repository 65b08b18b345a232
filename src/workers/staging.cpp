#include "workers/staging.hpp"

#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "combu/inputs.hpp"
#include "workers/attempt.hpp"
#include "workers/container.hpp"

namespace combu::workers {
namespace {

constexpr std::string_view k_unpacked = "unpacked";
constexpr std::size_t k_answer_size_max = 4096;

// Closes a stream on which nothing has happened for a time.
class SilenceLimit {
 public:
  SilenceLimit(ByteStream& stream, Seconds silence_max)
      : watcher_([&stream, silence_max, this](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          for (std::uint64_t seen = steps_; !is_exceeded_ && !stop.stop_requested(); seen = steps_) {
            const bool is_over = !changed_.wait_for(lock, stop, silence_max, [&] { return steps_ != seen; });
            is_exceeded_ = is_over && !stop.stop_requested();
          }
          lock.unlock();
          if (is_exceeded_) stream.close();
        }) {}
  // Something has happened.
  void step() {
    const std::scoped_lock lock(mutex_);
    ++steps_;
    changed_.notify_one();
  }
  [[nodiscard]] bool is_exceeded() {
    const std::scoped_lock lock(mutex_);
    return is_exceeded_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t steps_ = 0;
  bool is_exceeded_ = false;
  std::jthread watcher_;
};

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
                                      Seconds silence_max, const std::stop_token& stop) {
  const auto stream = engine.exec(key, {std::string(k_program), "unpack"}, stop);
  const std::stop_callback on_stop(stop, [&] { stream->close(); });
  SilenceLimit limit(*stream, silence_max);
  try {
    const auto put = [&](std::string_view bytes) {
      stream->write(bytes);
      limit.step();
      return true;
    };
    auto digests = pack_inputs(container.inputs, input_owner(container), put);
    const std::string line = read_line(*stream, key.trial);
    if (line == k_unpacked) return *std::move(digests);
    throw Error(ErrorKind::refused, key.trial,
                fmt::format("the inputs cannot be written in the container: {}", line));
  } catch (const Error&) {
    throw_if_cancelled(key, stop);
    if (limit.is_exceeded())
      throw Error(ErrorKind::unavailable, key.trial,
                  fmt::format("no progress for {:g} s while the inputs were copied into the container",
                              silence_max.count()));
    throw;
  }
}

}  // namespace combu::workers
