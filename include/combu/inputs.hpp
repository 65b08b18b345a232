#pragma once
// Inputs: files and folders of this machine that combu copies into a container, and digests of their content.

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

// COLLECT/EXPERIMENT/RUN, the folder for the outputs of a run. Each trial has a subfolder there. A path, or
// "s3://…".
[[nodiscard]] std::string results_folder(const Experiment& experiment, const RunId& run);
// The same folder as a path in which no folder above EXPERIMENT is a symbolic link.
[[nodiscard]] std::string resolved_results_folder(const Experiment& experiment, const RunId& run,
                                                  const HostPaths& host_paths);

// Returns a folder on this machine that holds output `path` of `trial` at the same relative path.
using WhereLeft = std::function<std::string(const std::string& trial, const std::string& path)>;
// Replaces Input::from of each input by a path on this machine without symbolic links. For a file of the
// user, the path comes from `host_paths`. Links in outputs of another trial are resolved as in the container
// that wrote them, and cannot lead out of these outputs. Throws Error(refused) if an output is missing, and
// the exceptions of `where`.
void find_inputs(Trial& trial, const HostPaths& host_paths, const WhereLeft& where);

// Resolves the symbolic links in `path`, an absolute path. Parts that do not exist stay unchanged.
[[nodiscard]] std::string resolved(const std::string& path);
// The resolved paths of all inputs that are the user's files, and of Collect::to if that is a folder.
[[nodiscard]] HostPaths resolved_host_paths(const Experiment& experiment);

// The owner of an input in its container: the trial's user if that is a number ("1000", "1000:1000"),
// otherwise root.
struct InputOwner {
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  bool operator==(const InputOwner&) const = default;
};
[[nodiscard]] InputOwner input_owner(const Trial& trial);

// The following functions read inputs. Input::from must be a path on this machine, even if Input::trial is
// set. They never follow symbolic links: a link in the path `from` is refused, and a link inside a folder
// stays a link. They block. Throws Error(refused) if an entry cannot be read, is neither file, folder nor
// link, or changed its kind after its folder was listed. Exceptions of `tell` pass through. If `tell` returns
// false, the call ends.

// Packs the inputs into one tar archive and passes it to `tell` in pieces; the archive is never in memory as
// a whole. The archive must be unpacked at the container's root: `from` becomes `to`, with its permissions
// and times. Folders above `to` are not included. Returns the content_digest() of each input; nullopt if
// `tell` returned false.
std::optional<std::vector<std::string>> pack_inputs(const std::vector<Input>& inputs, const InputOwner& owner,
                                                    const std::function<bool(std::string_view)>& tell);

// The content of each file of one input, by its path in the container. Larger files are cut after `most`
// bytes. Links are omitted. Also throws Error(cancelled).
[[nodiscard]] std::map<std::string, std::string> read_input(const Input& input, Bytes most,
                                                            const std::stop_token& stop = {});

// "sha256:…" of the content of an input, which is a file or a folder. The digest covers names, bytes (as
// their own sha256), link targets, and whether a file is executable. It does not cover times, owners or the
// input's own path. Also throws Error(cancelled).
[[nodiscard]] std::string content_digest(const Input& input, const std::stop_token& stop = {});

// The properties of a file, folder or link that its digest covers.
struct LeftThing {
  enum class Kind { folder, file, link };
  Kind kind = Kind::folder;
  std::string text = {};    // file: its sha256 in hexadecimal digits; symbolic link: its target
  bool is_program = false;  // file: it is executable
};
// The order of a depth-first traversal: a folder comes before its content, and siblings are sorted by bytes.
struct ByParts {
  using is_transparent = void;
  bool operator()(std::string_view one, std::string_view other) const;
};
// Outputs of a trial that are not on this machine, by path below the trial's folder ("out/a"). Includes all
// folders.
using Left = std::map<std::string, LeftThing, ByParts>;
// Returns the digest that content_digest(input) would return for the downloaded output. Throws Error(refused)
// if the output does not exist.
[[nodiscard]] std::string content_digest(const Left& left, const std::string& trial, const std::string& path);

}  // namespace combu
