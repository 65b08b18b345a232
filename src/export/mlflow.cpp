
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "combu/export.hpp"
#include "combu/http.hpp"
#include "combu/json.hpp"
#include "combu/telemetry.hpp"
#include "export/mlflow_server.hpp"

namespace combu {
namespace {

using Json = nlohmann::json;

// Limits of a log-batch request: https://mlflow.org/docs/latest/rest-api.html#request-limits
constexpr std::size_t k_metrics_max = 1000;
constexpr std::size_t k_params_max = 100;
constexpr std::size_t k_in_flight = 8;
// Tag of an MLflow run whose trial was exported again with another attempt. The tag's value is the number of
// the other attempt.
constexpr const char* k_tried_again = "combu.tried_again";
// Maximum lengths in characters. The maximum for a param's value depends on the version of the server: 6000
// since 2.10, 500 since 1.28, and 250 in older versions.
constexpr std::size_t k_key_max = 250;
constexpr std::array<std::size_t, 3> k_value_max = {6000, 500, 250};

std::int64_t milliseconds(Instant at) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(at.time_since_epoch()).count();
}

// ---- Limits of MLflow

// Returns the first `count` characters (not bytes) of `text`.
std::string_view first_of(std::string_view text, std::size_t count) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_inside_character(text[i]) && count-- == 0) return text.substr(0, i);
  }
  return text;
}

// Makes a valid MLflow key from `name`. A key may contain letters, digits, _ - . / and blanks; "_" replaces
// every other character. A key must not have empty, "." or ".." parts between slashes. If `name` has such
// parts, "_" replaces every "/" and ".".
std::string allowed(const std::string& name) {
  constexpr std::string_view k_allowed = "_-./ ";
  std::string key = name;
  for (char& letter : key) {
    const bool is_plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                          (letter >= '0' && letter <= '9') ||
                          k_allowed.find(letter) != std::string_view::npos ||
                          (static_cast<unsigned char>(letter) & 0x80U) != 0;
    if (!is_plain) letter = '_';
  }
  const std::string framed = "/" + key + "/";
  const bool is_odd = framed.find("//") != std::string::npos || framed.find("/./") != std::string::npos ||
                      framed.find("/../") != std::string::npos;
  if (is_odd) std::ranges::replace(key, '/', '_');
  if (is_odd) std::ranges::replace(key, '.', '_');
  return key.empty() ? "_" : key;
}

// Maps names to distinct MLflow keys. If a key is too long or already used, digits of the name's digest
// replace the end of the key.
class Keys {
 public:
  explicit Keys(const std::vector<std::string>& names) {
    std::set<std::string> taken;
    for (const std::string& name : names)
      if (is_taken_as_it_is(name)) taken.insert(keys_[name] = name);
    for (const std::string& name : names) {
      if (keys_.contains(name)) continue;
      std::string key = allowed(name);
      if (first_of(key, k_key_max).size() < key.size() || taken.contains(key)) {
        constexpr std::size_t k_digits = 8;
        key = fmt::format("{}-{}", first_of(key, k_key_max - k_digits - 1),
                          sha256_of(name).substr(0, k_digits));
      }
      taken.insert(key);
      renamed_.push_back(fmt::format("`{}` to `{}`", shortened(name), shortened(key)));
      keys_[name] = std::move(key);
    }
  }

  [[nodiscard]] const std::string& of(const std::string& name) const { return keys_.at(name); }
  [[nodiscard]] const std::vector<std::string>& renamed() const { return renamed_; }

 private:
  static bool is_taken_as_it_is(const std::string& name) {
    return allowed(name) == name && first_of(name, k_key_max).size() == name.size();
  }

  std::map<std::string, std::string> keys_;
  std::vector<std::string> renamed_;  // descriptions of the changed names, for display
};

// Returns `value` in the form in which protocol buffers represent numbers in JSON:
// https://protobuf.dev/programming-guides/json/
Json number_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

std::string_view status_of(TrialState state) {
  switch (state) {
    case TrialState::succeeded:
    case TrialState::skipped:
      return "FINISHED";
    case TrialState::failed:
      return "FAILED";
    case TrialState::blocked:
    case TrialState::stopped:
      return "KILLED";
    case TrialState::running:
    case TrialState::collecting:
      return "RUNNING";
    default:
      return "SCHEDULED";
  }
}

