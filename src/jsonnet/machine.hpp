#pragma once
// The interface to the evaluator, which is libjsonnet or rsjsonnet.

#include <functional>
#include <string>
#include <string_view>

#include "combu/jsonnet.hpp"
#include "jsonnet/importer.hpp"

namespace combu {

// Called with the resulting JSON or, if `ok` is false, with the evaluator's error report. The text is not
// copied, because the text may be very large.
using TakeAnswer = std::function<void(bool ok, std::string_view text)>;

// Evaluates `code`, which must contain no NUL byte, as the file `name`, and calls `take` once. The evaluator
// may crash, use all memory or never return, so call this function in a child process only.
void run_machine(const std::string& name, const std::string& code, const Evaluation& evaluation,
                 Importer& importer, const TakeAnswer& take);

// True if the error occurred while the evaluator wrote the result, and the error report `account` does not
// locate the faulty value.
[[nodiscard]] bool is_without_items(const std::string& account);

// Returns lines for the error report that name the array items and fields around the faulty value, or an
// empty string. For each line, evaluates the file until the error occurs again. Call find_items() only in a
// child process, like run_machine().
[[nodiscard]] std::string find_items(const std::string& name, const std::string& code,
                                     const Evaluation& evaluation, Importer& importer);

}  // namespace combu
