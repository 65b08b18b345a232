#include <utility>

#include "combu/control.hpp"

namespace combu {

SharedProgress::SharedProgress(std::unique_ptr<Progress> progress, ControlServer& server)
    : first_(std::move(progress)),
      shown_(first_.get()),
      server_(server),
      json_(make_json_progress([this](std::string_view event, std::string_view line) {
        server_.publish(fails_ && (event == "fact" || event == "tail") ? "failure" : event, line);
      })) {}

void SharedProgress::show_on(std::unique_ptr<Progress> progress) {
  shown().end();
  later_ = std::move(progress);
  shown_ = later_.get();
}

void SharedProgress::phase(std::string_view text) {
  shown().phase(text);
  json_->phase(text);
}

void SharedProgress::preparation(const Preparation& preparation) {
  shown().preparation(preparation);
  json_->preparation(preparation);
}

void SharedProgress::counted(std::string_view verb, std::size_t count, std::size_t total) {
  shown().counted(verb, count, total);
  json_->counted(verb, count, total);
}

void SharedProgress::note(std::string_view line) {
  shown().note(line);
  json_->note(line);
}

void SharedProgress::error(std::string_view line) {
  shown().error(line);
  json_->error(line);
}

void SharedProgress::begin(const Run& run) {
  shown().begin(run);
  json_->begin(run);
}

void SharedProgress::fact(const Fact& fact) {
  shown().fact(fact);
  publish(fact, [&] { json_->fact(fact); });
}

void SharedProgress::publish(const Fact& fact, const std::function<void()>& line) {
  fails_ = is_failure(fact) && is_over(fact.state);
  if (fails_ || server_.is_followed()) line();
  fails_ = false;
}

void SharedProgress::failure(const Fact& fact, const std::vector<std::string>& tail) {
  shown().failure(fact, tail);
  publish(fact, [&] { json_->failure(fact, tail); });
}

void SharedProgress::snapshot(const Snapshot& snapshot) {
  shown().snapshot(snapshot);
  json_->snapshot(snapshot);
}

void SharedProgress::end() {
  shown().end();
}

}  // namespace combu
