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
  std::string path;    // raw bytes, in any encoding
  std::string target;  // symbolic link: the link's text; hard link: the path of an earlier file
  unsigned mode = 0;   // permission bits
  Instant modified{};
  std::int64_t size = 0;  // file: the number of bytes that the caller writes after add()
};

// Writes the outputs of one trial to an OutputStore. Belongs to one thread. If a writer is destroyed
// without close(), the store does not report its incomplete outputs as complete.
// All functions throw Error, with the destination as subject:
// - invalid: the outputs cannot be stored there, and a retry would fail, too;
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
  // outputs of an earlier attempt. `manifest`: the text for k_manifest_name, in the format of `sha256sum -c`.
  // The outputs are complete if and only if the manifest exists. Returns why a part of the earlier outputs
  // could not be removed, as a message for the user; empty if all were removed.
  virtual std::string close(const std::string& manifest) = 0;
};

// A request to reuse the outputs of an equal trial for `trial`.
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
  // Makes the outputs of other trials available as outputs of this run's trials. Returns a text for each
  // element of `wanted`: why sharing failed, also if the outputs differ from their manifest. Empty: the
  // outputs and their manifest are stored as after OutputWriter::close().
  [[nodiscard]] virtual std::vector<std::string> share(std::span<const Sharing> wanted) = 0;
  // Returns a folder on this machine that holds the trial's output `path` at the same relative path.
  // Downloads the output if necessary. Downloaded files stay until the store is destroyed or the trial's
  // outputs are replaced. Throws Error: refused, cancelled.
  [[nodiscard]] virtual std::string fetch(const std::string& trial, const std::string& path,
                                          const std::stop_token& stop) = 0;
  // Returns content_digest() of the trial's output `path`; nullopt if that needs a download. Throws Error
  // like fetch(), and Error(refused) if `path` does not exist.
  [[nodiscard]] virtual std::optional<std::string> digest(const std::string& /*trial*/,
                                                          const std::string& /*path*/,
                                                          const std::stop_token& /*stop*/) {
    return std::nullopt;
  }
  // Returns a writer for `place`: a trial's name, or partial_place() of that name. Only one writer may exist
  // for a place at a time. `stop` cancels slow operations.
  [[nodiscard]] virtual std::unique_ptr<OutputWriter> open(const std::string& place,
                                                           const std::stop_token& stop) = 0;
  // Removes everything in `place`. Succeeds if nothing is there. Throws Error.
  virtual void remove(const std::string& place) = 0;
  // True if any outputs were collected to this store.
  [[nodiscard]] virtual bool holds_any() = 0;
};

// The place of outputs that combu collected while the trial was still running. No trial can have this name.
[[nodiscard]] std::string partial_place(const std::string& trial);

inline constexpr std::string_view k_manifest_name = "manifest.sha256";
// Beside the manifest, in buckets: JSON lines that describe folders, links, names that are not UTF-8, and
// executable files. If the list has an entry for itself, the list names every executable file.
inline constexpr std::string_view k_entries_name = "manifest.entries";

// Owner of the files. Only root can set an owner other than itself.
struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Stores outputs in FOLDER/PLACE/…, with the manifest inside. `folder`: an absolute path; combu creates it
// when the first writer opens. Symbolic links in that path are refused.
// All files belong to `owner`, or to the user of this process by default. The owner may always read and write
// them, whatever permissions the files had in the container. A writer writes to FOLDER/.PLACE.unfinished
// until close(). Without close(), the earlier outputs stay. share() makes clones or hard links if the file
// system supports them, and copies otherwise.
[[nodiscard]] std::unique_ptr<OutputStore> open_folder(const std::string& folder,
                                                       std::optional<Owner> owner = std::nullopt);

