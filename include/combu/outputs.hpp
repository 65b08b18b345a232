#pragma once
// Outputs come home: the files that trials leave, from an engine's archive streams into a place of the
// person's own.

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

// One thing of a trial's outputs. Paths are relative to the trial's place and cannot leave it.
struct OutputEntry {
  enum class Kind { folder, file, symbolic_link, hard_link };
  Kind kind = Kind::file;
  std::string path;    // the bytes of its name, whatever they mean
  std::string target;  // of a symbolic link whatever it says, of a hard link an earlier file's path
  unsigned mode = 0;   // its permissions
  Instant modified{};
  std::int64_t size = 0;  // of a file: as many bytes are written after it
};

// What one trial leaves, on its way into a depot. Belongs to one thread. Where it goes without close(),
// nothing is there that looks whole and is not. Everything throws Error: invalid (what is to be written has
// no place there, and would have none at the next try), refused (no room, no rights), unavailable (nobody
// answers), cancelled; the subject is where it was to go.
class OutputWriter {
 public:
  virtual ~OutputWriter() = default;
  // Folders above it are made where they are missing.
  virtual void add(const OutputEntry& entry) = 0;
  // The next bytes of the file that was added last.
  virtual void write(std::string_view bytes) = 0;
  // When it returns, all is in its place and survives a crash of the machine; what an earlier attempt of the
  // trial had left there is gone. `manifest`: what sha256sum -c reads; where it is, all is. Returns why
  // something of the earlier attempt could not be removed, for a person; empty: nothing of it stays.
  virtual std::string close(const std::string& manifest) = 0;
};

// What an equal trial has left is to be a trial's own.
struct Sharing {
  std::string trial;
  std::string from;  // the place of the other one: an absolute path, or s3://…
};

// Where outputs come home to. May be used from many threads.
class OutputStore {
 public:
  virtual ~OutputStore() = default;
  // Whether all that a trial has left is at `place`, as Sharing::from. Throws Error.
  [[nodiscard]] virtual bool is_whole(const std::string& place) = 0;
  // Of each why it could not be done, also where somebody has changed it since; empty: all that the other
  // one has left is there, with its manifest, as after OutputWriter::close().
  [[nodiscard]] virtual std::vector<std::string> share(std::span<const Sharing> wanted) = 0;
  // A folder on this machine in which what the trial has left at `path` is where it is in the trial's place.
  // What has to be brought there first stays for as long as this, or until the trial leaves something else.
  // Throws Error: refused, cancelled.
  [[nodiscard]] virtual std::string fetch(const std::string& trial, const std::string& path,
                                          const std::stop_token& stop) = 0;
  // What content_digest() gives of that where it can be told without bringing it here; nullopt: it cannot.
  // Throws Error as fetch() does; refused also where there is nothing at `path`.
  [[nodiscard]] virtual std::optional<std::string> digest(const std::string& /*trial*/,
                                                          const std::string& /*path*/,
                                                          const std::stop_token& /*stop*/) {
    return std::nullopt;
  }
  // `place`: a trial, or partial_place() of it. One for each place at a time. `stop` ends what takes long.
  [[nodiscard]] virtual std::unique_ptr<OutputWriter> open(const std::string& place,
                                                           const std::stop_token& stop) = 0;
  // All that is in `place`. Nothing there is success. Throws Error.
  virtual void remove(const std::string& place) = 0;
  // Whether anything has come home to it.
  [[nodiscard]] virtual bool holds_any() = 0;
};

// Where that stands which a trial's attempt had left when it still ran. No trial is called like that.
[[nodiscard]] std::string partial_place(const std::string& trial);

inline constexpr std::string_view k_manifest_name = "manifest.sha256";
// Beside it, in places that hold nothing but files: JSON lines of folders, links, odd names and programs. One
// that names itself has all files that may be executed.
inline constexpr std::string_view k_entries_name = "manifest.entries";

