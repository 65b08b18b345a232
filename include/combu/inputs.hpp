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

// Returns the folder for the outputs of a run, COLLECT/EXPERIMENT/RUN, as a path or as "s3://…". Each trial
// has a subfolder in the folder of the run.
[[nodiscard]] std::string results_folder(const Experiment& experiment, const RunId& run);
// Returns results_folder() as a path in which no folder above EXPERIMENT is a symbolic link.
[[nodiscard]] std::string resolved_results_folder(const Experiment& experiment, const RunId& run,
                                                  const HostPaths& host_paths);

// Returns a folder on this machine that contains the output `path` of `trial`. For example, the output
// "/out/a" is at FOLDER/out/a if the function returns FOLDER.
using LocateOutput = std::function<std::string(const std::string& trial, const std::string& path)>;
// Replaces Input::from of each input by a path on this machine that contains no symbolic links. For an input
// from the user's files, the path comes from `host_paths`. Symbolic links in outputs of another trial are
// resolved as in that trial's container, and are never followed out of these outputs. Throws Error(refused)
// if an output is missing, and passes on the exceptions of `where`.
void find_inputs(Trial& trial, const HostPaths& host_paths, const LocateOutput& where);

// Resolves the symbolic links in the absolute path `path`. Parts of the path that do not exist stay
// unchanged.
[[nodiscard]] std::string resolved(const std::string& path);
// Maps the path of each input from the user's files, and Collect::to if it is a folder, to resolved(path).
[[nodiscard]] HostPaths resolved_host_paths(const Experiment& experiment);

// The owner of an input in its container: the trial's `user` if it is numeric, such as "1000" or "1000:1000",
// otherwise root.
struct InputOwner {
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  bool operator==(const InputOwner&) const = default;
};
[[nodiscard]] InputOwner input_owner(const Trial& trial);

// pack_inputs(), read_input() and content_digest() read inputs, and block. Input::from must be a path on this
// machine, even if Input::trial is set. The functions never follow symbolic links: a link in the path `from`
// is an error, and a link inside a folder stays a link. All three functions throw Error(refused) if an entry
// cannot be read, or is neither file, folder nor link. They also throw if an entry changed its kind after its
// folder was listed. Exceptions of `sink` pass through. If `sink` returns false, the function returns.

// Packs the inputs into one tar archive and passes the archive to `sink` in pieces; the archive is never in
// memory as a whole. The archive must be unpacked at the container's root. Unpacking creates each Input::from
// at the path Input::to, with its permissions and times. The archive does not contain the folders above
// Input::to. `files`: further files of the archive, from absolute paths to contents; everybody may read them.
// Returns the content_digest() of each input; nullopt if `sink` has returned false.
std::optional<std::vector<std::string>> pack_inputs(const std::vector<Input>& inputs, const InputOwner& owner,
                                                    const std::function<bool(std::string_view)>& sink,
                                                    const std::map<std::string, std::string>& files = {});

// Returns a map from the path of each file of an input, as in the container, to the file's content. If a file
// is larger than `most` bytes, reads only its first `most` bytes. Omits symbolic links. Also throws
// Error(cancelled) if `stop` requests a stop.
[[nodiscard]] std::map<std::string, std::string> read_input(const Input& input, Bytes most,
                                                            const std::stop_token& stop = {});

// Returns a digest ("sha256:…") of the content of an input, which is a file or a folder. The digest covers
// names, the sha256 of each file, link targets, and whether a file is executable. The digest does not cover
// times, owners or the path of the input itself. Also throws Error(cancelled) if `stop` requests a stop.
[[nodiscard]] std::string content_digest(const Input& input, const std::stop_token& stop = {});

// The properties of a file, folder or link that content_digest() covers.
struct ContentEntry {
  enum class Kind { folder, file, link };
  Kind kind = Kind::folder;
  std::string text = {};    // the sha256 of a file in hexadecimal digits, or the target of a symbolic link
  bool is_program = false;  // true for an executable file
};
// Sorts paths in the order of a depth-first traversal: a folder comes before its content, and siblings are
// sorted by the bytes of their names.
struct ByParts {
  using is_transparent = void;
  bool operator()(std::string_view one, std::string_view other) const;
};
// The outputs of a trial that are not on this machine: the properties of each file, folder and link. Each key
// is a path below the trial's folder, such as "out/a".
using FolderContent = std::map<std::string, ContentEntry, ByParts>;
// Returns the digest that content_digest(input) would return for the output `path` after a download. Throws
// Error(refused) if the output does not exist.
[[nodiscard]] std::string content_digest(const FolderContent& left, const std::string& trial,
                                         const std::string& path);

}  // namespace combu