Json tags_of(const Results& results, const TrialEntry& trial, const std::string& outputs) {
  Json tags = Json::array();
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) tags.push_back({{"key", key}, {"value", value}});
  };
  const RunEntry& run = results.run;
  add("combu.run", run.id.text());
  add("combu.trial", trial.name);
  add("combu.attempt", std::to_string(trial.attempt));
  add("combu.state", std::string(to_string(trial.state)));
  add("combu.reason", reason_text(trial));
  add("combu.image", trial.image);
  add("combu.digest", trial.digest);
  add("combu.outputs", outputs);
  add("mlflow.user", run.user);
  add("mlflow.source.name", run.file);
  // A skipped trial reuses the results of an earlier run, perhaps from another commit.
  if (trial.state != TrialState::skipped) add("mlflow.source.git.commit", run.revision);
  return tags;
}

// ---- MLflow runs of earlier exports

struct MlflowRun {
  std::string id;
  std::string attempt;
  std::string status;
  // end of the MLflow run, in milliseconds since 1970; 0: unknown
  std::int64_t ended_at = 0;
  bool has_outputs = false;
  bool tried_again = false;
  std::set<std::string> params;
  std::set<std::string> metrics;
};

std::string tag_in(const Json& run, std::string_view key) {
  for (const Json& tag : json_at(run.at("data"), "tags"))
    if (tag.at("key") == key) return tag.at("value");
  return {};
}

// Reads an integer, which protocol buffers may represent as a JSON string.
std::int64_t integer_in(const Json& object, const char* key) {
  const auto at = object.find(key);
  if (at == object.end()) return 0;
  if (!at->is_string())
    return integer_of(*at, std::numeric_limits<std::int64_t>::min(),
                      std::numeric_limits<std::int64_t>::max());
  const auto value = parse_number<std::int64_t>(at->get_ref<const std::string&>());
  if (!value) throw Error(ErrorKind::corrupt, "", fmt::format("`{}` must be a whole number", key));
  return *value;
}

// Reads the pages of a list one after another, and refuses answers that exceed the limits or repeat a page.
class Pages {
 public:
  Pages(const char* list, std::size_t entries_max, std::size_t pages_max)
      : list_(list), entries_max_(entries_max), pages_max_(pages_max) {}

  // Token of the next page; empty for the first page.
  [[nodiscard]] const std::string& token() const { return token_; }

  [[nodiscard]] const Json& entries_of(const Json& answer) const {
    const Json& entries = json_at(answer, list_);
    if (entries.size() > entries_max_)
      refuse(fmt::format("a page has more than {} `{}`", entries_max_, list_));
    return entries;
  }

  // True if another page follows `answer`.
  [[nodiscard]] bool go_on(const Json& answer) {
    token_ = answer.value("next_page_token", "");
    if (token_.empty()) return false;
    if (token_.size() > k_token_max) refuse("`next_page_token` is longer than 4 KiB");
    if (!seen_.insert(token_).second) refuse(fmt::format("the pages of `{}` repeat without an end", list_));
    if (seen_.size() > pages_max_) refuse(fmt::format("`{}` has more than {} pages", list_, pages_max_));
    return true;
  }

 private:
  static constexpr std::size_t k_token_max = 4096;

  [[noreturn]] static void refuse(const std::string& why) { throw Error(ErrorKind::corrupt, "", why); }

  const char* list_;
  std::size_t entries_max_;
  std::size_t pages_max_;
  std::string token_;
  std::set<std::string> seen_;
};

MlflowRun kept_of(const Json& run) {
  const Json& info = run.at("info");
  MlflowRun kept{.id = info.at("run_id").get<std::string>(),
                 .attempt = tag_in(run, "combu.attempt"),
                 .status = info.value("status", ""),
                 .ended_at = integer_in(info, "end_time"),
                 .has_outputs = !tag_in(run, "combu.outputs").empty(),
                 .tried_again = !tag_in(run, k_tried_again).empty(),
                 .params = {},
                 .metrics = {}};
  const Json& data = run.at("data");
  for (const Json& param : json_at(data, "params")) kept.params.insert(param.at("key"));
  for (const Json& metric : json_at(data, "metrics")) kept.metrics.insert(metric.at("key"));
  return kept;
}

