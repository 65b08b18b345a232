#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "docker/docker_engine.hpp"
#include "docker/log_frames.hpp"

namespace combu::docker {
namespace {

// If a program cannot be started, the engine answers with status 101 nevertheless, and sends a text that
// begins with these words as the program's standard output (Engines 20.10 and 29).
constexpr std::string_view k_refusal = "OCI runtime exec failed: ";
// Maximum size in bytes of such a text. A longer text is output of the program.
constexpr std::size_t k_refusal_max = 4096;
// Size in bytes of the part of the standard error that errors() returns.
constexpr std::size_t k_errors_size = 500;
// Size of the read buffer in bytes; equals the capacity of a unix socket.
constexpr std::size_t k_buffer = std::size_t{256} << 10U;
// An engine may send a program's first output before it knows the process, and end the stream before it
// knows the exit code.
constexpr Seconds k_inspect_pause{0.02};
constexpr int k_inspect_tries = 25;

// Returns the last bytes of `text` as one line.
std::string end_of(std::string_view text) {
  std::size_t from = text.size() - std::min(text.size(), k_errors_size);
  while (from > 0 && from < text.size() && is_inside_character(text[from])) ++from;
  return escape_controls(one_line(text.substr(from)));
}

class ExecStream : public ByteStream {
 public:
  ExecStream(Connections& engine, std::string trial, std::string id,
             std::unique_ptr<RawConnection> connection)
      : engine_(engine),
        trial_(std::move(trial)),
        id_(std::move(id)),
        connection_(std::move(connection)),
        frames_([this](const LogPiece& piece) { take(piece); }, false) {}

  ~ExecStream() override { connection_->close(); }
  ExecStream(const ExecStream&) = delete;
  ExecStream& operator=(const ExecStream&) = delete;

  std::size_t read(std::span<char> buffer) override {
    target_ = buffer;
    while (true) {
      take_held();
      while (!target_.empty() && released_.empty() && !refusal_is_whole_ && !unread_.empty()) feed();
      if (refusal_is_whole_) judge_refusal();
      if (!released_.empty() && !target_.empty()) continue;
      if (target_.size() < buffer.size()) return buffer.size() - target_.size();
      if (buffer.empty() || connection_->is_closed()) return 0;
      const std::size_t count = connection_->read({buffer_.get(), k_buffer});
      if (count == 0) return end();
      unread_ = {buffer_.get(), count};
    }
  }

  void write(std::string_view bytes) override { connection_->write(bytes); }

  void close() override {
    closing_.request_stop();
    connection_->close();
  }

  std::string errors() override {
    {
      const std::scoped_lock lock(mutex_);
      if (!errors_.empty() || !has_ended_) return end_of(errors_);
    }
    return exit_text();
  }

 private:
  // Passes bytes of the connection to `frames_`. The headers of the frames only shorten the output, so the
  // output fits into `target_`.
  void feed() {
    const std::string_view part = unread_.substr(0, target_.size());
    unread_.remove_prefix(part.size());
    try {
      frames_.feed(part);
    } catch (const Error& error) {
      unread_ = {};
      throw Error(error.kind(), trial_, "the engine's answer is invalid: " + error.message());
    }
  }

  void take(const LogPiece& piece) {
    if (piece.stream == LogStream::err) {
      const std::scoped_lock lock(mutex_);
      append_to_tail(errors_, piece.text, k_errors_size);
    } else if (refusal_is_whole_) {
      held_ += piece.text;
    } else if (may_be_refusal_) {
      take_first(piece.text);
    } else if (!released_.empty()) {
      released_ += piece.text;
    } else {
      target_ = target_.subspan(piece.text.copy(target_.data(), target_.size()));
    }
  }

  // Holds the first frame of the standard output back as long as the frame may contain a refusal. The engine
  // sends a refusal as one frame.
  void take_first(std::string_view text) {
    held_ += text;
    const std::size_t known = std::min(held_.size(), k_refusal.size());
    const bool fits = held_.substr(0, known) == k_refusal.substr(0, known) && held_.size() <= k_refusal_max;
    const bool is_whole = frames_.left() == 0;
    if (!fits || (is_whole && known < k_refusal.size())) {
      release_held();
    } else if (is_whole) {
      may_be_refusal_ = false;
      refusal_is_whole_ = true;
    }
  }

  void release_held() {
    may_be_refusal_ = false;
    released_ = std::exchange(held_, {});
  }

  // Returns the text that was held back to the caller.
  void take_held() {
    const std::size_t count = released_.copy(target_.data(), target_.size());
    target_ = target_.subspan(count);
    released_.erase(0, count);
  }

  // Throws Error(refused) if the program has not been started. A program that has been started may itself
  // write the words of a refusal.
  void judge_refusal() {
    refusal_is_whole_ = false;
    const std::optional<ExecFacts> facts =
        wait_for_facts([](const ExecFacts& known) { return known.has_begun || known.exit_code; });
    if (facts && facts->has_begun) return release_held();
    const std::string text = end_of(std::exchange(held_, {}));
    {
      const std::scoped_lock lock(mutex_);
      errors_ = text;
    }
    throw Error(ErrorKind::refused, trial_, text);
  }

  std::size_t end() {
    {
      const std::scoped_lock lock(mutex_);
      has_ended_ = true;
    }
    if (frames_.is_open() && !connection_->is_closed())
      throw Error(ErrorKind::unavailable, trial_,
                  "the connection was cut in the middle of the program's output");
    return 0;
  }

  std::string exit_text() {
    const std::optional<ExecFacts> facts =
        wait_for_facts([](const ExecFacts& known) { return known.exit_code.has_value(); });
    if (!facts || !facts->exit_code) return "";
    return fmt::format("the program has ended with exit code {}", *facts->exit_code);
  }

  // Inspects the execution until `suffice` returns true, at most half a second. Returns the last answer;
  // nullopt if the engine does not answer or does not know the execution.
  std::optional<ExecFacts> wait_for_facts(const std::function<bool(const ExecFacts&)>& suffice) {
    std::optional<ExecFacts> facts;
    try {
      for (int tries = 0; tries < k_inspect_tries; ++tries) {
        if (tries > 0) real_clock().wait(k_inspect_pause, closing_.get_token());
        facts = inspect_exec(engine_, id_, closing_.get_token());
        if (!facts || suffice(*facts)) return facts;
      }
    } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the last answer counts
    }
    return facts;
  }

  Connections& engine_;
  std::string trial_;
  std::string id_;
  std::unique_ptr<RawConnection> connection_;
  std::stop_source closing_;
  // Used only by the thread in read().
  LogFrames frames_;
  // The buffer is not initialised, so that its pages use no memory until bytes fill them.
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(k_buffer);
  std::string_view unread_;     // the part of `buffer_` that was not passed to `frames_`
  std::span<char> target_;      // the part of the caller's buffer that is empty
  bool may_be_refusal_ = true;  // the first frame of the standard output is not complete
  bool refusal_is_whole_ = false;
  std::string held_;      // the text that may be a refusal
  std::string released_;  // text that was held back, and that the caller gets before any further text
  std::mutex mutex_;      // protects the members below
  std::string errors_;
  bool has_ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> DockerEngine::exec(const Key& key, const std::vector<std::string>& argv,
                                               std::stop_token stop) {
  const std::string container = container_of(key, stop).id;
  std::string id = create_exec(connections_, container, key.trial, argv, stop);
  std::unique_ptr<RawConnection> connection = start_exec(connections_, id, key.trial, stop);
  return std::make_unique<ExecStream>(connections_, key.trial, std::move(id), std::move(connection));
}

}  // namespace combu::docker
