#pragma once

namespace combu::agent {

// Unpacks the tar archive of standard input at the root of the container, and writes one line to standard
// output: "unpacked", or a sentence that says why it could not be unpacked. Then waits until the standard
// input is closed: the line could be lost otherwise, because engines drop the last output of a program that
// has ended. Returns the exit code of the program.
int unpack_at_root();

}  // namespace combu::agent
