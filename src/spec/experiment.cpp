#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "combu/spec.hpp"
#include "spec/document.hpp"
#include "spec/environment.hpp"
#include "spec/failure.hpp"
#include "spec/fields.hpp"
#include "spec/json.hpp"
#include "spec/kubernetes.hpp"
#include "spec/layer.hpp"
#include "spec/outputs.hpp"
#include "spec/report.hpp"
#include "spec/secrets.hpp"
#include "spec/values.hpp"
#include "spec/volumes.hpp"
#include "spec/warnings.hpp"
#include "spec/worker.hpp"

namespace combu {

namespace spec {

namespace {

constexpr std::string_view k_trials = "trials";
constexpr std::string_view k_secrets = "secrets";

class ExperimentReader final : public DocumentSink {
 public:
  ExperimentReader(std::string_view json, const Caller& caller)
      : caller_(caller), may_hold_identifier_(json.find(k_identifier_text) != std::string_view::npos) {
    experiment_.file = caller.file;
    experiment_.name = caller.file;
    experiment_.collect.to = absolute_path("results", caller);
  }
  ExperimentReader(const ExperimentReader&) = delete;
  ExperimentReader& operator=(const ExperimentReader&) = delete;

  void top_field(const std::string& name, const Json& value) override {
    const Place place = root_.key(name);
    // A field with the value null counts as absent, because Jsonnet's `if` without `else` returns null.
    if (value.is_null() && name != k_trials && spec::top_field(name)) return;
    if (may_hold_identifier_ && !own_field(name)) warn_of_identifier(value, place, report_);
    if (name == "experiment") {
      read_experiment_name(value, place);
    } else if (name == "defaults") {
      if (!defaults_known_) read_defaults(value);
    } else if (name == k_secrets) {
      if (!secrets_known_) read_secrets(value);
    } else if (name == k_trials) {
      trials_given_ = true;
      report_.add(place, fmt::format("must be an array of trials, not {}", shown(value)));
    } else if (!read_setting(name, value, place) && !own_field(name)) {
      is_compose_ = is_compose_ || (name == "services" && value.is_object());
      refuse(name, place);
    }
  }

  void trials_begin(DocumentForm form) override {
    trials_given_ = true;
    trials_begun_ = true;
    trials_ = form == DocumentForm::array ? &root_ : &trials_field_;
  }

  void trial(std::size_t index, Json& value) override {
    ++trials_seen_;
    const Place place = trials_->index(index);
    if (!value.is_object()) {
      report_.add(place, fmt::format("a trial must be an object, not {}", kind_of(value)));
      return;
    }
    report_.enter(name_of(value));
    if (may_hold_identifier_) warn_of_identifier(value, Place(), report_);
    Layer own = LayerReader(LayerKind::trial, caller_, env_files_, report_).read(value, place);
    require(own, Field::name, place);
    require(own, Field::image, place);
    Trial trial = combine(std::move(own), defaults_, place, report_);
    trial.path = place.text();
    look_for_key_parts(trial, index);
    secret_checks_.take(trial, report_);
    worker_checks_.take(trial, place, report_);
    experiment_.trials.push_back(std::move(trial));
    report_.enter("");
  }

  void not_a_document(const Json& value) override {
    report_.add(
        root_,
        fmt::format("the file must evaluate to an array of trials, or to an object with `trials`, not {}",
                    shown(value)));
  }

  // Must be called before trial(), which merges each trial with the defaults.
  void read_defaults(const Json& value) {
    defaults_known_ = true;
    const Place place = root_.key("defaults");
    if (trials_seen_ > 0) {
      late_defaults_ = value;
    } else if (value.is_object()) {
      Json object = value;
      defaults_ = LayerReader(LayerKind::defaults, caller_, env_files_, report_).read(object, place);
      check_params(defaults_.params, Json::object(), place.key(field_name(Field::params)), report_);
    } else {
      report_.add(place, fmt::format("must be an object with fields of a trial, not {}", shown(value)));
    }
  }
  // Must be called before trial(), which looks for the sources of each trial's secrets.
  void read_secrets(const Json& value) {
    secrets_known_ = true;
    if (trials_seen_ > 0) {
      late_secrets_ = value;
    } else {
      secret_checks_.read(value, caller_, root_.key(k_secrets), report_);
    }
  }
  // Return the fields `defaults` and `secrets` if they follow the first trial in the file, else null.
  [[nodiscard]] const Json& late_defaults() const { return late_defaults_; }
  [[nodiscard]] const Json& late_secrets() const { return late_secrets_; }

