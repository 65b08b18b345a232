#pragma once
// Options and arguments that several commands share.

#include <cstdint>
#include <string>

#include "cli/command_line.hpp"
#include "combu/session.hpp"
#include "combu/view.hpp"

namespace combu {

// Adds the argument FILE, an alternative to the option -f.
void add_file_argument(CliCommand command, std::string& file);

// Adds --experiment and --run.
void add_selection(CliCommand command, SelectionOptions& options);

// Adds --limit N, the maximum number of rows. A `limit` of -1 means that the option is not given.
void add_limit(CliCommand command, std::int64_t& limit);
// Returns standard_table(), with the row limit of --limit if that option is given.
[[nodiscard]] TableForm table_form(std::int64_t limit);
// Returns the limits for --json: all rows unless --limit is given.
[[nodiscard]] TableForm json_form(std::int64_t limit);

// Adds --run ID.
void add_run_option(CliCommand command, std::string& run);

}  // namespace combu
