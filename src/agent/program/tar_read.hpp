#pragma once
#include "forked_work.hpp"

namespace combu::agent {

// Unpacks a tar archive (ustar, with pax headers or GNU's headers for long names) into a folder, and nowhere
// else: the names must not contain "..", and no symbolic link is followed. Files, folders, symbolic and hard
// links keep their mode and time; other entries are an error. Blocks. The status of the report is 0 or 1.
Report read_tar(int in, int folder);
// Like read_tar(), but follows the symbolic links that the folder has, such as /var/run in an image.
Report read_tar_into_image(int in, int folder);
// Like read_tar_into_image(), but does not wait for the end of the input after the end of the archive.
Report read_tar_from_client(int in, int folder);

}  // namespace combu::agent
