#include "combu/database.hpp"

#include <fcntl.h>
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <system_error>

#include "combu/system.hpp"

namespace combu::database {
namespace {

constexpr int k_patience_ms = k_patience.count();
constexpr int k_primary = 0xff;  // mask that extracts SQLite's primary result code from an extended one:
                                 // https://www.sqlite.org/rescode.html

int newest(const Schema& schema) {
  return static_cast<int>(schema.steps.size());
}

int pragma(SQLite::Database& database, const char* name) {
  return database.execAndGet(fmt::format("PRAGMA {}", name)).getInt();
}

bool is_empty(SQLite::Database& database) {
  return database.execAndGet("SELECT count(*) FROM sqlite_master").getInt() == 0;
}

// Returns the schema version of the database, or 0 if the database is empty. Throws Error(invalid) if the
// database belongs to another program or was made by a newer version of combu.
int version_of(SQLite::Database& database, const std::string& path, const Schema& schema) {
  const int version = pragma(database, "user_version");
  if (is_empty(database)) return 0;
  if (pragma(database, "application_id") != schema.application_id)
    throw Error(ErrorKind::invalid, path,
                "is a database of another program; move it away, or name another folder with COMBU_HOME");
  if (version > newest(schema))
    throw Error(ErrorKind::invalid, path,
                fmt::format("was made by a newer combu (its schema version is {}, this combu supports {} at "
                            "most); use the newer combu, or name another folder with COMBU_HOME",
                            version, newest(schema)));
  return version;
}

// With OPEN_NOFOLLOW, SQLite also rejects a path whose folders include a symbolic link. Hence without_links()
// resolves the symbolic links in the path of the folder, but not in the name of the file.
std::string without_links(const std::string& path) {
  const std::filesystem::path name(path);
  std::error_code failed;
  const auto folder = std::filesystem::canonical(name.parent_path() / ".", failed);
  return failed ? path : (folder / name.filename()).string();
}

// Like is_private_file(), but also checks the three files that SQLite keeps beside the database, because
// SQLite reads these files without checking their owner. Returns false if the database file does not exist.
bool is_private(const std::string& path) {
  for (const char* suffix : {"-wal", "-shm", "-journal"}) (void)is_private_file(path + suffix);
  return is_private_file(path);
}

// The first process that sets WAL mode needs exclusive access to the file. SQLite's busy timeout does not
// apply to the change to WAL mode, so set_wal() retries.
void set_wal(SQLite::Database& database) {
  constexpr Seconds k_pause{0.01};
  const auto end = std::chrono::steady_clock::now() + k_patience;
  while (true) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (const SQLite::Exception& exception) {
      const bool is_busy = (exception.getErrorCode() & k_primary) == SQLITE_BUSY;
      if (!is_busy || std::chrono::steady_clock::now() >= end) throw;
    }
    real_clock().wait(k_pause, {});
  }
}

void upgrade(SQLite::Database& database, const std::string& path, const Schema& schema) {
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  // Reads the version again, because another process may have upgraded the database before the transaction
  // began.
  const int version = version_of(database, path, schema);
  for (const std::string_view step : schema.steps.subspan(static_cast<std::size_t>(version)))
    database.exec(std::string(step));
  database.exec(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", schema.application_id,
                            schema.steps.size()));
  transaction.commit();
}

}  // namespace

SQLite::Database open(const std::string& path, const Schema& schema) {
  return guarded(path, [&] {
    const bool exists = is_private(path);
    const std::string name = without_links(path);
    // Checks the version before the file is opened for writing, so that an unsuitable file stays unchanged.
    if (exists) {
      SQLite::Database existing(name, SQLite::OPEN_READONLY | SQLite::OPEN_NOFOLLOW, k_patience_ms);
      (void)version_of(existing, path, schema);
    } else {
      // SQLite gives the files that it creates beside the database the mode and owner of the database file.
      (void)open_private_file(path, O_RDWR | O_CREAT);
    }
    // Only one thread uses the connection. With SQLite's own mutexes, a tenth of the time of a large listing
    // would be spent on locking.
    SQLite::Database database(name, SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX | SQLite::OPEN_NOFOLLOW,
                              k_patience_ms);
    // In WAL mode with `synchronous = NORMAL`, a commit that has returned survives the end of the process. A
    // crash of the machine may lose the last commits, but leaves the database consistent
    // (https://www.sqlite.org/pragma.html#pragma_synchronous).
    set_wal(database);
    database.exec("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 10000");
    if (version_of(database, path, schema) < newest(schema)) upgrade(database, path, schema);
    return database;
  });
}

SQLite::Database in_memory(const Schema& schema) {
  SQLite::Database database(":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX);
  upgrade(database, "", schema);
  return database;
}

namespace {

// Escapes a path for use in a URI.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char letter : path)
    text += letter == '%' || letter == '?' || letter == '#' ? fmt::format("%{:02X}", letter)
                                                            : std::string(1, letter);
  return text;
}

// Opens a database for reading only. The WAL file holds commits that are not yet in the database file. SQLite
// reads the WAL file only through the file PATH-shm, which SQLite creates if it is missing. Throws the error
// `why` if the WAL file holds commits, but SQLite cannot create PATH-shm. Also throws `why` if the database
// does not have the newest schema version.
SQLite::Database open_as_it_is(const std::string& path, const Schema& schema, const Error& why) {
  const auto open_as = [&](const std::string& name, int flags) {
    SQLite::Database database(
        name, SQLite::OPEN_READONLY | SQLite::OPEN_NOMUTEX | SQLite::OPEN_NOFOLLOW | flags, k_patience_ms);
    if (version_of(database, path, schema) < newest(schema)) throw Error(why);
    return database;
  };
  const std::string name = without_links(path);
  try {
    return open_as(name, 0);
  } catch (const SQLite::Exception&) {
    std::error_code none;
    const auto size = std::filesystem::file_size(path + "-wal", none);
    if (!none && size > 0) throw Error(why);
    return open_as(fmt::format("file:{}?immutable=1", escaped(name)), SQLite::OPEN_URI);
  }
}

}  // namespace

SQLite::Database open_to_read(const std::string& path, const Schema& schema) {
  std::error_code fault;
  if (!std::filesystem::exists(path, fault) && !fault)
    return guarded(path, [&] { return in_memory(schema); });
  try {
    return open(path, schema);
  } catch (const Error& error) {
    const bool is_looked_at = error.kind() == ErrorKind::refused || is_read_only(path);
    if (!is_looked_at || !std::filesystem::exists(path)) throw;
    return guarded(path, [&] { return open_as_it_is(path, schema, error); });
  }
}

void throw_as_error(const SQLite::Exception& exception, const std::string& path) {
  const std::string why = exception.what();
  switch (exception.getErrorCode() & k_primary) {
    case SQLITE_ERROR:  // the tables do not match the schema version
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      throw Error(ErrorKind::invalid, path,
                  fmt::format("is damaged ({}); move it away, so that combu makes a new one, or name another "
                              "folder with COMBU_HOME",
                              why));
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
      throw Error(ErrorKind::refused, path,
                  fmt::format("cannot be opened for reading and writing ({}); make its folder and disk "
                              "writable, or name another folder with COMBU_HOME",
                              why));
    case SQLITE_FULL:
      throw Error(ErrorKind::refused, path, "the disk is full");
    case SQLITE_BUSY:
      throw Error(ErrorKind::refused, path, "another process has been writing to it for too long");
    default:
      throw Error(ErrorKind::refused, path, fmt::format("cannot be used: {}", why));
  }
}

}  // namespace combu::database