// Returns a text that identifies a point. SQL-backed servers store the largest double in place of infinity
// (mlflow/store/tracking/sqlalchemy_store.py, sanitize_metric_value), so both values have the same text.
std::string point_key(std::int64_t timestamp, std::int64_t step, const Json& value) {
  std::string text;
  if (value.is_number()) {
    const double number = value.get<double>();
    const bool is_greatest = std::fabs(number) >= std::numeric_limits<double>::max();
    text = is_greatest ? (number > 0 ? "Infinity" : "-Infinity") : fmt::format("{}", number);
  } else {
    text = value.is_string() ? value.get<std::string>() : "NaN";
  }
  return fmt::format("{} {} {}", timestamp, step, text);
}

// ---- One run

class Exporter {
 public:
  Exporter(const Results& results, const MlflowForm& form, MlflowServer& server)
      : results_(results), form_(form), server_(server), params_(results.params), metrics_(results.metrics) {}

  void go() {
    note_renamed("params", params_);
    note_renamed("metrics", metrics_);
    experiment_ = experiment();
    find_stored();
    std::mutex mutex;
    std::size_t done = 0;
    in_parallel(results_.rows.size(), k_in_flight, [&](std::size_t i) {
      hand_on(results_.rows[i]);
      const std::scoped_lock lock(mutex);
      if (form_.on_progress) form_.on_progress(++done, results_.rows.size());
    });
  }

 private:
  void note_renamed(std::string_view what, const Keys& keys) {
    constexpr std::size_t k_shown = 5;
    const std::vector<std::string>& renamed = keys.renamed();
    if (renamed.empty() || !form_.note) return;
    const std::vector<std::string> shown(
        renamed.begin(), renamed.begin() + static_cast<std::ptrdiff_t>(std::min(renamed.size(), k_shown)));
    const std::string more =
        renamed.size() > k_shown ? fmt::format(", and {} more", renamed.size() - k_shown) : "";
    form_.note(fmt::format("{} renamed for MLflow: {}{}", what, fmt::join(shown, ", "), more));
  }

  std::string experiment() {
    const std::string& name = results_.run.experiment;
    const std::string query = "experiment_name=" + percent_encode(name);
    if (const auto found = server_.find("experiments/get-by-name", query))
      return found->at("experiment").at("experiment_id");
    return server_.post("experiments/create", {{"name", name}}).at("experiment_id");
  }

  void find_stored() {
    // The number of runs on a page is small, because an answer must stay below the size limit and each param
    // may have 6000 characters.
    constexpr std::size_t k_page = 200;
    constexpr std::size_t k_pages_max = 2500;
    Json request{{"experiment_ids", {experiment_}},
                 {"filter", fmt::format("tags.`combu.run` = '{}'", results_.run.id.text())},
                 {"max_results", k_page}};
    Pages pages("runs", k_page, k_pages_max);
    while (true) {
      if (!pages.token().empty()) request["page_token"] = pages.token();
      const Json answer = server_.post("runs/search", request);
      for (const Json& run : pages.entries_of(answer))
        kept_[tag_in(run, "combu.trial")].push_back(kept_of(run));
      if (!pages.go_on(answer)) return;
    }
  }

  void hand_on(const ResultRow& row) {
    const TrialEntry& trial = row.trial;
    const std::string outputs = form_.outputs_of ? form_.outputs_of(trial) : "";
    const Json tags = tags_of(results_, trial, outputs);
    const std::optional<MlflowRun> known = same_attempt(trial);
    MlflowRun kept = known.value_or(MlflowRun());
    if (!known) kept.id = create(trial, tags);
    log_params(kept, trial, known ? tags : Json::array());
    for (std::size_t i = 0; i < results_.metrics.size(); ++i)
      if (row.metrics[i].points > 0) log_metric(kept, row, results_.metrics[i]);
    Json update{{"run_id", kept.id}, {"run_name", trial.name}, {"status", status_of(trial.state)}};
    if (trial.ended_at) update["end_time"] = milliseconds(*trial.ended_at);
    (void)server_.post("runs/update", update);
  }

