#include <functional>
#include <mutex>
#include <utility>

#include "combu/json.hpp"
#include "combu/progress.hpp"
#include "combu/text.hpp"
#include "progress/forms.hpp"

namespace combu {
namespace {

using nlohmann::ordered_json;

ordered_json slots_json(const Slots& slots) {
  constexpr double k_nano = 1e9;
  return {{"cpus", static_cast<double>(slots.cpus.nano) / k_nano},
          {"memory", slots.memory.count},
          {"gpus", slots.gpus}};
}

ordered_json end_json(const Fact& fact) {
  const EndDetails& details = fact.details;
  return {{"reason", fact.reason},
          {"stopper", to_string(details.stopper)},
          {"outputs_fault", details.outputs_fault},
          {"next", to_string(details.next)},
          {"pause", details.pause.count()},
          {"next_why", details.next_why}};
}

class JsonProgress final : public Progress {
 public:
  // How the line of a fact gives the fact's reason: as text, or, with `parts`, also as JSON fields for
  // another combu process.
  enum class Reasons : std::uint8_t { texts, parts };
  JsonProgress(std::function<void(std::string_view, std::string_view)> write, Reasons reasons)
      : write_(std::move(write)), reasons_(reasons) {}

  void phase(std::string_view text) override { put("phase", {{"text", text}}); }

  void preparation(const Preparation& preparation) override {
    const bool image = preparation.kind == Preparation::Kind::image;
    ordered_json fields{{"name", preparation.name}, {"finished", preparation.finished}};
    if (image) fields["bytes"] = preparation.done.count;
    if (image && preparation.total.count > 0) fields["bytes_total"] = preparation.total.count;
    put(image ? "image" : "network", fields);
  }

  void counted(std::string_view verb, std::size_t count, std::size_t total) override {
    put("count", {{"verb", verb}, {"count", count}, {"total", total}});
  }

  void note(std::string_view line) override { put("note", {{"text", line}}); }
  void error(std::string_view line) override { put("error", {{"text", line}}); }

  void begin(const Run& run) override {
    run_ = &run;
    put("begin", {{"experiment", run.experiment.name},
                  {"file", run.experiment.file},
                  {"run", run.id.text()},
                  {"trials", run.experiment.trials.size()}});
  }

  void fact(const Fact& fact) override {
    ordered_json fields{{"trial", run_->experiment.trials[fact.trial].name},
                        {"state", to_string(fact.state)},
                        {"attempt", fact.attempt}};
    if (fact.healthy) fields["healthy"] = true;
    if (fact.cause != Cause::none) fields["cause"] = to_string(fact.cause);
    if (fact.exit_code) fields["exit_code"] = *fact.exit_code;
    if (std::string reason = reason_text(fact); !reason.empty()) fields["reason"] = std::move(reason);
    if (reasons_ == Reasons::parts && fact.details != EndDetails{}) fields["end"] = end_json(fact);
    if (fact.root) fields["root"] = run_->experiment.trials[*fact.root].name;
    put("fact", fields);
  }

  void failure(const Fact& fact, const std::vector<std::string>& tail) override {
    put("tail",
        {{"trial", run_->experiment.trials[fact.trial].name}, {"attempt", fact.attempt}, {"lines", tail}});
  }

  void snapshot(const Snapshot& snapshot) override {
    ordered_json counts = ordered_json::object();
    for (std::size_t i = 0; i < k_trial_state_count; ++i)
      counts[std::string(to_string(static_cast<TrialState>(i)))] = snapshot.counts[i];
    ordered_json fields{{"elapsed", snapshot.elapsed.count()},
                        {"trials", snapshot.trials},
                        {"started", snapshot.started},
                        {"counts", counts},
                        {"interrupted", snapshot.interrupted},
                        {"paused", snapshot.settings.paused},
                        {"parallel", snapshot.settings.parallel_max},
                        {"starts_in_flight", snapshot.settings.starts_in_flight_max},
                        {"starts_under_way", snapshot.starts_in_flight}};
    ordered_json starting = ordered_json::array();
    for (const TrialIndex trial : snapshot.starting) starting.push_back(run_->experiment.trials[trial].name);
    fields["starting"] = starting;
    if (!snapshot.interrupter.empty()) fields["interrupter"] = snapshot.interrupter;
    ordered_json running = ordered_json::array();
    for (const auto& [trial, age] : snapshot.running)
      running.push_back({{"trial", run_->experiment.trials[trial].name}, {"seconds", age.count()}});
    fields["running"] = running;
    ordered_json pending = ordered_json::array();
    for (const auto& [reason, first, count] : snapshot.pending)
      pending.push_back(
          {{"trial", run_->experiment.trials[first].name}, {"trials", count}, {"reason", reason}});
    if (!pending.empty()) fields["pending"] = pending;
    if (snapshot.left) fields["left"] = snapshot.left->count();
    if (snapshot.capacity) {
      fields["held"] = slots_json(snapshot.held);
      fields["held_by_others"] = slots_json(snapshot.held_by_others);
      fields["capacity"] = slots_json(*snapshot.capacity);
    }
    put("snapshot", fields);
  }

  void end() override {}

 private:
  void put(std::string_view event, const ordered_json& fields) {
    ordered_json object{{"time", rfc3339(real_clock().now())}, {"event", event}};
    object.update(fields);
    const std::string text = json_text(object) + "\n";
    std::scoped_lock lock(mutex_);
    write_(event, text);
  }

  std::function<void(std::string_view, std::string_view)> write_;
  Reasons reasons_;
  std::mutex mutex_;
  const Run* run_ = nullptr;
};

}  // namespace

std::unique_ptr<Progress> make_json_progress(
    std::function<void(std::string_view event, std::string_view line)> write) {
  return std::make_unique<JsonProgress>(std::move(write), JsonProgress::Reasons::parts);
}

std::unique_ptr<Progress> make_json_progress(const Surroundings& surroundings) {
  const auto write = [stream = surroundings.stream](std::string_view, std::string_view line) {
    const std::string text = escape_controls(line);
    (void)std::fwrite(text.data(), 1, text.size(), stream);
    (void)std::fflush(stream);
  };
  return std::make_unique<JsonProgress>(write, JsonProgress::Reasons::texts);
}

}  // namespace combu
