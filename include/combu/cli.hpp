#pragma once

namespace combu {

// Runs the whole program. Returns the exit code: 0 success; 1 a trial failed or could not be started; 2 wrong
// usage or invalid file; 3 engine unreachable; 130 and 143 after SIGINT and SIGTERM.
int cli_main(int argc, const char* const* argv);

}  // namespace combu
