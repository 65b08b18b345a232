#pragma once
// The only file's door that knows libjsonnet.

#include <functional>
#include <string>
#include <string_view>

#include "combu/jsonnet.hpp"
#include "jsonnet/importer.hpp"

namespace combu {

// Told JSON, or (`ok` is false) the evaluator's own account of what is wrong. The text is not copied, since
// it may be a tenth of all memory.
using TakeAnswer = std::function<void(bool ok, std::string_view text)>;

// Evaluates `code`, which holds no NUL byte, under the name `name`, and calls `take` once. It may crash, use
// all memory, or never return: to be called in a process that can be spared.
void run_machine(const std::string& name, const std::string& code, const Evaluation& evaluation,
                 Importer& importer, const TakeAnswer& take);

// Whether that is the account of an error that came up while the result was written, by an evaluator that
// does not tell which item of an array and which field that was.
[[nodiscard]] bool is_without_items(const std::string& account);

// These, as further lines of the account; or nothing. Evaluates until the error comes up again, once for
// each, so the same holds as for run_machine.
[[nodiscard]] std::string find_items(const std::string& name, const std::string& code,
                                     const Evaluation& evaluation, Importer& importer);

}  // namespace combu
