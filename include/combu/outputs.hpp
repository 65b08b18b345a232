#pragma once
// Outputs come home: the files that trials leave, from an engine's archive streams into a place of the
// person's own.

#include <cstddef>
#include <cstdint>
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
  std::string target;  // of a symbolic link whatever it says, of a hard link another entry's path
  unsigned mode = 0;   // its permissions
  Instant modified{};
};

// What one trial leaves, on its way into a depot. Belongs to one thread. Where it goes without close(), all
// is as it was before. Everything throws Error(refused): no room, no rights; the subject is a path.
class Parcel {
 public:
  virtual ~Parcel() = default;
  // Folders above it are made where they are missing.
  virtual void add(const OutputEntry& entry) = 0;
  // The next bytes of the file that was added last.
  virtual void write(std::string_view bytes) = 0;
  // When it returns, all is in its place and survives a crash of the machine; what an earlier attempt of the
  // trial had left there is gone. `manifest`: what sha256sum -c reads.
  virtual void close(const std::string& manifest) = 0;
};

// What an equal trial has left is to be a trial's own.
struct Sharing {
  std::string trial;
  std::string from;  // the place of the other one: an absolute path
};

// Where outputs come home to. May be used from many threads.
class Depot {
 public:
  virtual ~Depot() = default;
  // Of each why it could not be done; empty: all that the other one's manifest names is there, with the
  // manifest, as after Parcel::close().
  [[nodiscard]] virtual std::vector<std::string> share(std::span<const Sharing> wanted);
  // One for each trial at a time.
  [[nodiscard]] virtual std::unique_ptr<Parcel> open(const std::string& trial) = 0;
};

inline constexpr std::string_view k_manifest_name = "manifest.sha256";

// Whose the files are to be; only root can give them to another.
struct Owner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// FOLDER/TRIAL/…, with the manifest in it; made when the first parcel is opened. All belongs to `owner`, or
// else to who runs this process, who may read and write it whatever its permissions were. What is under way
// is in FOLDER/.TRIAL.unfinished. What is shared takes no room of its own where the file system can do that:
// a clone of each file, or a link to it; and is copied elsewhere.
[[nodiscard]] std::unique_ptr<Depot> open_folder(const std::string& folder,
                                                 std::optional<Owner> owner = std::nullopt);

struct Taken {
  std::size_t files = 0;
  Bytes size;
  std::vector<std::string> left;  // devices, sockets and pipes, which nobody can take home
};

// Takes the outputs of an attempt home, each to its own path below the trial's place (`/out/a` to
// TRIAL/out/a). Throws Error and has changed nothing then: invalid when the attempt is at fault (a required
// output that is not there, one that is too large; its path is the subject), not_found when the attempt is
// gone, refused when the depot has no room, unavailable and others of `engine`.
Taken take_home(Engine& engine, const Key& key, const std::vector<Output>& outputs, Depot& depot,
                const std::stop_token& stop);

}  // namespace combu
