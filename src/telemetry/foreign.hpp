#pragma once
// Untrusted telemetry of one attempt, packed by another combu process. Packed telemetry is untrusted because
// combu reads it from a bucket that other users can write to.

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "combu/database.hpp"
#include "combu/telemetry.hpp"

namespace combu::telemetry {

// The name of the only trial in a packed database. The number of the only attempt in a packed database is
// k_adopted.
inline constexpr const char* k_packed_name = "it";

// Maximum total size of all packs of a log, uncompressed. The limit bounds the time to decompress small
// frames with large content. packed() accepts only logs whose texts have at most half this size, because each
// piece of a log also has a header.
inline constexpr std::int64_t k_foreign_log_max = 4LL << 30U;

class ForeignAttempt {
 public:
  // Opens `image`, the bytes of an SQLite file, and checks the type and range of every value, the order of
  // rows, and the sizes of packs. Needs memory for the image and for one pack of the log. Throws
  // Error(corrupt) with an empty subject if a check fails, and Error(cancelled) once `stop` requests a stop.
  ForeignAttempt(std::string image, const database::Schema& schema, std::stop_token stop);

  [[nodiscard]] const StoredLog& log() const { return log_; }
  // Copies the packs, series and points of the image to the attempt number `attempt` of the database `to`.
  // The caller must have opened a transaction on `to`. Throws the same Errors as the constructor, and
  // SQLite::Exception if writing to `to` fails.
  void copy_to(SQLite::Database& to, std::int64_t attempt);

 private:
  struct Series {
    std::int64_t number = 0;
    std::string metric;
    std::int64_t points = 0;
    double last = 0;
    double least = 0;
    double greatest = 0;
  };

  void read_attempt(SQLite::Database& database);
  void check_packs(SQLite::Database& database);
  void read_series(SQLite::Database& database);
  void check_points(SQLite::Database& database);

  std::stop_token stop_;
  database::Foreign image_;
  std::int64_t number_ = 0;  // number of the attempt in the image
  StoredLog log_;
  std::vector<Series> series_;
};

}  // namespace combu::telemetry
