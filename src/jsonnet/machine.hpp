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

}  // namespace combu
