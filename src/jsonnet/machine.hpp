#pragma once
// The only file's door that knows libjsonnet.

#include <string>

#include "combu/jsonnet.hpp"
#include "jsonnet/importer.hpp"

namespace combu {

struct MachineAnswer {
  bool ok = false;
  std::string text;  // JSON, or the evaluator's own account of what is wrong
};

// Evaluates `code`, which holds no NUL byte, under the name `name`. It may crash, use all memory, or never
// return: to be called in a process that can be spared.
[[nodiscard]] MachineAnswer run_machine(const std::string& name, const std::string& code,
                                        const Evaluation& evaluation, const Importer& importer);

// Whether that is the account of an error that came up while the result was written, by an evaluator that
// does not tell which item of an array and which field that was.
[[nodiscard]] bool is_without_items(const std::string& account);

// These, as further lines of the account; or nothing. Evaluates until the error comes up again, once for
// each, so the same holds as for run_machine.
[[nodiscard]] std::string find_items(const std::string& name, const std::string& code,
                                     const Evaluation& evaluation, const Importer& importer);

}  // namespace combu
