#pragma once
// Receives the logs of attempts while combu reads them.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "combu/engine.hpp"

namespace combu {

// Receives the log of one attempt, or the logs of a trial's attempts one after the other.
class LogSink {
 public:
  LogSink() = default;
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
  virtual ~LogSink() = default;

  // Receives a piece of a stream. The piece continues the stream's previous piece. Returns false if the
  // reader of the output has closed the pipe.
  [[nodiscard]] virtual bool put(LogStream stream, std::string_view piece) = 0;
  // Ends the log of an attempt: outputs its last line if this line has no newline yet.
  virtual void flush() = 0;
  // Shows a remark about the log. Returns false if the reader of the output has closed the pipe.
  [[nodiscard]] virtual bool note(const std::string& text) = 0;
};

enum class LogsOf { one_trial, several_trials };
// Opens the sink of a trial's log. With LogsOf::several_trials, the output mixes the lines of several trials.
using OpenLogSink = std::function<std::unique_ptr<LogSink>(const std::string& trial, LogsOf of)>;

}  // namespace combu
