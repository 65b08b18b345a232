#include "cli/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/config.hpp"
#include "cli/environment.hpp"
#include "combu/docker.hpp"
#include "combu/simulated.hpp"

namespace combu {
namespace {

constexpr Seconds k_repeats_told_pause{5};

std::unique_ptr<Engine> open_engine(const std::string& given, std::string& source, std::string& address) {
  address = given;
  if (given.starts_with("simulated:")) return open_simulated(parse_simulation(given));
  const DockerPlace place = find_docker(environment, given);
  address = place.address.text();
  source = place.source;
  return open_docker(place, {.gpus = [address] { return configured_gpus(address); }});
}

std::ofstream open_trace(const std::string& file) {
  std::ofstream trace;
  if (file.empty()) return trace;
  trace.open(file, std::ios::app);
  if (!trace)
    throw Error(ErrorKind::invalid, "--trace",
                fmt::format("{} cannot be written: {}", file, std::generic_category().message(errno)));
  return trace;
}

// Many calls meet the same outage: one line for all of them is enough.
class RepeatTeller {
 public:
  explicit RepeatTeller(Progress& progress) : progress_(progress) {}
  void operator()(const Error& error) {
    std::scoped_lock lock(mutex_);
    const Instant now = real_clock().now();
    if (told_at_ && now - *told_at_ < k_repeats_told_pause) return;
    told_at_ = now;
    progress_.note(fmt::format("{}; trying again", error.what()));
  }

 private:
  Progress& progress_;
  std::mutex mutex_;
  std::optional<Instant> told_at_;
};

}  // namespace

Session::Session(const Invocation& invocation, std::unique_ptr<Progress> progress)
    : progress_(std::move(progress)),
      interrupts_([this, as_json = invocation.progress == "json"] { leave(as_json); }),
      trace_(open_trace(invocation.trace)),
      given_engine_(invocation.engine),
      engine_(open_engine(invocation.engine, engine_source_, engine_address_)),
      traced_(trace_.is_open() ? with_trace(*engine_, real_clock(), trace_) : nullptr) {}

// On the signal's thread, while others may hold any lock.
void Session::leave(bool as_json) {
  progress_->end();
  constexpr std::string_view k_line = "combu: left at once, at the second signal\n";
  if (!as_json) (void)!::write(STDERR_FILENO, k_line.data(), k_line.size());
}

std::unique_ptr<Engine> Session::patient_engine() {
  const auto teller = std::make_shared<RepeatTeller>(*progress_);
  return with_retry(engine(), {}, real_clock(),
                    [teller](const Error& error, Seconds /*pause*/) { (*teller)(error); });
}

int in_session(const Invocation& invocation, std::unique_ptr<Progress> progress,
               const std::function<int(Session&)>& body) {
  Session session(invocation, std::move(progress));
  try {
    return body(session);
  } catch (const Error& error) {
    session.progress().end();
    if (error.kind() == ErrorKind::cancelled && session.signal_code() != 0) return session.signal_code();
    session.progress().error(error_line(error, session.engine_source()));
    return exit_code(error.kind());
  }
}

int in_session(const Invocation& invocation, const std::function<int(Session&)>& body) {
  return in_session(invocation, open_progress(invocation), body);
}

}  // namespace combu