  // Returns the MLflow run of the trial's current attempt, or nullopt if there is no such run. Closes the
  // MLflow runs of earlier attempts.
  std::optional<MlflowRun> same_attempt(const TrialEntry& trial) {
    const auto known = kept_.find(trial.name);
    if (known == kept_.end()) return std::nullopt;
    std::optional<MlflowRun> same;
    for (const MlflowRun& kept : known->second) {
      if (kept.attempt == std::to_string(trial.attempt)) {
        same = kept;
      } else if (!kept.tried_again) {
        close(kept, trial);
      }
    }
    return same;
  }

  // The tag combu.outputs is deleted, because it names a location that contains the outputs of another
  // attempt. The tag combu.tried_again is written last, so that the next export closes the run again if this
  // export is interrupted.
  void close(const MlflowRun& kept, const TrialEntry& trial) {
    if (kept.has_outputs)
      (void)server_.post("runs/delete-tag", {{"run_id", kept.id}, {"key", "combu.outputs"}});
    const bool is_over = kept.status == "FAILED" || kept.status == "KILLED" || kept.status == "FINISHED";
    Json tags{{{"key", k_tried_again}, {"value", std::to_string(trial.attempt)}}};
    if (!is_over) {
      Json update{{"run_id", kept.id}, {"status", "FAILED"}};
      const auto ended_at = ended_at_of(trial.name, kept.attempt);
      if (ended_at || kept.ended_at > 0)
        update["end_time"] = ended_at ? milliseconds(*ended_at) : kept.ended_at;
      (void)server_.post("runs/update", update);
      tags.push_back({{"key", "combu.state"}, {"value", to_string(TrialState::failed)}});
    }
    (void)server_.post("runs/log-batch", {{"run_id", kept.id}, {"tags", tags}});
  }

  std::optional<Instant> ended_at_of(const std::string& trial, const std::string& attempt) {
    int number = 0;
    const auto [end, fault] = std::from_chars(attempt.data(), attempt.data() + attempt.size(), number);
    if (fault != std::errc() || !form_.ended_at_of) return std::nullopt;
    const std::scoped_lock lock(ended_mutex_);
    return form_.ended_at_of(trial, number);
  }

  std::string create(const TrialEntry& trial, const Json& tags) {
    const Json made = server_.post(
        "runs/create", {{"experiment_id", experiment_},
                        {"run_name", trial.name},
                        {"start_time", milliseconds(trial.ran_at.value_or(results_.run.began_at))},
                        {"tags", tags}});
    return made.at("run").at("info").at("run_id");
  }

  // Skips params that the MLflow run already has, because MLflow does not allow changing them.
  void log_params(const MlflowRun& kept, const TrialEntry& trial, Json tags) {
    std::vector<Param> params;
    const auto send = [&] {
      if (params.empty() && tags.empty()) return;
      send_params(kept.id, params, tags);
      params.clear();
      tags = Json::array();
    };
    const Json given = trial.params.empty() ? Json::object() : parse_json(trial.params);
    for (const auto& [name, value] : given.items()) {
      if (value.is_null() || kept.params.contains(params_.of(name))) continue;
      params.push_back({.name = name, .value = unquoted_text(value)});
      if (params.size() == k_params_max) send();
    }
    send();
  }

  struct Param {
    std::string name;
    std::string value;
  };

