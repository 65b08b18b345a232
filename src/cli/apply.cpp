#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cli/again.hpp"
#include "cli/commands.hpp"
#include "cli/execution.hpp"
#include "cli/recorded.hpp"
#include "cli/take_in.hpp"
#include "combu/control.hpp"
#include "combu/json.hpp"

namespace combu {
namespace {

constexpr std::size_t k_names_told = 5;
// For others that change the run, and for a process that is about to be at work on it.
constexpr std::chrono::seconds k_hand_over_patience{30};
constexpr Seconds k_hand_over_look{0.1};

struct ApplyOptions {
  std::string run;
  bool replace = false;
  bool detach = false;
};

using Names = std::unordered_set<std::string>;

// What the edited file means to the run.
struct Changes {
  Experiment experiment;          // as the run has it from here on; what joins is behind what was there
  std::size_t joined = 0;         // trials that join
  std::vector<TrialIndex> taken;  // are as the file says now
  // Wait again, for a new attempt; when one of theirs runs, until it has ended.
  std::vector<TrialIndex> again;
  std::vector<TrialIndex> out;   // are not in the file any more, and were not over
  std::vector<TrialIndex> left;  // have changed, and run or are over
  std::vector<Error> errors;     // why there is no plan of it

  [[nodiscard]] bool none() const { return joined == 0 && taken.empty() && out.empty() && left.empty(); }
};

bool has_begun(TrialState state) {
  return is_alive(state) || state == TrialState::collecting ||
         (is_over(state) && state != TrialState::blocked && state != TrialState::skipped);
}

Names trial_names_in(const std::string& evaluated, const Caller& caller) {
  Names names;
  for (const Trial& trial : read_experiment(evaluated, caller).experiment.trials) names.insert(trial.name);
  return names;
}

// Which trials the run's file has named until now, and which ones before.
struct Named {
  Names latest;
  Names ever;
};

Named named_until_now(const RunEntry& entry, const Caller& caller) {
  Named named{.latest = trial_names_in(entry.evaluated, caller), .ever = {}};
  named.ever = named.latest;
  for (const std::string& earlier : entry.earlier) named.ever.merge(trial_names_in(earlier, caller));
  return named;
}

class Comparison {
 public:
  Comparison(const Experiment& before, const std::vector<Past>& past, const Named& named,
             const Experiment& file, bool replace)
      : past_(past), named_(named), replace_(replace) {
    for (const Trial& trial : file.trials) in_file_.emplace(trial.name, &trial);
    changes_.experiment = file;
    changes_.experiment.trials = before.trials;
  }

  Changes changes(const Experiment& file) && {
    Names on_record;
    for (TrialIndex trial = 0; trial < past_.size(); ++trial) {
      on_record.insert(changes_.experiment.trials[trial].name);
      compare(trial);
    }
    // What the run has left out from its beginning (--only) stays out.
    for (const Trial& trial : file.trials) {
      if (on_record.contains(trial.name) || named_.ever.contains(trial.name)) continue;
      changes_.experiment.trials.push_back(trial);
      ++changes_.joined;
    }
    bring_along();
    return std::move(changes_);
  }

 private:
  void compare(TrialIndex trial) {
    Trial& it = changes_.experiment.trials[trial];
    const auto found = in_file_.find(it.name);
    const bool is_collecting = past_[trial].state == TrialState::collecting;
    if (is_collecting) return compare_collecting(trial, found == in_file_.end() ? nullptr : found->second);
    if (found == in_file_.end()) {
      leave_out(it);
      if (!is_over(past_[trial].state) && past_[trial].leaving != Leaving::removed)
        changes_.out.push_back(trial);
      return;
    }
    const bool returns = !named_.latest.contains(it.name);
    if (!returns && same_but_for_pull(it, *found->second)) return;
    const TrialState state = past_[trial].state;
    const bool has_begun = combu::has_begun(state) && past_[trial].leaving != Leaving::replaced;
    if (!returns && has_begun && !replace_) {
      changes_.left.push_back(trial);
      return;
    }
    it = *found->second;
    changes_.taken.push_back(trial);
    if (returns || has_begun || is_over(state)) changes_.again.push_back(trial);
  }

  // It has ended: what it leaves comes home as the file said when it began.
  void compare_collecting(TrialIndex trial, const Trial* in_file) {
    Trial& it = changes_.experiment.trials[trial];
    if (in_file == nullptr) {
      leave_out(it);
    } else if (!same_but_for_pull(it, *in_file)) {
      changes_.left.push_back(trial);
    }
  }

