#include "cli/load.hpp"

#include <fmt/format.h>

#include <utility>

#include "cli/identity.hpp"
#include "combu/jsonnet.hpp"

namespace combu {
namespace {

// "k=v", or "k" alone for the environment's k, as jsonnet has it.
Evaluation::Pairs pairs(const std::vector<std::string>& given, std::string_view option,
                        const Caller& caller) {
  Evaluation::Pairs pairs;
  for (const std::string& text : given) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (name.empty())
      throw Error(ErrorKind::invalid, std::string(option), fmt::format("'{}' has no name", text));
    if (equals != std::string::npos) {
      pairs.emplace_back(name, text.substr(equals + 1));
      continue;
    }
    auto value = caller.env(name);
    if (!value)
      throw Error(ErrorKind::invalid, std::string(option),
                  fmt::format("{} is not in the environment; {} {}=VALUE gives it", name, option, name));
    pairs.emplace_back(name, std::move(*value));
  }
  return pairs;
}

Evaluation evaluation_of(const Invocation& invocation, const RunId& run, const Caller& caller) {
  return {.file = invocation.file,
          .run = run,
          .ext_str = pairs(invocation.ext_str, "--ext-str", caller),
          .ext_code = pairs(invocation.ext_code, "--ext-code", caller),
          .tla_str = pairs(invocation.tla_str, "--tla-str", caller),
          .tla_code = pairs(invocation.tla_code, "--tla-code", caller),
          .import_dirs = invocation.import_dirs,
          .memory_max = bytes_option("--evaluate-memory", invocation.evaluate_memory),
          .time_max = duration_option("--evaluate-time", invocation.evaluate_time)};
}

std::string file_error_line(const std::string& file, const Error& error) {
  const std::string name = file == "-" ? "<stdin>" : file;
  const std::string text = error.what();
  return text.starts_with(name + ":") ? text : fmt::format("{}: {}", name, text);
}

}  // namespace

std::optional<Loaded> load(const Invocation& invocation, const RunId& run, Progress& progress) {
  if (invocation.file.empty())
    throw Error(ErrorKind::invalid, "", "no experiment is given: combu -f experiment.jsonnet …");
  Loaded loaded{.run = {.id = run, .experiment = {}}, .plan = {}, .caller = caller_of(invocation.file)};
  const Evaluation evaluation = evaluation_of(invocation, run, loaded.caller);

  std::vector<Error> errors;
  try {
    const auto slow = [&] { progress.phase(fmt::format("evaluating {}", invocation.file)); };
    Reading reading = read_experiment(evaluate(evaluation, slow).json, loaded.caller);
    loaded.run.experiment = std::move(reading.experiment);
    Planning planning = make_plan(loaded.run.experiment);
    loaded.plan = std::move(planning.plan);
    errors = std::move(reading.errors);
    errors.insert(errors.end(), planning.errors.begin(), planning.errors.end());
  } catch (const Error& error) {
    errors.push_back(error);
  }
  progress.end();
  for (const Error& error : errors) progress.error(file_error_line(invocation.file, error));
  if (!errors.empty()) return std::nullopt;
  return loaded;
}

}  // namespace combu