  void send_params(const std::string& id, const std::vector<Param>& params, const Json& tags) {
    for (const std::size_t value_max : k_value_max) {
      Json sent = Json::array();
      std::vector<std::string> cut;
      for (const Param& param : params) {
        const std::string_view value = first_of(param.value, value_max);
        if (value.size() < param.value.size()) cut.push_back(param.name);
        sent.push_back({{"key", params_.of(param.name)}, {"value", value}});
      }
      const bool is_least = value_max == k_value_max.back();
      const bool may_be_too_long = !is_least && std::ranges::any_of(params, [&](const Param& param) {
        return first_of(param.value, k_value_max.back()).size() < param.value.size();
      });
      try {
        (void)server_.post("runs/log-batch", {{"run_id", id}, {"params", sent}, {"tags", tags}});
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::refused || !may_be_too_long) throw;
        continue;
      }
      return note_cut(cut, value_max);
    }
  }

  // Reports the shortening of each param only once.
  void note_cut(const std::vector<std::string>& names, std::size_t value_max) {
    const std::scoped_lock lock(cut_mutex_);
    for (const std::string& name : names)
      if (cut_.insert(name).second && form_.note)
        form_.note(fmt::format("param {}: MLflow gets only the first {} characters of longer values",
                               shortened(name), value_max));
  }

  void log_metric(const MlflowRun& kept, const ResultRow& row, const std::string& name) {
    const std::string& key = metrics_.of(name);
    std::multiset<std::string> there;
    if (kept.metrics.contains(key)) there = history(kept.id, key);
    Json metrics = Json::array();
    const auto send = [&] {
      if (metrics.empty()) return;
      (void)server_.post("runs/log-batch", {{"run_id", kept.id}, {"metrics", metrics}});
      metrics = Json::array();
    };
    for (const MetricPoint& point : points(row, name)) {
      const std::int64_t timestamp = milliseconds(point.at);
      const std::int64_t step = std::isfinite(point.step) ? std::llround(point.step) : 0;
      const Json value = number_of(point.value);
      const auto same = there.find(point_key(timestamp, step, value));
      if (same != there.end()) {
        there.erase(same);
        continue;
      }
      metrics.push_back({{"key", key}, {"value", value}, {"timestamp", timestamp}, {"step", step}});
      if (metrics.size() == k_metrics_max) send();
    }
    send();
  }

  std::vector<MetricPoint> points(const ResultRow& row, const std::string& metric) {
    const std::scoped_lock lock(telemetry_mutex_);
    std::vector<MetricPoint> all;
    results_.telemetry->points(row.trial.name, metric,
                               [&](const MetricPoint& point) { all.push_back(point); });
    return all;
  }

  std::multiset<std::string> history(const std::string& id, const std::string& key) {
    constexpr std::size_t k_page = 25000;
    constexpr std::size_t k_pages_max = 400;
    std::multiset<std::string> there;
    const std::string query = fmt::format("run_id={}&metric_key={}&max_results={}", percent_encode(id),
                                          percent_encode(key), k_page);
    Pages pages("metrics", k_page, k_pages_max);
    while (true) {
      const std::string& token = pages.token();
      const Json answer = server_.get("metrics/get-history",
                                      token.empty() ? query : query + "&page_token=" + percent_encode(token));
      for (const Json& point : pages.entries_of(answer))
        there.insert(point_key(integer_in(point, "timestamp"), integer_in(point, "step"),
                               point.value("value", Json(0))));
      if (!pages.go_on(answer)) return there;
    }
  }

  const Results& results_;
  std::mutex telemetry_mutex_;
  const MlflowForm& form_;
  MlflowServer& server_;
  Keys params_;
  Keys metrics_;
  std::mutex cut_mutex_;
  std::set<std::string> cut_;  // params whose shortening was reported
  std::string experiment_;
  std::mutex ended_mutex_;
  // for each trial, the MLflow runs of the exported attempts
  std::map<std::string, std::vector<MlflowRun>> kept_;
};

}  // namespace

// Invalid answers are reported as `refused`, because `corrupt` is only for answers of an engine.
void export_to_mlflow(const Results& results, const MlflowForm& form, const std::stop_token& stop) {
  MlflowServer server(form.uri, stop);
  try {
    Exporter(results, form, server).go();
  } catch (const Json::exception& exception) {
    throw Error(ErrorKind::refused, server.address(),
                fmt::format("the answer is not from an MLflow server: {}", exception.what()));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::corrupt || !error.subject().empty()) throw;
    throw Error(ErrorKind::refused, server.address(),
                fmt::format("the answer is not from an MLflow server: {}", error.message()));
  }
}

}  // namespace combu