  // What is on record is not pulled again.
  static bool same_but_for_pull(Trial one, Trial other) {
    for (Trial* trial : {&one, &other})
      if (trial->pull == Pull::always) trial->pull = Pull::missing;
    return same(std::move(one), std::move(other));
  }

  // Services that are over and needed once more, and what was blocked by one that is tried again.
  void bring_along() {
    Planning planning = make_plan(changes_.experiment);
    changes_.errors = std::move(planning.errors);
    if (!changes_.errors.empty()) return;
    Again again(changes_.experiment, planning.plan, past_);
    for (const TrialIndex trial : changes_.again) again.add(trial, Needs::services);
    for (const TrialIndex trial : changes_.taken) again.add_needs_of(trial, Needs::services);
    for (std::size_t trial = past_.size(); trial < changes_.experiment.trials.size(); ++trial)
      again.add_needs_of(static_cast<TrialIndex>(trial), Needs::services);
    again.add_blocked();
    changes_.again = again.trials();
    if (take_left()) bring_along();
  }

  // What is started anew anyway is as the file says now. True when there was such a one: it may need others.
  bool take_left() {
    const std::unordered_set<TrialIndex> again(changes_.again.begin(), changes_.again.end());
    return std::erase_if(changes_.left, [&](TrialIndex trial) {
             if (!again.contains(trial)) return false;
             Trial& it = changes_.experiment.trials[trial];
             it = *in_file_.at(it.name);
             changes_.taken.push_back(trial);
             return true;
           }) > 0;
  }

  const std::vector<Past>& past_;
  const Named& named_;
  const bool replace_;
  std::unordered_map<std::string, const Trial*> in_file_;
  Changes changes_;
};

// The trials that the engine has not been asked about yet.
Experiment only_new(const Changes& changes) {
  Experiment part = changes.experiment;
  const std::size_t known = part.trials.size() - changes.joined;
  const std::unordered_set<TrialIndex> taken(changes.taken.begin(), changes.taken.end());
  std::vector<Trial> trials;
  for (TrialIndex trial = 0; trial < part.trials.size(); ++trial)
    if (trial >= known || taken.contains(trial)) trials.push_back(part.trials[trial]);
  part.trials = std::move(trials);
  return part;
}

bool has_all(const std::vector<Trial>& trials, const std::vector<Trial>& wanted) {
  std::unordered_map<std::string_view, const Trial*> by_name;
  for (const Trial& trial : trials) by_name.emplace(trial.name, &trial);
  return std::ranges::all_of(wanted, [&](const Trial& trial) {
    const auto found = by_name.find(trial.name);
    return found != by_name.end() && *found->second == trial;
  });
}

void tell(Progress& progress, const RunId& run, const Changes& changes) {
  std::vector<std::string> parts;
  const auto add = [&](std::size_t count, std::string_view one, std::string_view many) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, count == 1 ? one : many));
  };
  add(changes.joined, "trial joins", "trials join");
  add(changes.out.size(), "is removed", "are removed");
  add(changes.taken.size(), "is as the file says now", "are as the file says now");
  if (parts.empty() && changes.left.empty()) parts.emplace_back("nothing of it changes");
  if (!parts.empty()) progress.note(fmt::format("run {}: {}", run.text(), fmt::join(parts, ", ")));
  if (changes.left.empty()) return;
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < std::min(changes.left.size(), k_names_told); ++i)
    names.emplace_back(changes.experiment.trials[changes.left[i]].name);
  const std::size_t more = changes.left.size() - names.size();
  progress.note(fmt::format("run {}: changed, but left as {}: {}{}; `apply --replace` runs {} anew",
                            run.text(),
                            changes.left.size() == 1 ? "it is, since it has been started"
                                                     : "they are, since they have been started",
                            fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "",
                            changes.left.size() == 1 ? "it" : "them"));
}

// The values that a command line gives its file, as `-A n=5`; empty: none.
std::string values_in(const std::vector<std::string>& arguments) {
  constexpr std::array<std::string_view, 6> k_options{"--ext-str",  "--ext-code", "--tla-str",
                                                      "--tla-code", "-V",         "-A"};
  std::vector<std::string> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    for (const std::string_view option : k_options) {
      if (!word.starts_with(option)) continue;
      const bool is_apart = word == option && i + 1 < arguments.size();
      values.push_back(is_apart ? fmt::format("{} {}", word, shell_word(arguments[i + 1]))
                                : shell_word(word));
    }
  }
  return fmt::format("{}", fmt::join(values, " "));
}