  Reading finish(const DocumentEnd& end) {
    if (!end.fault.empty()) {
      report_.add(root_, "cannot parse the JSON that the file evaluates to: " + end.fault);
    } else if (is_compose_ && !trials_begun_) {
      report_.forget();
      report_.add(root_,
                  "this is a Compose file, and combu reads trials; write its services as { trials: [{ name: "
                  "\"NAME\", image: \"IMAGE\", cmd: \"COMMAND\" }] }, see `man combu-experiment`");
    } else if (trial_fields_seen_ && !trials_given_) {
      report_.forget();
      report_.add(root_, "this is one trial: put it into an array, [{…}]");
    } else if (end.form == DocumentForm::object && !trials_given_) {
      report_.add(root_.key(k_trials), "missing: the array of trials");
    } else if (trials_begun_ && trials_seen_ == 0) {
      report_.add(*trials_, "no trials: the array is empty");
    }
    report_unknown_key_parts();
    worker_checks_.finish(experiment_, *trials_, report_);
    experiment_.secrets = secret_checks_.finish(report_);
    // shrink_to_fit() would not save memory here. The excess capacity of a large vector is memory that was
    // never touched, and copying the vector would raise the peak of used memory.
    experiment_.failures_max = max_failures_.of(experiment_.trials.size());
    if (!defaults_.docker.empty()) experiment_.defaults_docker = json_text(defaults_.docker);
    drop_null_members(defaults_.kubernetes);
    if (!defaults_.kubernetes.empty()) experiment_.defaults_kubernetes = json_text(defaults_.kubernetes);
    return {std::move(experiment_), report_.take(), report_.warnings()};
  }

 private:
  static std::string_view name_of(const Json& trial) {
    for (const std::string_view spelling : {"name", "container_name"}) {
      const auto found = trial.find(spelling);
      if (found != trial.end() && found->is_string()) return found->get_ref<const std::string&>();
    }
    return {};
  }

  using Names = std::set<std::string, std::less<>>;
  // A param or variable that a cache key names. If no trial has this param or variable, the key cannot
  // distinguish trials, and combu reports an error.
  struct KeyPart {
    std::string trial;  // name of the first trial whose cache key names the param or variable
    std::size_t index = 0;
    bool found = false;
    Names near;  // names of this trial's params or variables, to suggest a similar name
  };

  void look_for_key_parts(const Trial& trial, std::size_t index) {
    // names of the trial's params, parsed when a part of the key first needs them
    std::optional<Names> params;
    for (const std::string& part : trial.cache.key) {
      const std::size_t dot = part.find('.');
      if (dot == std::string::npos) continue;
      const auto [at, is_new] = key_parts_.try_emplace(part);
      if (at->second.found) continue;
      Names there;
      if (part.starts_with("env.")) {
        for (const auto& [name, value] : trial.process.env) there.insert(name);
      } else {
        if (!params) params = names_of_params(trial);
        there = *params;
      }
      at->second.found = there.contains(std::string_view(part).substr(dot + 1));
      if (!is_new) continue;
      at->second.trial = trial.name;
      at->second.index = index;
      at->second.near = std::move(there);
    }
  }

  static Names names_of_params(const Trial& trial) {
    Names names;
    if (trial.params.empty()) return names;
    const Json params = parse_ordered_json(trial.params);
    for (const auto& param : params.items()) names.insert(param.key());
    return names;
  }

  void report_unknown_key_parts() {
    for (const auto& [part, use] : key_parts_) {
      if (use.found) continue;
      const std::string name = part.substr(part.find('.') + 1);
      const auto near = nearest(name, {use.near.begin(), use.near.end()});
      report_.enter(use.trial);
      const Place place = trials_->index(use.index);
      const Place cache = place.key(field_name(Field::cache));
      report_.add(cache.key("key"),
                  fmt::format("no trial has `{}`, so it cannot be part of the cache key{}", shortened(part),
                              near ? fmt::format(": did you mean `{}`?", *near) : ""));
    }
    report_.enter("");
  }

