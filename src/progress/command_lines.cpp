// Shell commands that combu suggests to the user.

#include <fmt/format.h>

#include <string>

#include "combu/progress.hpp"
#include "combu/text.hpp"

namespace combu {

std::string command_line(const Experiment& experiment, std::string_view command, std::string_view engine) {
  const std::string program = engine.empty() ? "combu" : fmt::format("combu --engine {}", shell_word(engine));
  if (!experiment.file.ends_with("/-"))
    return fmt::format("{} -f {} {}", program, shell_word(experiment.file), command);
  return fmt::format("{} {} --experiment {}", program, command, shell_word(experiment.name));
}

std::string resume_line(const RunId& run, std::string_view engine) {
  return fmt::format("combu {}run --resume {}",
                     engine.empty() ? "" : fmt::format("--engine {} ", shell_word(engine)), run.text());
}

}  // namespace combu
