#pragma once
// The programs of images, and the agents for their platforms.

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "combu/engine.hpp"
#include "combu/workers.hpp"
#include "workers/container.hpp"

namespace combu::workers {

// Thread-safe.
class Images {
 public:
  explicit Images(AgentPrograms agents) : agents_(std::move(agents)) {}

  void set_program(const std::string& image, const std::string& platform, const ImageProgram& program) {
    const std::scoped_lock lock(mutex_);
    programs_.insert_or_assign({image, platform}, program);
  }
  // Returns nullopt if the trial's image was not prepared.
  [[nodiscard]] std::optional<ImageProgram> program_of(const Trial& trial) {
    const std::scoped_lock lock(mutex_);
    const auto found = programs_.find({trial.image, trial.platform});
    return found == programs_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] bool has_agent_for(std::string_view platform) const { return !agents_(platform).empty(); }
  // Returns the agent for the trial's image.
  [[nodiscard]] std::shared_ptr<const ProvidedProgram> agent_for(const Trial& trial) {
    const auto program = program_of(trial);
    const std::string platform = program ? program->platform : trial.platform;
    const std::scoped_lock lock(mutex_);
    auto& provided = provided_[platform];
    if (!provided)
      provided = std::make_shared<ProvidedProgram>(ProvidedProgram{.path = std::string(k_program),
                                                                   .content = std::string(agents_(platform)),
                                                                   .platform = platform,
                                                                   .folder = std::string(k_writable)});
    return provided;
  }

 private:
  const AgentPrograms agents_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, ImageProgram> programs_;    // by image and platform
  std::map<std::string, std::shared_ptr<const ProvidedProgram>> provided_;  // by platform
};

}  // namespace combu::workers
