#pragma once
// Reads the log of one attempt: from what is kept of it, or from the engine.

#include <optional>
#include <string>

#include "app/log_place.hpp"
#include "app/log_sink.hpp"
#include "combu/session.hpp"
#include "combu/telemetry.hpp"
#include "combu/workspace.hpp"

namespace combu {

// What is kept of this attempt, in `telemetry`, which is opened where it is not. nullopt: nothing, or it
// cannot be read.
[[nodiscard]] std::optional<KeptLog> find_readable(std::optional<Telemetry>& telemetry,
                                                   const std::string& folder, const Key& key);

// Notes the gaps of a log that is wanted from its beginning.
void note_gaps(const KeptLog& log, const LogOptions& wanted, LogSink& sink);

// Passes on what is kept of it from `place` on. False: the reader has gone.
[[nodiscard]] bool read_kept(Telemetry& telemetry, const Key& key, const KeptLog& log,
                             const LogOptions& wanted, LogPlace& place, LogSink& sink);

// Of several runs and attempts of a trial the newest is meant.
[[nodiscard]] bool is_older(const Observation& left, const Observation& right);

// True for the error of an engine that is away, or was for a moment.
[[nodiscard]] bool is_absence(const Error& error);

// Of the readings of an engine that goes away again and again and answers in between: the most that fail in
// a row.
inline constexpr int k_log_cuts_max = 60;
// Between two readings.
inline constexpr Seconds k_follow_pause{1};

// Passes on the log of an attempt, and follows it to its end if that is wanted: from what is kept of it where
// that is whole, or where there is no container of it any more; else from the engine. False: the reader has
// gone. Throws Error.
[[nodiscard]] bool read_attempt(Session& session, const Caller& caller, const Key& key,
                                const LogOptions& wanted, LogSink& sink);

}  // namespace combu
