#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "cli/commands.hpp"
#include "cli/execution.hpp"
#include "cli/recorded.hpp"
#include "combu/control.hpp"

namespace combu {
namespace {

constexpr std::size_t k_stops_in_flight = 32;
constexpr std::size_t k_names_told = 5;

struct ApplyOptions {
  std::string run;
  bool replace = false;
  bool detach = false;
};

using Names = std::unordered_set<std::string>;

// What the edited file means to the run.
struct Changes {
  Experiment experiment;            // as the run has it from here on; what joins is behind what was there
  std::size_t joined = 0;           // trials that join
  std::vector<TrialIndex> taken;    // are as the file says now
  std::vector<TrialIndex> again;    // wait again, for a new attempt
  std::vector<TrialIndex> out;      // are not in the file any more, and were not over
  std::vector<std::string> left;    // have changed, and run or are over
  std::vector<TrialIndex> to_stop;  // of `again` and `out`: they run

  [[nodiscard]] bool none() const { return joined == 0 && taken.empty() && out.empty() && left.empty(); }
};

bool runs(TrialState state) {
  return state == TrialState::starting || state == TrialState::running;
}

bool has_begun(TrialState state) {
  return runs(state) || (is_over(state) && state != TrialState::blocked);
}

Names names_in(const std::string& evaluated, const Caller& caller) {
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
  Named named{.latest = names_in(entry.evaluated, caller), .ever = {}};
  named.ever = named.latest;
  for (const std::string& earlier : entry.earlier) named.ever.merge(names_in(earlier, caller));
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
    take_blocked_again();
    for (const auto* some : {&changes_.out, &changes_.again})
      std::ranges::copy_if(*some, std::back_inserter(changes_.to_stop),
                           [this](TrialIndex trial) { return runs(past_[trial].state); });
    return std::move(changes_);
  }

 private:
  void compare(TrialIndex trial) {
    Trial& it = changes_.experiment.trials[trial];
    const auto found = in_file_.find(it.name);
    if (found == in_file_.end()) {
      leave_out(it);
      if (!is_over(past_[trial].state)) changes_.out.push_back(trial);
      return;
    }
    const bool returns = !named_.latest.contains(it.name);
    if (!returns && same_but_for_pull(it, *found->second)) return;
    const TrialState state = past_[trial].state;
    if (!returns && has_begun(state) && !replace_) {
      changes_.left.push_back(it.name);
      return;
    }
    it = *found->second;
    changes_.taken.push_back(trial);
    if (returns || has_begun(state) || state == TrialState::blocked) changes_.again.push_back(trial);
  }

  // What is on record is not pulled again.
  static bool same_but_for_pull(Trial one, Trial other) {
    for (Trial* trial : {&one, &other})
      if (trial->pull == Pull::always) trial->pull = Pull::missing;
    return same(std::move(one), std::move(other));
  }

  void take_blocked_again() {
    const std::unordered_set<TrialIndex> again(changes_.again.begin(), changes_.again.end());
    for (TrialIndex trial = 0; trial < past_.size(); ++trial) {
      const Past& it = past_[trial];
      if (it.state == TrialState::blocked && it.root && again.contains(*it.root) && !again.contains(trial))
        changes_.again.push_back(trial);
    }
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
  const auto shown = static_cast<std::ptrdiff_t>(std::min(changes.left.size(), k_names_told));
  const auto more = changes.left.size() - static_cast<std::size_t>(shown);
  progress.note(fmt::format(
      "run {}: changed, but left as {}: {}{}; `apply --replace` runs {} anew", run.text(),
      changes.left.size() == 1 ? "it is, since it has been started"
                               : "they are, since they have been started",
      fmt::join(changes.left.begin(), changes.left.begin() + shown, ", "),
      more > 0 ? fmt::format(" and {} more", more) : "", changes.left.size() == 1 ? "it" : "them"));
}

class Apply {
 public:
  Apply(Session& session, Record& record, RunEntry entry, const Loaded& file, const ApplyOptions& options)
      : session_(session), record_(record), entry_(std::move(entry)), file_(file), options_(options) {}

  // What the file means as the run stands now.
  [[nodiscard]] Changes compare() const {
    const Loaded before = load(record_, entry_.id);
    return Comparison(before.run.experiment, record_.past(entry_.id), named_until_now(entry_, file_.caller),
                      file_.run.experiment, options_.replace)
        .changes(file_.run.experiment);
  }

  // All that would be refused; images and networks are made ready.
  [[nodiscard]] std::vector<Error> make_ready(const Changes& changes) {
    std::vector<Error> errors = make_plan(changes.experiment).errors;
    if (!errors.empty()) return errors;
    Loaded part = file_;
    part.run.experiment = only_new(changes);
    if (part.run.experiment.trials.empty()) return {};
    return combu::make_ready(session_, part, run_options_of(entry_.options), prepared_);
  }