// Stores outputs in a bucket, under PREFIX/TRIAL/…, with the manifest inside. `place`:
// "s3://BUCKET[/PREFIX]". A writer removes the old manifest before any other change and writes the new one
// last. Permissions and times are metadata of the objects (`mode`, `mtime`). Folders and links are in
// k_entries_name.
// combu looks up server and keys as the AWS tools do, each time that a writer opens. So keys that expire
// after an hour can be replaced during a run.
// fetch() downloads to a new folder in $TMPDIR, or /var/tmp if TMPDIR is not set. It downloads large files
// one at a time and resumes interrupted downloads. If the server is unavailable, fetch() retries for some
// minutes.
[[nodiscard]] std::unique_ptr<OutputStore> open_s3(const std::string& place, const Caller& caller,
                                                   Clock& clock = real_clock());
// Throws Error(refused or unavailable) unless combu can write to the bucket. Causes are missing or wrong
// keys, a missing bucket, or no write permission. Leaves nothing in the bucket.
void check_s3(const std::string& place, const Caller& caller, const std::stop_token& stop,
              Clock& clock = real_clock());

// Cache entries (marks) of all users whose outputs go to the same bucket: a small object for each cache key.
// Equal trials have the same key. May be used from many threads. All functions throw Error.
class SharedCacheIndex {
 public:
  struct Mark {
    std::string key;
    std::string place;    // the folder of the trial's outputs, as Sharing::from
    RunId run;            // the run of that trial
    std::string trial;    // valid by fault_of_trial_name()
    std::string version;  // identifies the content of `place`, which may be replaced
    std::string told_at;  // the address of the object that told() reads
  };

  virtual ~SharedCacheIndex() = default;
  // Looks up `key`. nullopt: no entry, or the trial's outputs were removed or replaced. Throws Error(corrupt)
  // if combu cannot have written the entry.
  [[nodiscard]] virtual std::optional<Mark> find(const std::string& key, const std::stop_token& stop) = 0;
  // The size of the telemetry that was stored with the mark; nullopt if it is missing.
  [[nodiscard]] virtual std::optional<Bytes> size_told(const Mark& mark, const std::stop_token& stop) = 0;
  // The telemetry that was stored with the mark; nullopt if it is missing. Throws Error(corrupt) if it is
  // larger than `size_max`.
  [[nodiscard]] virtual std::optional<std::string> told(const Mark& mark, Bytes size_max,
                                                        const std::stop_token& stop) = 0;
  // Records that the outputs at `place` are complete. Does nothing if a valid entry exists, so the first
  // writer wins. If `has_to_tell` is set, an entry without telemetry is replaced, too. Replaces an entry that
  // combu cannot have written. `told` returns the telemetry to store, or an empty string for none; it is
  // called only if needed.
  virtual void put(const std::string& key, const std::string& place, const std::function<std::string()>& told,
                   bool has_to_tell, const std::stop_token& stop) = 0;
};
// Keeps the entries below PLACE/.combu/done and their telemetry below PLACE/.combu/told. `place`: as for
// open_s3(), but the common parent of all runs.
[[nodiscard]] std::unique_ptr<SharedCacheIndex> open_s3_cache_index(const std::string& place,
                                                                    const Caller& caller,
                                                                    Clock& clock = real_clock());

struct CollectionResult {
  std::size_t files = 0;
  Bytes size;
  std::vector<std::string> left;  // every path of devices, sockets and pipes, which combu cannot collect
  std::string unremoved;          // the return value of OutputWriter::close()
};

// Collects the outputs of an attempt. Each output keeps its path below the trial's folder (`/out/a` becomes
// TRIAL/out/a). If the call throws, the store does not report incomplete outputs as complete. Throws Error:
// - invalid: the attempt is at fault: a required output is missing or an output is too large. The subject is
// the output's path;
// - not_found: the attempt no longer exists;
// - refused: the store has no space;
// - unavailable, and other errors of `engine`.
CollectionResult collect_outputs(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop);

// Like collect_outputs() for an attempt that still runs, but to partial_place(). Files are copied as they are
// when the engine reads them. Missing outputs are no error.
CollectionResult collect_partial(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop);

}  // namespace combu
