#pragma once
// Reads the log of one attempt from the telemetry database or from the engine.

#include <optional>
#include <string>

#include "app/log_place.hpp"
#include "app/log_sink.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {

// Returns the attempt's log in the telemetry database; nullopt if there is none, or if the database cannot be
// read. Opens `telemetry` if it is empty.
[[nodiscard]] std::optional<KeptLog> find_readable(std::optional<Telemetry>& telemetry,
                                                   const std::string& folder, const Key& key);

// Prints a note about gaps in the log if the log is wanted from its beginning.
void note_gaps(const KeptLog& log, const LogOptions& wanted, LogSink& sink);

// Passes on the stored log from `place` on. Returns false if the reader has closed its end.
[[nodiscard]] bool read_kept(Telemetry& telemetry, const Key& key, const KeptLog& log,
                             const LogOptions& wanted, LogPlace& place, LogSink& sink);

// Orders attempts by age. If a trial has several runs and attempts, a command means the newest.
[[nodiscard]] bool is_older(const Observation& left, const Observation& right);

// True if the error means that the engine is unreachable, or was so for a moment.
[[nodiscard]] bool is_absence(const Error& error);

// Maximum number of readings that may fail in a row if an engine is repeatedly unreachable.
inline constexpr int k_log_cuts_max = 60;
// Pause between two readings.
inline constexpr Seconds k_follow_pause{1};

// Passes on the log of an attempt, and follows it to its end if `wanted` says so. Reads the stored log if
// that is complete, or if the container is gone; otherwise reads from the engine. Returns false if the reader
// has closed its end. Throws Error.
[[nodiscard]] bool read_attempt(Session& session, const Caller& caller, const Key& key,
                                const LogOptions& wanted, LogSink& sink);

}  // namespace combu
