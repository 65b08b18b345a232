#pragma once
#include <functional>
#include <string>

#include "attempts.hpp"
#include "folder.hpp"

namespace combu::agent {

// Writes the results that no client has acknowledged to the file `results` in the folder, as frames: Welcome;
// for each attempt that has ended Started and Ended, with its log if that is small; Listed; and for each of
// the other logs, beginning with the smallest one, Log and Done, whose request is the position of its Ended.
// Drops the logs. If the disk is full, or `is_late` returns true, the end of the file is missing. Returns
// false and sets errno if there is no file: then the file `results` may be the work of an attempt.
bool write_results(Attempts& attempts, const Folder& folder, const std::string& boot,
                   const std::function<bool()>& is_late);

}  // namespace combu::agent
