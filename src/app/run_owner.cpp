#include "app/run_owner.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "combu/system.hpp"

namespace combu {
namespace {

// Opens the log file of a background process. The state folder has already been checked, when the
// record was opened.
Descriptor open_log(const std::string& path) {
  make_private_folder(std::filesystem::path(path).parent_path());
  return open_private_file(path, O_WRONLY | O_CREAT | O_APPEND);
}

}  // namespace

std::unique_ptr<RunLock> acquire_lock(LockScope scope, Session& session, const Loaded& loaded) {
  try {
    return std::make_unique<RunLock>(scope, loaded.run, session.engine_address(), loaded.caller,
                                     session.stop());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::refused) throw;
    session.progress().note(
        fmt::format("combu cannot detect two runs that start at the same time: {}", error.what()));
    return nullptr;
  }
}

void interrupt_processes(Session& session, const Selector& selector, const std::string& by,
                         const Caller& caller) {
  // Ignore other errors: interrupt_runs() also interrupts a process that does not answer on its channel.
  const auto announce = [&](const RunId& run) {
    try {
      (void)ControlClient(channel_path(run, caller)).adjust({.interrupter = by}, session.stop());
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::cancelled) throw;
    }
  };
  for (const Interrupted& one :
       interrupt_runs(selector, session.engine_address(), caller, announce, session.stop()))
    session.progress().note(fmt::format("interrupted process {}, which owned run {}", one.process, one.run));
}

RunOwner::~RunOwner() {
  std::error_code none;
  if (!unused_log_.empty()) std::filesystem::remove(unused_log_, none);
}

std::unique_ptr<Progress> RunOwner::share(std::unique_ptr<Progress> progress) {
  auto shared = std::make_unique<SharedProgress>(std::move(progress), channel_);
  progress_ = shared.get();
  return shared;
}

void RunOwner::begin(Session& session, const Loaded& loaded, const RunOptions& options) {
  lock_ = acquire_lock(LockScope::run, session, loaded);
  if (background_ != nullptr) {
    const std::string path = log_path(loaded.run.id, loaded.caller);
    if (!std::filesystem::exists(path)) unused_log_ = path;
    log_ = open_log(path);
  }
  steering_.emplace(Settings{.parallel_max = options.parallel.value_or(loaded.run.experiment.parallel_max),
                             .starts_in_flight_max = options.starts_in_flight});
  if (!lock_) return;  // without the lock, another process may own the socket's path
  try {
    channel_.open(
        channel_path(loaded.run.id, loaded.caller),
        [this](const Adjust& adjust, Steering::Answer answer) {
          return steering_->post(adjust, std::move(answer));
        },
        [this] { return steering_->leave(); });
  } catch (const Error& error) {
    session.progress().note(fmt::format("`combu attach` cannot follow this run: {}", error.what()));
  }
}

void RunOwner::leave_foreground(const Loaded& loaded) {
  if (background_ == nullptr) return;
  unused_log_.clear();
  const RunId& run = loaded.run.id;
  progress_->note(
      fmt::format("run {} continues in the background: `combu attach {}` follows the run; the log is {}",
                  run.text(), run.text(), log_path(run, loaded.caller)));
  progress_->show_on(make_progress(ProgressForm::plain, stderr));
  background_->enter(run, log_->number());
}

int RunOwner::done(int exit_code) {
  channel_.done(exit_code);
  return exit_code;
}

}  // namespace combu
