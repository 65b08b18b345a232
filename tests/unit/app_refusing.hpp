#pragma once
// An engine that refuses calls, for tests of commands that end a run from outside.

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "passing_engine.hpp"

namespace combu::test {

// An engine whose calls fail with the given errors.
class Refusing final : public PassingEngine {
 public:
  using PassingEngine::PassingEngine;
  std::optional<Error> copy_out_fault;
  std::optional<Error> logs_fault;
  std::optional<Error> stop_fault;
  std::optional<Error> facts_fault;

  Facts facts(std::stop_token token) override {
    if (facts_fault) throw Error(*facts_fault);
    return PassingEngine::facts(token);
  }
  bool copy_out(const Key& key, const std::string& from,
                const std::function<void(std::string_view)>& on_bytes, std::stop_token token) override {
    if (copy_out_fault) throw Error(*copy_out_fault);
    return PassingEngine::copy_out(key, from, on_bytes, token);
  }
  void logs(const Key& key, const LogOptions& options, const OnLogPiece& on_piece,
            std::stop_token token) override {
    if (logs_fault) throw Error(*logs_fault);
    PassingEngine::logs(key, options, on_piece, token);
  }
  void stop(const Key& key, std::optional<Seconds> grace, std::stop_token token) override {
    if (stop_fault) throw Error(*stop_fault);
    PassingEngine::stop(key, grace, token);
  }
};

inline Error refusal(const std::string& why) {
  return {ErrorKind::refused, "engine", why};
}

}  // namespace combu::test
