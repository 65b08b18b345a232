#include "combu/engine.hpp"

namespace combu {

std::unique_ptr<ByteStream> Engine::exec(const Key& key, const std::vector<std::string>& /*argv*/,
                                         std::stop_token /*stop*/) {
  throw Error(ErrorKind::refused, key.trial, "the engine cannot run a further program in a container");
}

}  // namespace combu