// Without them the file would often mean less, and what it does not name any more would be removed.
void expect_values(const RunEntry& entry, const Invocation& invocation) {
  for (const auto* given :
       {&invocation.ext_str, &invocation.ext_code, &invocation.tla_str, &invocation.tla_code})
    if (!given->empty()) return;
  const std::string values = values_in(parse_json(entry.arguments).get<std::vector<std::string>>());
  if (values.empty()) return;
  throw Error(ErrorKind::invalid, "run " + entry.id.text(),
              fmt::format("was begun with `{}`: give the same again, or others", values));
}

class Apply {
 public:
  Apply(Session& session, Record& record, RunEntry entry, const Loaded& file, const ApplyOptions& options)
      : session_(session), record_(record), entry_(std::move(entry)), file_(file), options_(options) {}

  // What the file means as the run stands now.
  [[nodiscard]] Changes compare() {
    entry_ = record_.run(entry_.id);
    const Loaded before = load(record_, entry_.id);
    const std::vector<Past> past = record_.past(entry_.id);
    Changes changes = Comparison(before.run.experiment, past, named_until_now(entry_, before.caller),
                                 file_.run.experiment, options_.replace)
                          .changes(file_.run.experiment);
    expect_env_files(changes.experiment, past, changes.again);
    return changes;
  }

  [[nodiscard]] bool is_on_record(const Changes& changes) const {
    return changes.none() && file_.evaluated == entry_.evaluated;
  }

  // All that would be refused; images and networks are made ready.
  [[nodiscard]] std::vector<Error> make_ready(const Changes& changes) {
    if (!changes.errors.empty()) return changes.errors;
    Loaded part = file_;
    part.run.experiment = only_new(changes);
    if (part.run.experiment.trials.empty()) return {};
    return combu::make_ready(session_, part, run_options_of(entry_.options), prepared_);
  }

  // Nobody else is at work on the run. It is on record as it was, or as it is from here on; what is to be
  // stopped is for who goes on with it. `may`: throws Error when somebody else is at work on it after all.
  void revise(const Changes& changes, const std::function<void()>& may) {
    const std::vector<Past> past = record_.past(entry_.id);
    Edition edition{.source = file_.source,
                    .evaluated = file_.evaluated,
                    .digests = prepared_.digests,
                    .references = prepared_.references,
                    .taken = changes.taken,
                    .at = real_clock().now()};
    for (const TrialIndex trial : changes.out) {
      if (is_alive(past[trial].state)) {
        edition.leaving.emplace_back(trial, Leaving::removed);
      } else {
        edition.ends.push_back({.trial = trial,
                                .state = TrialState::stopped,
                                .attempt = past[trial].attempt,
                                .cause = Cause::stopped,
                                .reason = std::string(reason_of(Leaving::removed)),
                                .at = edition.at});
      }
    }
    for (const TrialIndex trial : changes.again) {
      if (is_alive(past[trial].state)) {
        edition.leaving.emplace_back(trial, Leaving::replaced);
      } else {
        edition.again.push_back(trial);
      }
    }
    record_.revise(entry_.id, edition, changes.experiment, may);
  }

 private:
  Session& session_;
  Record& record_;
  RunEntry entry_;
  const Loaded& file_;
  const ApplyOptions& options_;
  Prepared prepared_;
};

int refuse(Session& session, const std::vector<Error>& errors) {
  session.progress().end();
  for (const Error& error : errors) session.progress().error(error.what());
  session.progress().note("nothing was changed");
  return exit_code(errors);
}

// From where it stands, as `run --resume` does.
int go_on(Session& session, Record& record, const RunId& run, const RunOptions& options, AtWork& work) {
  Loaded loaded = load(record, run);
  const RunEntry entry = record.run(run);
  forgive(loaded.run.experiment, entry);
  if (entry.ended_at) return any_failed(record.past(run)) ? 1 : 0;
  const Standing standing{.past = record.past(run), .working_since = entry.working_since};
  return execute(session, record, loaded, options, Earlier::refuse, work,
                 [&](const Prepared& /*prepared*/) { return std::optional(standing); });
}

