#pragma once
#include <string>

#include "forked_work.hpp"

namespace combu::agent {

// Writes the file or folder at `path`, which is relative to the folder `base` or absolute, to `out` as a tar
// archive (ustar with pax headers). The names in the archive begin with the last part of the path. Follows a
// symbolic link at `path`, and no other one. Leaves out sockets, pipes and devices. Blocks. The status of the
// report is a Done::Status.
Report write_tar(int base, const std::string& path, int out);

}  // namespace combu::agent
