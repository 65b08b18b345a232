#include <fmt/format.h>

#include <cstring>
#include <string>
#include <utility>

#include "combu/engine.hpp"

namespace combu {

SecretValue::SecretValue(std::string&& bytes) : bytes_(bytes.begin(), bytes.end()) {
  explicit_bzero(bytes.data(), bytes.size());
  bytes.clear();
}

SecretValue::~SecretValue() {
  if (!bytes_.empty()) explicit_bzero(bytes_.data(), bytes_.size());
}

RevealedSecrets reveal_secrets(const Run& run, const Trial& trial) {
  RevealedSecrets revealed;
  for (const Secret& secret : *trial.container.secrets) {
    if (secret.is_in_cluster) continue;
    const auto find = [&] { return run.secrets->find(secret.source); };
    if (!run.secrets || find() == run.secrets->end())
      throw Error(ErrorKind::refused, trial.name,
                  fmt::format("the value of the secret `{}` was not read; `run --resume` reads it",
                              shortened(secret.source)));
    const std::string_view value = find()->second.reveal();
    if (secret.target.empty()) {
      revealed.variables.emplace_back(secret.variable, value);
    } else {
      revealed.files.emplace_back(secret.target, value);
    }
  }
  return revealed;
}

}  // namespace combu