// Whose the files are to be; only root can give them to another.
struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// FOLDER/PLACE/…, with the manifest in it; made when the first parcel is opened. `folder`: an absolute path.
// A symbolic link in it is refused. All belongs to `owner`, or else to who runs this process, who may read
// and write it whatever its permissions were. A parcel writes to FOLDER/.PLACE.unfinished until close();
// without close() the earlier outputs stay. Shared files are clones or links where the file system has these,
// else copies.
[[nodiscard]] std::unique_ptr<OutputStore> open_folder(const std::string& folder,
                                                       std::optional<Owner> owner = std::nullopt);

// `place`: "s3://BUCKET[/PREFIX]". PREFIX/TRIAL/… in the bucket, with the manifest in it, which is removed
// before anything else changes there and written last. Permissions and times are in the objects' metadata
// (`mode`, `mtime`), folders and links in k_entries_name. Server and keys are looked for when a parcel is
// opened, as the AWS tools find them: keys that are good for an hour can be replaced during a run. What is
// fetched goes to a folder of its own in $TMPDIR, else /var/tmp, a file at a time where they are large, and
// goes on where it was cut; a server that is away is waited for, up to some minutes.
[[nodiscard]] std::unique_ptr<OutputStore> open_s3(const std::string& place, const Caller& caller,
                                                   Clock& clock = real_clock());
// Throws Error(refused or unavailable) unless something can be brought there: no keys, or wrong ones, no such
// bucket, no right to write into it. Leaves nothing there.
void check_s3(const std::string& place, const Caller& caller, const std::stop_token& stop,
              Clock& clock = real_clock());

// What has been done by anybody whose outputs come to the same bucket: a small object for each, by a key that
// equal trials have. May be used from many threads. Throws Error.
class SharedCacheIndex {
 public:
  struct Mark {
    std::string key;
    std::string place;    // where what it has left is, as Sharing::from
    RunId run;            // whose that is
    std::string trial;    // valid by fault_of_trial_name()
    std::string version;  // of what is there: it may be replaced
    std::string told_at;  // the address of what told() reads
  };

  virtual ~SharedCacheIndex() = default;
  // nullopt: nobody has done it, or what that has left is not there any more, or is something else by now.
  // Throws Error(corrupt) for a marker that combu cannot have written.
  [[nodiscard]] virtual std::optional<Mark> find(const std::string& key, const std::stop_token& stop) = 0;
  // The size of the telemetry that was stored with the mark; nullopt if it is missing.
  [[nodiscard]] virtual std::optional<Bytes> size_told(const Mark& mark, const std::stop_token& stop) = 0;
  // The telemetry that was stored with the mark; nullopt if it is missing. Throws Error(corrupt) if it is
  // larger than `size_max`.
  [[nodiscard]] virtual std::optional<std::string> told(const Mark& mark, Bytes size_max,
                                                        const std::stop_token& stop) = 0;
  // `place` is whole. Of several who say so the first one stays, for as long as its place is, and what it has
  // told where something has to be; one that combu cannot have written is replaced. `told` is asked for where
  // it is needed; empty: nothing.
  virtual void put(const std::string& key, const std::string& place, const std::function<std::string()>& told,
                   bool has_to_tell, const std::stop_token& stop) = 0;
};
// Below PLACE/.combu/done and PLACE/.combu/told. `place`: as for open_s3(), above those of all runs.
[[nodiscard]] std::unique_ptr<SharedCacheIndex> open_s3_cache_index(const std::string& place,
                                                                    const Caller& caller,
                                                                    Clock& clock = real_clock());

struct CollectionResult {
  std::size_t files = 0;
  Bytes size;
  std::vector<std::string> left;  // devices, sockets and pipes, by all their names: nobody can take them home
  std::string unremoved;          // OutputWriter::close()
};

// Takes the outputs of an attempt home, each to its own path below the trial's place (`/out/a` to
// TRIAL/out/a). Throws Error and has changed nothing then: invalid when the attempt is at fault (a required
// output that is not there, one that is too large; its path is the subject), not_found when the attempt is
// gone, refused when the depot has no room, unavailable and others of `engine`.
CollectionResult collect_outputs(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop);

// The same of an attempt that still runs, below partial_place(): each file as it is when the engine reads it,
// and none of them is required.
CollectionResult collect_partial(Engine& engine, const Key& key, const std::vector<Output>& outputs,
                                 OutputStore& output_store, const std::stop_token& stop);

}  // namespace combu
