#include "app/owner_status.hpp"

#include <stop_token>
#include <string_view>

#include "combu/control.hpp"
#include "combu/session.hpp"

namespace combu {
namespace {

constexpr Seconds k_snapshot_patience{2};

// Stores the first snapshot of a run.
class FirstSnapshot final : public Progress {
 public:
  void phase(std::string_view /*text*/) override {}
  void preparation(const Preparation& /*preparation*/) override {}
  void counted(std::string_view /*verb*/, std::size_t /*count*/, std::size_t /*total*/) override {}
  void note(std::string_view /*line*/) override {}
  void error(std::string_view /*line*/) override {}
  void begin(const Run& /*run*/) override {}
  void fact(const Fact& /*fact*/) override {}
  void failure(const Fact& /*fact*/, const std::vector<std::string>& /*tail*/) override {}
  void snapshot(const Snapshot& snapshot) override {
    if (!first) first = snapshot;
    enough.request_stop();
  }
  void end() override {}

  std::optional<Snapshot> first;
  std::stop_source enough;
};

}  // namespace

std::optional<Settings> owner_settings(const RunId& run, const Caller& caller) {
  try {
    return ControlClient(channel_path(run, caller)).adjust({}, {});
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<Snapshot> owner_snapshot(const RunId& run, const Caller& caller) {
  FirstSnapshot progress;
  const Patience patience(progress.enough.get_token(), k_snapshot_patience);
  try {
    Run shown{.id = run, .experiment = {}};
    (void)ControlClient(channel_path(run, caller)).follow(progress, shown, patience.token());
  } catch (const Error&) {
    return std::nullopt;
  }
  return progress.first;
}

}  // namespace combu
