#include "cli/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

#include "combu/agent.hpp"
#include "combu/docker.hpp"
#include "combu/kubernetes.hpp"
#include "combu/simulated.hpp"
#include "combu/text.hpp"
#include "combu/workers.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

constexpr std::string_view k_simulated = "simulated:";

std::unique_ptr<Engine> open_engine(EngineName& name) {
  name.address = name.given;
  if (name.given.starts_with(k_simulated)) return open_simulated(parse_simulation(name.given));
  if (names_cluster(name.given)) {
    const ClusterPlace place = find_cluster(environment, name.given);
    name.address = place.address;
    name.source = place.source;
    return place.open();
  }
  const DockerEndpoint place = find_docker(environment, name.given);
  name.address = place.address.text();
  name.source = place.source;
  return open_docker(place, {.gpus = [address = name.address] { return configured_gpus(address); }});
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

// Called on the signal thread. Writes without stdio, because another thread may hold stdio's locks.
void leave(Progress& progress, bool as_json) {
  progress.end();
  constexpr std::string_view k_line = "combu: ended at once by the second signal\n";
  if (!as_json) (void)!::write(STDERR_FILENO, k_line.data(), k_line.size());
}

}  // namespace

std::unique_ptr<Progress> open_progress(const Invocation& invocation) {
  return make_progress(parse_progress_form(invocation.progress), stderr);
}

// A session with the objects that the session refers to.
struct CommandSessions::Opened {
  Opened(CommandSessions& command, const Invocation& invocation)
      : sessions(command),
        interrupts([&progress = *command.progress_, is_json = invocation.progress == "json"] {
          leave(progress, is_json);
        }),
        trace(open_trace(invocation.trace)),
        name{.address = {}, .given = invocation.engine},
        engine(open_engine(name)),
        traced(trace.is_open() ? with_trace(*engine, real_clock(), trace) : nullptr),
        supervised(with_supervision(traced ? *traced : *engine, agent::program_for)),
        with_workers(combu::with_workers(*supervised, agent::program_for)),
        session(*command.progress_, *with_workers, name, interrupts.token()) {}
  ~Opened() { sessions.signal_ = interrupts.signal(); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  CommandSessions& sessions;
  Interrupts interrupts;
  std::ofstream trace;
  EngineName name;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Engine> traced;
  std::unique_ptr<Engine> supervised;
  std::unique_ptr<Engine> with_workers;
  Session session;
};

std::shared_ptr<Session> CommandSessions::open(const Invocation& invocation) {
  const auto opened = std::make_shared<Opened>(*this, invocation);
  engine_ = opened->name;
  invocation_ = invocation;
  return {opened, &opened->session};
}

int CommandSessions::exit_code(Result result) const {
  return combu::exit_code(result, signal_);
}

int CommandSessions::exit_code(const Error& error) {
  progress_->end();
  if (error.kind() == ErrorKind::cancelled && signal_ != 0) return exit_code(Result::interrupted);
  progress_->error(error_line(error, engine_));
  const bool is_unreachable = error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::timeout;
  if (is_unreachable && engine_.given.empty())
    if (const std::string hint = note_of_other_engine(invocation_, engine_.address); !hint.empty())
      progress_->error(hint);
  return exit_code(result_of(error.kind()));
}

int in_session(const Invocation& invocation, const std::function<Result(Session&)>& body) {
  CommandSessions sessions(open_progress(invocation));
  try {
    // The session ends with this statement: the session's destructor stores the signal that exit_code()
    // needs.
    const Result result = body(*sessions.open(invocation));
    return sessions.exit_code(result);
  } catch (const Error& error) {
    return sessions.exit_code(error);
  }
}

NamedEngine named_engine(const std::string& given) {
  if (given.empty()) return NamedEngine::none;
  if (!given.starts_with(k_simulated)) return NamedEngine::real;
  return given == k_simulated ? NamedEngine::any_simulated : NamedEngine::simulated;
}

std::string address_given(const Invocation& invocation) {
  switch (invocation.named_engine) {
    case NamedEngine::none:
    case NamedEngine::any_simulated:
      return "";
    case NamedEngine::simulated:
      return invocation.engine;
    case NamedEngine::real:
      break;
  }
  if (names_cluster(invocation.engine)) return find_cluster(environment, invocation.engine).address;
  return find_docker(environment, invocation.engine).address.text();
}

std::string error_line(const Error& error, const EngineName& engine) {
  if (error.kind() != ErrorKind::unavailable && error.kind() != ErrorKind::timeout)
    return fmt::format("combu: {}", error.what());
  const std::string source = engine.source.empty() ? "" : fmt::format(" (from {})", engine.source);
  const std::string line =
      fmt::format("combu: no engine at {}{}: {}", error.subject(), source, error.message());
  if (names_cluster(engine.given))
    return fmt::format(
        "{}; run `combu --engine {} doctor`, or choose another context with --engine "
        "kubernetes:CONTEXT",
        line, shell_word(engine.given));
  return line + "; run `combu doctor`, or choose another engine with --engine or DOCKER_HOST";
}

int exit_code(Result result, int signal) {
  switch (result) {
    case Result::succeeded:
      return 0;
    case Result::failed:
      return 1;
    case Result::invalid:
      return 2;
    case Result::no_engine:
      return 3;
    case Result::interrupted:
      break;
  }
  return 128 + (signal == 0 ? SIGINT : signal);
}

int exit_code(ErrorKind kind) {
  return exit_code(result_of(kind), 0);
}

}  // namespace combu
