#pragma once
// Options and arguments that several commands have.

#include <cstdint>
#include <string>

#include "cli/command_line.hpp"
#include "combu/session.hpp"
#include "combu/view.hpp"

namespace combu {

// FILE, in place of -f.
void add_file_argument(CliCommand command, std::string& file);

// --experiment and --run.
void add_selection(CliCommand command, SelectionOptions& options);

// --limit N, how many rows are printed; -1: it was not given.
void add_limit(CliCommand command, std::int64_t& limit);
// A table's form on standard output: as standard_table(), but for the rows that --limit gives.
[[nodiscard]] TableForm table_form(std::int64_t limit);
// The same with --json: all rows unless --limit gives fewer.
[[nodiscard]] TableForm json_form(std::int64_t limit);

// --run ID.
void add_run_option(CliCommand command, std::string& run);

}  // namespace combu
