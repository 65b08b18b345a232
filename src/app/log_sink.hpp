#pragma once
// Takes the logs of attempts as they are read.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "combu/engine.hpp"

namespace combu {

// The log of one attempt, or of a trial's attempts one after the other.
class LogSink {
 public:
  LogSink() = default;
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
  virtual ~LogSink() = default;

  // `piece` continues the last one of its stream. False: the reader has gone.
  [[nodiscard]] virtual bool put(LogStream stream, std::string_view piece) = 0;
  // An attempt's log is over: passes on a last line that has no end.
  virtual void flush() = 0;
  // For a person: something about the log that is not in it. False: the reader has gone.
  [[nodiscard]] virtual bool note(const std::string& text) = 0;
};

enum class LogsOf { one_trial, several_trials };
// The sink of an attempt's log. `of`: several_trials: lines of other trials' logs stand between its lines.
using OpenLogSink = std::function<std::unique_ptr<LogSink>(const std::string& trial, LogsOf of)>;

}  // namespace combu
