#pragma once
// The interface to the evaluator, which is libjsonnet or rsjsonnet.

#include <functional>
#include <string>
#include <string_view>

#include "combu/jsonnet.hpp"
#include "jsonnet/importer.hpp"

namespace combu {

// Called with the resulting JSON, or if `ok` is false, with the evaluator's error report. The text is not
// copied, because it may need a tenth of all memory.
using TakeAnswer = std::function<void(bool ok, std::string_view text)>;

// Evaluates `code`, which must contain no NUL byte, as the file `name`, and calls `take` once. The evaluator
// may crash, use all memory or never return, so call this function in a child process only.
void run_machine(const std::string& name, const std::string& code, const Evaluation& evaluation,
                 Importer& importer, const TakeAnswer& take);

// True if the error occurred while the evaluator wrote the result, and `account` lacks the array items and
// fields that contain the faulty value.
[[nodiscard]] bool is_without_items(const std::string& account);

// Returns these array items and fields as further lines of the error report, or an empty string. For each
// line, evaluates the file until the error occurs again. Call it in a child process only, like run_machine().
[[nodiscard]] std::string find_items(const std::string& name, const std::string& code,
                                     const Evaluation& evaluation, Importer& importer);

}  // namespace combu