  // Nobody is at work on the run.
  void revise(const Changes& changes) {
    stop(changes);
    const Instant now = real_clock().now();
    record_.revise(entry_.id,
                   {.source = file_.source,
                    .evaluated = file_.evaluated,
                    .digests = prepared_.digests,
                    .taken = changes.taken},
                   changes.experiment);
    if (!changes.again.empty() || (entry_.ended_at && changes.joined > 0))
      record_.reopen(entry_.id, changes.again, now);
  }

 private:
  // Those that run are stopped, and those that are left out are over.
  void stop(const Changes& changes) {
    const std::vector<Past> past = record_.past(entry_.id);
    const auto key = [&](TrialIndex trial) {
      return Key{entry_.id, changes.experiment.trials[trial].name, past[trial].attempt};
    };
    in_parallel(changes.to_stop.size(), k_stops_in_flight, [&](std::size_t i) {
      session_.engine().stop(key(changes.to_stop[i]), std::nullopt, session_.stop());
    });
    Selector selector{.experiment = entry_.experiment, .run = entry_.id};
    for (const TrialIndex trial : changes.to_stop)
      selector.trials.push_back(changes.experiment.trials[trial].name);
    std::unordered_map<std::string, std::optional<int>> exit_codes;
    if (!changes.to_stop.empty())
      for (const Sighting& seen : session_.engine().list(selector, Look::closely, session_.stop()))
        exit_codes.emplace(seen.key.trial, seen.exit_code);
    std::vector<Fact> facts;
    const auto end = [&](TrialIndex trial, const char* reason) {
      Fact& fact = facts.emplace_back(Fact{.trial = trial,
                                           .state = TrialState::stopped,
                                           .attempt = past[trial].attempt,
                                           .cause = Cause::stopped,
                                           .reason = reason,
                                           .at = real_clock().now()});
      if (runs(past[trial].state)) fact.exit_code = exit_codes[key(trial).trial];
    };
    for (const TrialIndex trial : changes.out) end(trial, "removed from the file");
    for (const TrialIndex trial : changes.again)
      if (runs(past[trial].state)) end(trial, "replaced by what the file says now");
    record_.append(entry_.id, facts);
  }

  Session& session_;
  Record& record_;
  const RunEntry entry_;
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

int apply(Session& session, Record& record, const RunEntry& entry, const Loaded& file,
          const ApplyOptions& options, AtWork& work) {
  expect_its_engine(session, entry);
  Apply apply(session, record, entry, file, options);
  Changes changes = apply.compare();
  if (changes.none() && file.evaluated == entry.evaluated) {
    session.progress().note(fmt::format("run {}: the file has not changed", entry.id.text()));
    return 0;
  }
  if (const auto errors = apply.make_ready(changes); !errors.empty()) return refuse(session, errors);
  std::unique_ptr<ControlClient> other;
  if (process_at_work(entry.id, file.caller)) {
    other = std::make_unique<ControlClient>(channel_path(entry.id, file.caller));
    session.progress().phase("waiting for the starts in flight");
    other->take_over(session.stop());
  } else {
    work.begin(session, file, run_options_of(entry.options));
  }
  // What has happened since counts.
  changes = apply.compare();
  apply.revise(changes);
  tell(session.progress(), entry.id, changes);
  if (other) return 0;
  return go_on(session, record, entry.id, run_options_of(entry.options), work);
}

int apply(const Invocation& invocation, const ApplyOptions& options, const Background* background) {
  AtWork work(background);
  auto progress = work.share(open_progress(invocation));
  Record record = open_record(invocation);
  const RunEntry newest = find_run_at_work(record, invocation, options.run);
  const RunEntry entry = record.run(newest.id);
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

void add_apply(CLI::App& app, const Invocation& invocation, Action& action) {
  CLI::App* command = app.add_subcommand(
      "apply", "Take an edited file into a run: new trials join it, removed ones stop, the rest goes on");
  const auto options = std::make_shared<ApplyOptions>();
  command->add_flag("--replace", options->replace,
                    "Run those anew that have changed and been started; else they are told and left");
  add_detach_option(*command, options->detach);
  command
      ->add_option("RUN", options->run, "Its id; else the newest of the file's that somebody is at work on")
      ->type_name("");
  command->footer("Example:\n  combu -f experiment.jsonnet apply");
  command->callback([&invocation, &action, options] {
    action = [&invocation, options] {
      const auto body = [&](const Background* background) { return apply(invocation, *options, background); };
      return options->detach ? in_background(body) : body(nullptr);
    };
  });
}

}  // namespace combu
