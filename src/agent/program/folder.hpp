#pragma once
// The agent's own folder: its socket, the scratch folders of the attempts, the files of logs and the file of
// results.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "combu/agent.hpp"
#include "system.hpp"

namespace combu::agent {

class Folder {
 public:
  // Makes the folder if it does not exist, and listens on its socket. Removes scratch folders that an earlier
  // process left there. Returns a description of the failure, or an empty text.
  std::string open(std::string path);
  // The state of the processes that have used the folder one after the other: a file `life` or `over` keeps
  // it.
  enum class Life { fresh, begun, over };
  // Returns what earlier processes have left; with `fresh`, this process is the first.
  [[nodiscard]] Life begin_life() const;
  // Later processes have nothing to do.
  void end_life() const;
  // True if the path leads to the folder.
  [[nodiscard]] bool is_in_place() const;
  // Makes the folder and the socket again if an attempt has removed or replaced them.
  void repair();
  // Returns true if listener() has changed since the last call.
  [[nodiscard]] bool take_new_listener();
  // Removes the socket. On a disk without a free inode, this makes room for a file.
  void close_listener();

  [[nodiscard]] int descriptor() const { return folder_.get(); }
  [[nodiscard]] int listener() const { return listener_.get(); }
  [[nodiscard]] std::string scratch_path(std::uint64_t number) const;
  // Sets `number` to the number of an empty scratch folder. Returns 0 or the errno.
  [[nodiscard]] int make_scratch(std::uint64_t& number);
  // Writes a file of a Start frame into a scratch folder. Returns 0 or the errno.
  [[nodiscard]] int write_file(std::uint64_t number, const File& file) const;
  // Opens a scratch folder.
  [[nodiscard]] Descriptor open_scratch(std::uint64_t number) const;
  // Empties a scratch folder that contains only a few files, and uses the folder again for a later attempt:
  // on some disks, making and removing a folder takes longer than a short attempt. Returns false if the
  // folder contains more.
  [[nodiscard]] bool empty_scratch(std::uint64_t number);
  // Opens a new file that has no name; the descriptor is closed if that fails.
  [[nodiscard]] Descriptor make_unnamed_file() const;
  // Opens a new file `results`.
  [[nodiscard]] Descriptor make_results_file() const;

 private:
  std::string open_folder();
  std::string listen();
  void remove_old_scratch_folders() const;

  std::string path_;
  Descriptor folder_;
  Descriptor listener_;
  bool is_listener_new_ = false;
  std::uint64_t socket_inode_ = 0;
  std::uint64_t last_scratch_ = 0;
  std::vector<std::uint64_t> empty_;  // numbers of scratch folders that no attempt uses
};

}  // namespace combu::agent