// The run is this process's alone: another one that is at work on it has brought it to a rest, and goes on
// when what is returned is gone; nullptr: there is none.
std::unique_ptr<ControlClient> take_over(Session& session, const RunEntry& entry, const Loaded& file,
                                         AtWork& work) {
  if (process_at_work(entry.id, file.caller)) session.progress().phase("waiting for the starts in flight");
  const Instant end = real_clock().now() + k_hand_over_patience;
  while (true) {
    const bool is_others = process_at_work(entry.id, file.caller).has_value();
    try {
      if (is_others) {
        auto other = std::make_unique<ControlClient>(channel_path(entry.id, file.caller));
        other->take_over(session.stop());
        session.progress().phase("changing the run");
        return other;
      }
      work.begin(session, file, run_options_of(entry.options));
      return nullptr;
    } catch (const Error& error) {
      // Somebody else may be changing it, and a process may be about to begin, or to end.
      const bool may_pass = is_others || error.kind() == ErrorKind::conflict;
      if (error.kind() == ErrorKind::cancelled || !may_pass || real_clock().now() >= end) throw;
    }
    real_clock().wait(k_hand_over_look, session.stop());
  }
}

int tell_unchanged(Session& session, const RunId& run) {
  session.progress().note(fmt::format("run {}: the file has not changed", run.text()));
  return 0;
}

// While it still waits, a process that lives holds the run's lock.
int leave_to_other(Session& session, Record& record, const RunId& run, const Caller& caller) {
  const RunEntry entry = record.run(run);
  if (entry.ended_at || process_at_work(run, caller)) return 0;
  session.progress().error(nobody_at_work(entry, session.given_engine()).what());
  return 1;
}

int apply(Session& session, Record& record, const RunEntry& entry, const Loaded& file,
          const ApplyOptions& options, AtWork& work) {
  expect_its_engine(session, entry);
  Apply apply(session, record, entry, file, options);
  Changes changes = apply.compare();
  if (apply.is_on_record(changes)) return tell_unchanged(session, entry.id);
  if (const auto errors = apply.make_ready(changes); !errors.empty()) return refuse(session, errors);
  std::unique_ptr<ControlClient> other;
  for (bool is_ready = false; !is_ready;) {
    const std::vector<Trial> ready = only_new(changes).trials;
    other = take_over(session, entry, file, work);
    if (!other) take_in(session, record, entry.id, Intake::all);
    // What has happened since counts.
    changes = apply.compare();
    if (apply.is_on_record(changes)) return tell_unchanged(session, entry.id);
    is_ready = has_all(ready, only_new(changes).trials);
    if (is_ready) continue;
    // That may take long: the run goes on meanwhile.
    is_ready = !std::exchange(other, nullptr);
    if (const auto errors = apply.make_ready(changes); !errors.empty()) return refuse(session, errors);
  }
  apply.revise(changes, [&] {
    if (!other) return;
    try {
      other->expect_the_run();
    } catch (const Error& error) {
      throw Error(error.kind(), "run " + entry.id.text(),
                  error.message() + "; nothing was changed: the same command tries again");
    }
  });
  tell(session.progress(), entry.id, changes);
  if (other) return leave_to_other(session, record, entry.id, file.caller);
  return go_on(session, record, entry.id, run_options_of(entry.options), work);
}

int apply(const Invocation& invocation, const ApplyOptions& options, const Background* background) {
  AtWork work(background);
  auto progress = work.share(open_progress(invocation));
  Record record = open_record(invocation);
  const RunEntry newest = find_run_at_work(record, invocation, options.run);
  const RunEntry entry = record.run(newest.id);
  expect_values(entry, invocation);
  const auto file = load(invocation, entry.id, *progress);
  if (!file) return 2;
  if (file->run.experiment.name != entry.experiment)
    throw Error(ErrorKind::invalid, invocation.file,
                fmt::format("is of the experiment {} now, and the run of {}; `run` begins one of its own",
                            file->run.experiment.name, entry.experiment));
  return work.done(in_session(on_its_engine(invocation, entry), std::move(progress), [&](Session& session) {
    return apply(session, record, entry, *file, options, work);
  }));
}

}  // namespace

void add_apply(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command(
      "apply", "Take an edited file into a run: new trials join it, removed ones stop, the rest goes on");
  const auto options = std::make_shared<ApplyOptions>();
  command.add_flag("--replace", options->replace,
                   "Run those anew that have changed and been started; else they are told and left");
  add_detach_option(command, options->detach);
  command.add_option("RUN", options->run, "Its id; else the newest of the file's that somebody is at work on")
      .type_name("");
  command.footer("Example:\n  combu -f experiment.jsonnet apply");
  command.callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const auto body = [&](const Background* background) { return apply(invocation, *options, background); };
      return options->detach ? in_background(body) : body(nullptr);
    };
  });
}

}  // namespace combu
