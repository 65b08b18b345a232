#include <utility>

#include "combu/control.hpp"

namespace combu {

SharedProgress::SharedProgress(std::unique_ptr<Progress> progress, ControlServer& server)
    : first_(std::move(progress)),
      shown_(first_.get()),
      server_(server),
      told_(make_json_progress([this](std::string_view event, std::string_view line) {
        server_.tell(event == "fact" && fails_ ? "failure" : event, line);
      })) {}

void SharedProgress::show_on(std::unique_ptr<Progress> progress) {
  shown().end();
  later_ = std::move(progress);
  shown_ = later_.get();
}

void SharedProgress::phase(std::string_view text) {
  shown().phase(text);
  told_->phase(text);
}

void SharedProgress::preparation(const Preparation& preparation) {
  shown().preparation(preparation);
  told_->preparation(preparation);
}

void SharedProgress::counted(std::string_view verb, std::size_t count, std::size_t total) {
  shown().counted(verb, count, total);
  told_->counted(verb, count, total);
}

void SharedProgress::note(std::string_view line) {
  shown().note(line);
  told_->note(line);
}

void SharedProgress::error(std::string_view line) {
  shown().error(line);
  told_->error(line);
}

void SharedProgress::begin(const Run& run) {
  shown().begin(run);
  told_->begin(run);
}

void SharedProgress::fact(const Fact& fact) {
  shown().fact(fact);
  // Of many trials there are many: made only for somebody, or for those who come later.
  fails_ = fact.state == TrialState::failed || was_stopped(fact.state, fact.cause);
  if (fails_ || server_.is_followed()) told_->fact(fact);
}

void SharedProgress::tail(TrialIndex trial, const std::vector<std::string>& lines) {
  shown().tail(trial, lines);
  told_->tail(trial, lines);
}

void SharedProgress::snapshot(const Snapshot& snapshot) {
  shown().snapshot(snapshot);
  told_->snapshot(snapshot);
}

void SharedProgress::end() {
  shown().end();
}

}  // namespace combu
