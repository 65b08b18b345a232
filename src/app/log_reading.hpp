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
[[nodiscard]] std::optional<StoredLog> find_readable(std::optional<Telemetry>& telemetry,
                                                     const std::string& folder, const Key& key);

// If the log is read from its beginning and has gaps, prints a note about the gaps.
void note_gaps(const StoredLog& log, const LogOptions& wanted, LogSink& sink);

// Passes the stored log to the sink, beginning at `place`. Returns false if the reader of the output has
// closed the pipe.
[[nodiscard]] bool read_stored(Telemetry& telemetry, const Key& key, const StoredLog& log,
                               const LogOptions& wanted, LogPlace& place, LogSink& sink);

// True if `left` is older than `right`. If a trial has several attempts, in one run or in several runs,
// commands use the newest attempt.
[[nodiscard]] bool is_older(const Observation& left, const Observation& right);

// True if the error means that the engine is unreachable, or was unreachable for a moment.
[[nodiscard]] bool is_absence(const Error& error);

// Maximum number of readings in a row that may fail because the engine is unreachable.
inline constexpr int k_log_cuts_max = 60;
// Pause between two readings of a log that grows.
inline constexpr Seconds k_follow_pause{1};

// Passes the log of an attempt to the sink. If `wanted.follow` is set, continues until the log ends. Reads
// the stored log if the stored log is complete or the container is gone. Otherwise reads the log from the
// engine. Returns false if the reader of the output has closed the pipe. Throws Error.
[[nodiscard]] bool read_attempt(Session& session, const Caller& caller, const Key& key,
                                const LogOptions& wanted, LogSink& sink);

}  // namespace combu
