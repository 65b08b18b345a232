#pragma once
// Turns an experiment's Jsonnet file into JSON text.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "combu/base.hpp"

namespace combu {

struct Evaluation {
  // A path, or "-" for standard input (read to its end; its imports are relative to the current folder).
  std::string file;
  bool must_be_regular = false;  // the file: a pipe or a device is refused and not opened
  RunId run;                     // replaces "UUID", and is std.extVar("combu.run")

  using Pairs = std::vector<std::pair<std::string, std::string>>;
  Pairs ext_str;   // std.extVar(name), as a string
  Pairs ext_code;  // std.extVar(name), as Jsonnet code
  Pairs tla_str;   // arguments of a top-level function
  Pairs tla_code;
  // Folders searched for imports after the importing file's own: the last one first, as jsonnet -J does; then
  // $JSONNET_PATH's, the first one first. `import "combu.libsonnet"` is found last of all, inside the
  // program.
  std::vector<std::string> import_dirs;

  Bytes memory_max{
      std::int64_t{4} << 30};  // of the evaluator's process, beyond what this process has already
  Seconds time_max{600};
};

// By `import`, `importstr` or `importbin`.
struct Import {
  std::string path;    // absolute
  std::string sha256;  // of its bytes
};

struct Evaluated {
  std::string json;             // UTF-8; nothing is promised about its white space
  std::string source;           // the file's text as it was read
  std::vector<Import> imports;  // the files that it read, by path
};

// Evaluates in a child process, so that an input on which the evaluator crashes, eats all memory or never
// ends costs one plain error. Blocks; `slow` (may be empty) is called once, after one second, so that a
// person can be told. Call it before this process starts threads of its own. Repeatable. Throws Error:
// invalid (syntax and run-time errors with file, line and column, limits), not_found (the file).
[[nodiscard]] Evaluated evaluate(const Evaluation& evaluation, const std::function<void()>& slow = {});

// True if the file and its imports have the same bytes as when Evaluated::source and ::imports were read. A
// file that is missing or cannot be read is not the same.
[[nodiscard]] bool is_unchanged(const std::string& file, const std::string& source,
                                const std::vector<Import>& imports);

// What evaluates, and its version: "libjsonnet 0.18.0", "rsjsonnet 0.5.1".
[[nodiscard]] std::string evaluator();

// `source` with the identifier put in: in each `local NAME = "UUID";` (either quote, any spacing, also in a
// list of binds) the four letters become `run`. Pure.
[[nodiscard]] std::string put_identifier(const std::string& source, const RunId& run);

}  // namespace combu
