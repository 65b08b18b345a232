#include "combu/engine.hpp"

namespace combu {

std::unique_ptr<ByteStream> Engine::exec(
    const Key& key, const std::vector<std::string>& /*argv*/,
    std::stop_token /*stop*/) {  // NOLINT(performance-unnecessary-value-param): as in the other functions
  throw Error(ErrorKind::refused, key.trial, "the engine cannot run a further program in a container");
}

}  // namespace combu
