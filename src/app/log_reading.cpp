#include "app/log_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stop_token>

#include "app/run_telemetry.hpp"

namespace combu {
namespace {

// Returns the attempt's log in the telemetry database; nullopt if there is none. Opens `telemetry` if it is
// empty. Throws Error if the database cannot be read.
std::optional<StoredLog> find_stored(std::optional<Telemetry>& telemetry, const std::string& folder,
                                     const Key& key) {
  if (!Telemetry::exists(folder, key.run)) return std::nullopt;
  if (!telemetry) telemetry.emplace(folder, key.run, Telemetry::Use::reading);
  return telemetry->log(key.trial, key.attempt);
}

// Reads the log of one attempt from the engine and passes it to the sink. If `wanted.follow` is set,
// continues at `place`. Returns false if the reader of the output has closed the pipe.
bool read_live(Session& session, const Key& key, const LogOptions& wanted, LogPlace& place, LogSink& sink) {
  std::stop_source enough;
  const std::stop_callback on_stop(session.stop(), [&enough] { enough.request_stop(); });
  bool reader_has_gone = false;
  const auto on_piece = [&](const LogPiece& piece) {
    if (piece.is_after_gap) return note_gaps({.gaps = 1}, wanted, sink);
    const bool is_new = !wanted.follow || place.is_new(piece);
    if (reader_has_gone || !is_new || sink.put(piece.stream, piece.text)) return;
    reader_has_gone = true;
    enough.request_stop();
  };
  try {
    session.engine().logs(key, wanted.follow ? place.next(wanted) : wanted, on_piece, enough.get_token());
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::cancelled || !reader_has_gone) throw;
  }
  return !reader_has_gone;
}

// Follows the log until the attempt has ended. If the engine is unreachable, prints a note and waits. Returns
// false if the reader of the output has closed the pipe.
bool follow_live(Session& session, const Caller& caller, const Key& key, const LogOptions& wanted,
                 LogPlace& place, LogSink& sink) {
  const auto patient = session.patient_engine();
  for (int cuts = 0;;) {
    bool is_cut = false;
    try {
      if (!read_live(session, key, wanted, place, sink)) return false;
    } catch (const Error& error) {
      if (!is_absence(error) || cuts == k_log_cuts_max) throw;
      is_cut = true;
    }
    cuts = is_cut ? cuts + 1 : 0;
    // The stream also ends if the engine stops, so check whether the attempt still runs.
    const auto listed =
        patient->list({.run = key.run, .trials = {key.trial}}, ListDetail::consistent, session.stop());
    const bool lives = std::ranges::any_of(listed, [&](const Observation& seen) {
      const bool is_to_run =
          seen.phase == Phase::pending || (seen.phase == Phase::created && owner_pid(key.run, caller));
      return seen.key == key && (seen.phase == Phase::running || is_to_run);
    });
    if (!is_cut && !lives) return true;
    real_clock().wait(k_follow_pause, session.stop());
  }
}

}  // namespace

bool is_older(const Observation& left, const Observation& right) {
  if (left.created_at != right.created_at) return left.created_at < right.created_at;
  return left.key.attempt < right.key.attempt;
}

bool is_absence(const Error& error) {
  return error.kind() == ErrorKind::unavailable || error.kind() == ErrorKind::timeout;
}

std::optional<StoredLog> find_readable(std::optional<Telemetry>& telemetry, const std::string& folder,
                                       const Key& key) {
  try {
    return find_stored(telemetry, folder, key);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void note_gaps(const StoredLog& log, const LogOptions& wanted, LogSink& sink) {
  if (log.gaps == 0 || wanted.tail) return;
  (void)sink.note(gaps_text(log));
}

bool read_stored(Telemetry& telemetry, const Key& key, const StoredLog& log, const LogOptions& wanted,
                 LogPlace& place, LogSink& sink) {
  if (log.dropped.count > 0 && !wanted.tail && !place.has_begun())
    (void)sink.note(
        fmt::format("the first {} of its log were not stored (logs.max_size)", to_string(log.dropped)));
  const LogOptions rest = place.next(wanted);
  const auto tail = rest.tail ? std::optional(static_cast<std::size_t>(*rest.tail)) : std::nullopt;
  bool is_read = true;
  telemetry.read_log(key.trial, key.attempt, tail, [&](const LogPiece& piece) {
    const bool is_wanted = !rest.since || piece.at >= *rest.since;
    if (is_wanted && place.is_new(piece)) is_read = sink.put(piece.stream, piece.text);
    return is_read;
  });
  sink.flush();
  return is_read;
}

bool read_attempt(Session& session, const Caller& caller, const Key& key, const LogOptions& wanted,
                  LogSink& sink) {
  const std::string folder = state_folder(caller);
  LogPlace place;
  std::optional<Telemetry> telemetry;
  std::optional<StoredLog> kept = find_readable(telemetry, folder, key);
  if (kept) note_gaps(*kept, wanted, sink);
  if (kept && kept->complete) return read_stored(*telemetry, key, *kept, wanted, place, sink);
  try {
    const bool is_read = wanted.follow ? follow_live(session, caller, key, wanted, place, sink)
                                       : read_live(session, key, wanted, place, sink);
    if (is_read) sink.flush();
    return is_read;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_found) throw;
    kept = find_stored(telemetry, folder, key);
    if (!kept) throw;
  }
  const bool is_read = read_stored(*telemetry, key, *kept, wanted, place, sink);
  if (!kept->complete)
    (void)sink.note("the end of the log is missing: the container was removed before combu read it");
  return is_read;
}

}  // namespace combu
