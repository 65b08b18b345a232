#pragma once
// Inputs: files and folders of this machine on their way into a container, and what they hold.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "combu/spec.hpp"

namespace combu {

// COLLECT/EXPERIMENT/RUN, where the outputs of a run come home to: each trial has a folder of its own in
// there. A path, or "s3://…".
[[nodiscard]] std::string results_folder(const Experiment& experiment, const RunId& run);
// The same folder by a path in which no symbolic link is above EXPERIMENT.
[[nodiscard]] std::string resolved_results_folder(const Experiment& experiment, const RunId& run,
                                                  const HostPaths& host_paths);

// A folder on this machine that has what the trial has left at `path` where it is below the trial's own
// place.
using WhereLeft = std::function<std::string(const std::string& trial, const std::string& path)>;
// Replaces Input::from of each input by a path on this machine without a symbolic link. A file of the user's
// own is where `host_paths` says. A link in outputs of another trial is resolved as in the container that
// wrote it, and never leads out of them. Throws Error(refused) if the output is missing, and what `where`
// throws.
void find_inputs(Trial& trial, const HostPaths& host_paths, const WhereLeft& where);

// Where `path`, an absolute path, leads now. Names that do not exist stay as they are.
[[nodiscard]] std::string resolved(const std::string& path);
// The inputs of the user's own, and Collect::to if that is a folder.
[[nodiscard]] HostPaths resolved_host_paths(const Experiment& experiment);

// Whose an input is in its container: the user of the trial where that is a number ("1000", "1000:1000"),
// else root.
struct InputOwner {
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  bool operator==(const InputOwner&) const = default;
};
[[nodiscard]] InputOwner input_owner(const Trial& trial);

// For these: Input::from is a path on this machine, whatever Input::trial says. No symbolic link is followed:
// one on the way to `from` or in its place is refused, one in a folder stays a link. They block, and throw
// Error: refused where something cannot be read, is neither a file nor a folder nor a link, or has become
// something else since its folder was listed. Exceptions of `tell` pass through. If `tell` returns false, the
// call ends.

// One tar archive, piece by piece, to be unpacked at the container's root: what `from` holds is at `to`, with
// its permissions and times. Folders above `to` are not in it. Never whole in memory. Gives what
// content_digest() would have of each; nullopt: `tell` wanted no more before the end.
std::optional<std::vector<std::string>> pack_inputs(const std::vector<Input>& inputs, const InputOwner& owner,
                                                    const std::function<bool(std::string_view)>& tell);

// The files of one input by their paths in the container; of a larger one than `most` the beginning. Links
// are left out. Throws Error(cancelled), too.
[[nodiscard]] std::map<std::string, std::string> read_input(const Input& input, Bytes most,
                                                            const std::stop_token& stop = {});

// "sha256:…" of an input, a file or a folder: names, bytes (by their own sha256), where links lead, and
// whether a file may be executed. Neither times nor owners nor the path itself. Throws Error(cancelled), too.
[[nodiscard]] std::string content_digest(const Input& input, const std::stop_token& stop = {});

// What a digest tells of a thing.
struct LeftThing {
  enum class Kind { folder, file, link };
  Kind kind = Kind::folder;
  std::string text = {};    // of a file its sha256 in hexadecimal digits, of a symbolic link where it leads
  bool is_program = false;  // a file that may be executed
};
// Paths as a walk comes by them: a folder before what it holds, neighbours in the order of their bytes.
struct ByParts {
  using is_transparent = void;
  bool operator()(std::string_view one, std::string_view other) const;
};
// What a trial has left that is not on this machine, by the path below its place ("out/a"). All folders are
// in it.
using Left = std::map<std::string, LeftThing, ByParts>;
// The same digest of what find_inputs() would find, were it here. Throws Error(refused): it is not there.
[[nodiscard]] std::string content_digest(const Left& left, const std::string& trial, const std::string& path);

}  // namespace combu
