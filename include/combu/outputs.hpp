#pragma once
// Outputs: files that trials write. combu collects them from the engine's tar streams into a results folder
// or a bucket.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/engine.hpp"
#include "combu/spec.hpp"

namespace combu {

// One entry of a trial's outputs. Paths are relative to the trial's folder and never lead out of it.
struct OutputEntry {
  enum class Kind { folder, file, symbolic_link, hard_link };
  Kind kind = Kind::file;
  std::string path;    // the entry's path: raw bytes in any encoding
  std::string target;  // for a symbolic link, the stored target; for a hard link, the path of an earlier file
  unsigned mode = 0;   // permission bits
  Instant modified{};
  std::int64_t size = 0;  // for a file, the number of bytes that the caller writes after add()
};

// Writes the outputs of one trial to an OutputStore. Only one thread may use a writer. If a writer is
// destroyed without close(), the store does not report its incomplete outputs as complete.
// All functions throw Error, with the destination as subject:
// - invalid: the destination cannot store these outputs, so a retry would fail, too;
// - refused: no space or no permission;
// - unavailable: the server does not answer;
// - cancelled.
class OutputWriter {
 public:
  virtual ~OutputWriter() = default;
  // Creates missing parent folders.
  virtual void add(const OutputEntry& entry) = 0;
  // Appends `bytes` to the file that was added last.
  virtual void write(std::string_view bytes) = 0;
  // Completes the outputs. When close() returns, the outputs survive a crash of the machine and replace the
  // outputs of an earlier attempt. `manifest`: the content of the file k_manifest_name, in the format of
  // `sha256sum -c`. The outputs are complete if and only if the manifest exists. Returns a message for the
  // user if a part of the earlier outputs could not be removed; otherwise an empty string.
  virtual std::string close(const std::string& manifest) = 0;
};

// A request to use the outputs of another, equal trial as the outputs of `trial`.
struct Sharing {
  std::string trial;
  std::string from;  // the folder of the equal trial's outputs: an absolute path, or s3://…
};

// The place where the outputs of a run are stored. May be used from many threads.
class OutputStore {
 public:
  virtual ~OutputStore() = default;
  // True if all outputs of a trial are at `place`, a folder as in Sharing::from. Throws Error.
  [[nodiscard]] virtual bool is_whole(const std::string& place) = 0;
  // Makes the outputs of other trials available as outputs of this run's trials. Returns one text for each
  // element of `wanted`. The text is empty on success: the outputs and their manifest are then stored as
  // after OutputWriter::close(). If sharing failed, the text says why, for example that the outputs differ
  // from their manifest.
  [[nodiscard]] virtual std::vector<std::string> share(std::span<const Sharing> wanted) = 0;
  // Returns a folder on this machine that contains the trial's output `path`. For example, the output
  // "/out/a" is at FOLDER/out/a if fetch() returns FOLDER. Downloads the output if necessary. Downloaded
  // files stay until the store is destroyed or the trial's outputs are replaced. Throws Error(refused) or
  // Error(cancelled).
  [[nodiscard]] virtual std::string fetch(const std::string& trial, const std::string& path,
                                          const std::stop_token& stop) = 0;
  // Returns content_digest() of the trial's output `path`; nullopt if computing the digest needs a download.
  // Throws Error like fetch(), and Error(refused) if `path` does not exist.
  [[nodiscard]] virtual std::optional<std::string> digest(const std::string& /*trial*/,
                                                          const std::string& /*path*/,
                                                          const std::stop_token& /*stop*/) {
    return std::nullopt;
  }
  // Returns a writer for `place`: a trial's name, or partial_place() of that name. Only one writer may exist
  // for a place at a time. `stop` cancels slow operations.
  [[nodiscard]] virtual std::unique_ptr<OutputWriter> open(const std::string& place,
                                                           const std::stop_token& stop) = 0;
  // Removes everything in `place`. Also succeeds if `place` holds nothing. Throws Error.
  virtual void remove(const std::string& place) = 0;
  // True if any outputs were collected to this store.
  [[nodiscard]] virtual bool holds_any() = 0;
};

// Returns the place for outputs that combu collects while the trial is still running. No trial can have the
// same name as a place for partial outputs.
[[nodiscard]] std::string partial_place(const std::string& trial);

inline constexpr std::string_view k_manifest_name = "manifest.sha256";
// In a bucket, the object of this name is next to the manifest. JSON lines in the object describe folders,
// links, names that are not UTF-8, and executable files. If one of the lines describes the object itself, the
// lines describe all executable files; otherwise lines of executable files may be missing.
inline constexpr std::string_view k_entries_name = "manifest.entries";

// Owner of the files. Only a process of root can give files to another user.
struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Returns a store that keeps the outputs of each place in FOLDER/PLACE, together with their manifest.
// `folder` is an absolute path; combu creates the folder when the first writer is opened. combu refuses
// symbolic links in the path. All files belong to `owner`, or to the user of this process by default. The
// owner may always read and write the files, whatever permissions they had in the container. Until close(), a
// writer writes to FOLDER/.PLACE.unfinished. If a writer is destroyed without close(), the outputs of the
// earlier attempt stay. If the file system supports clones or hard links, share() makes these; otherwise
// share() copies the files.
[[nodiscard]] std::unique_ptr<OutputStore> open_folder(const std::string& folder,
                                                       std::optional<Owner> owner = std::nullopt);

// Returns a store that keeps the outputs of each trial in a bucket, below PREFIX/TRIAL, together with their
// manifest. `place`: "s3://BUCKET[/PREFIX]". A writer removes the old manifest before any other change and
// writes the new manifest last. Permissions and times are metadata of the objects (`mode`, `mtime`). The
// object k_entries_name describes folders and links. Each time a writer is opened, combu looks up the server
// and the access keys as the AWS tools do. So access keys that expire after an hour can be replaced during a
// run. The function fetch() downloads to a new folder in $TMPDIR, or /var/tmp if TMPDIR is not set. Large
// files are downloaded one at a time, and interrupted downloads are resumed. If the server is unavailable,
// fetch() retries for some minutes.
[[nodiscard]] std::unique_ptr<OutputStore> open_s3(const std::string& place, const Caller& caller,
                                                   Clock& clock = real_clock());
// Throws Error(refused or unavailable) unless combu can write to the bucket. Causes of Error(refused) are
// missing or wrong access keys, a missing bucket, or a missing write permission. The check leaves nothing in
// the bucket.
void check_s3(const std::string& place, const Caller& caller, const std::stop_token& stop,
              Clock& clock = real_clock());

// The cache entries ("marks") of all users who collect outputs to the same bucket. Each cache entry is a
// small object for one cache key. Equal trials have the same cache key. May be used from many threads. All
// functions throw Error.
class SharedCacheIndex {
 public:
  struct Mark {
    std::string key;
    std::string place;         // the folder of the cached trial's outputs, in the form of Sharing::from
    RunId run;                 // the run of the cached trial
    std::string trial;         // a name that fault_of_trial_name() accepts
    std::string version;       // identifies the content of `place`, which may be overwritten later
    std::string telemetry_at;  // the address of the object with the telemetry, which telemetry() reads
  };

