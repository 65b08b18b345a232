#pragma once

namespace combu {

// The whole program. Returns the exit code: 0 done, 1 a trial failed or could not be started, 2 usage or
// file, 3 engine away, 130 and 143 after SIGINT and SIGTERM.
int cli_main(int argc, const char* const* argv);

}  // namespace combu