  // Reads a field that sets how the experiment runs. Returns false if there is no such field.
  bool read_setting(const std::string& name, const Json& value, const Place& place) {
    if (name == "parallel") {
      experiment_.parallel_max = read_limit_count(value, place, report_).value_or(0);
    } else if (name == "order") {
      if (const auto choice = read_choice(value, {"file", "random"}, place, report_))
        experiment_.order = static_cast<Order>(*choice);
    } else if (name == "seed") {
      experiment_.seed = read_count(value, place, report_).value_or(0);
    } else if (name == "deadline") {
      experiment_.deadline = read_limit(value, place, report_);
    } else if (name == "max_failures") {
      max_failures_ = read_max_failures(value, place, report_);
    } else if (name == "canary") {
      experiment_.canary = read_flag(value, place, report_).value_or(false);
    } else if (name == "collect") {
      experiment_.collect = read_collect(value, caller_, place, report_);
    } else if (name == "keep") {
      experiment_.keep = read_keep(value, place, report_);
    } else if (name == "hold") {
      experiment_.hold = read_lifetime(value, place, report_).value_or(experiment_.hold);
    } else if (name == "ttl") {
      experiment_.ttl = read_lifetime(value, place, report_).value_or(experiment_.ttl);
    } else if (name == "isolate") {
      experiment_.isolates_networks = read_flag(value, place, report_).value_or(false);
    } else {
      return false;
    }
    return true;
  }

  void read_experiment_name(const Json& value, const Place& place) {
    auto name = read_string(value, place, report_);
    if (!name) return;
    if (const auto fault = fault_of_experiment_name(*name)) {
      report_.add(place, *fault);
    } else {
      experiment_.name = std::move(*name);
    }
  }

  void refuse(const std::string& name, const Place& place) {
    if (planned_field(name)) {
      report_.add(place, fmt::format("`{}` is not supported yet", name));
    } else if (find_field(name)) {
      trial_fields_seen_ = true;
      report_.add(place,
                  fmt::format("`{}` is a trial's field: put it into `defaults` or into the trials", name));
    } else {
      const auto meant = nearest(name, top_fields());
      report_.add(place, unknown_field(name, meant));
      trials_given_ = trials_given_ || meant == k_trials;
    }
  }

  void require(const Layer& own, Field field, const Place& place) {
    const auto at = static_cast<std::size_t>(field);
    const bool cleared = own.cleared.test(at);
    const bool by_defaults = field != Field::name && defaults_.given.test(at) && !defaults_.cleared.test(at);
    if (!cleared && (own.given.test(at) || by_defaults)) return;
    report_.add(place.key(field_name(field)), "missing: every trial needs this field");
  }

  const Caller& caller_;
  // false: the file's JSON does not contain "UUID", so combu need not search all values
  const bool may_hold_identifier_;
  Report report_;
  EnvFiles env_files_;
  Experiment experiment_;
  MaxFailures max_failures_;
  Layer defaults_;
  bool defaults_known_ = false;
  Json late_defaults_;
  bool secrets_known_ = false;
  Json late_secrets_;
  SecretChecks secret_checks_;
  std::map<std::string, KeyPart> key_parts_;
  WorkerChecks worker_checks_;
  Place root_;
  Place trials_field_ = root_.key(k_trials);
  const Place* trials_ = &root_;
  // also true if the field `trials` is misspelt or not an array, for which combu reports another error
  bool trials_given_ = false;
  bool trials_begun_ = false;
  std::size_t trials_seen_ = 0;
  bool trial_fields_seen_ = false;
  bool is_compose_ = false;  // the file has a field `services`
};

}  // namespace

}  // namespace spec

std::string_view to_string(Condition condition) {
  switch (condition) {
    case Condition::started:
      return "started";
    case Condition::healthy:
      return "healthy";
    case Condition::succeeded:
      return "succeeded";
    case Condition::finished:
      return "finished";
  }
  return "";
}

Reading read_experiment(std::string_view json, const Caller& caller) {
  spec::ExperimentReader reader(json, caller);
  const spec::DocumentEnd end = spec::read_document(json, reader);
  if (reader.late_defaults().is_null() && reader.late_secrets().is_null()) return reader.finish(end);
  // The field `defaults` or `secrets` follows a trial, which is rare because Jsonnet sorts fields. combu
  // reads the file again with these fields.
  spec::ExperimentReader again(json, caller);
  if (!reader.late_defaults().is_null()) again.read_defaults(reader.late_defaults());
  if (!reader.late_secrets().is_null()) again.read_secrets(reader.late_secrets());
  const spec::DocumentEnd end_again = spec::read_document(json, again);
  return again.finish(end_again);
}

}  // namespace combu