  virtual ~SharedCacheIndex() = default;
  // Looks up `key`. Returns nullopt if there is no entry, or if the trial's outputs were removed or replaced.
  // Throws Error(corrupt) if the entry has content that combu never writes.
  [[nodiscard]] virtual std::optional<Mark> find(const std::string& key, const std::stop_token& stop) = 0;
  // Returns the size of the telemetry that was stored with the cache entry `mark`; nullopt if the telemetry
  // is missing.
  [[nodiscard]] virtual std::optional<Bytes> telemetry_size(const Mark& mark,
                                                            const std::stop_token& stop) = 0;
  // Returns the telemetry that was stored with the cache entry `mark`; nullopt if the telemetry is missing.
  // Throws Error(corrupt) if the telemetry is larger than `size_max`.
  [[nodiscard]] virtual std::optional<std::string> telemetry(const Mark& mark, Bytes size_max,
                                                             const std::stop_token& stop) = 0;
  // Writes a cache entry for `key`, which says that the complete outputs are at `place`. Does nothing if a
  // valid entry exists, so the first writer wins. If `needs_telemetry` is set, put() also replaces an entry
  // without telemetry. put() also replaces an entry with content that combu never writes. `telemetry` returns
  // the telemetry to store, or an empty string if there is none. put() calls `telemetry` only if an entry
  // must be written.
  virtual void put(const std::string& key, const std::string& place,
                   const std::function<std::string()>& telemetry, bool needs_telemetry,
                   const std::stop_token& stop) = 0;
};
// Stores cache entries below PLACE/.combu/done, and their telemetry below PLACE/.combu/told. `place` has the
// same form as for open_s3(), but names the common parent folder of all runs.
[[nodiscard]] std::unique_ptr<SharedCacheIndex> open_s3_cache_index(const std::string& place,
                                                                    const Caller& caller,
                                                                    Clock& clock = real_clock());

struct CollectionResult {
  std::size_t files = 0;
  Bytes size;
  std::vector<std::string> left;  // paths of devices, sockets and pipes, which combu cannot collect
  std::string unremoved;          // the message that OutputWriter::close() returned
};

// Collects the outputs of an attempt. Each output keeps its path below the trial's folder (`/out/a` becomes
// TRIAL/out/a). If the call throws, the store does not report incomplete outputs as complete. Throws Error:
// - invalid, with the output's path as subject: a required output is missing, or an output is too large;
// - not_found: the attempt no longer exists;
// - refused: the store has no space;
// - unavailable, and other errors of `engine`.
CollectionResult collect_outputs(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop);

// Like collect_outputs(), but collects from an attempt that still runs, and stores the outputs in
// partial_place(). A file is copied with the content that the file has while the engine reads it. A missing
// output is not an error.
CollectionResult collect_partial(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop);

}  // namespace combu
