#pragma once
// Evaluates an experiment's Jsonnet file to JSON text.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "combu/base.hpp"

namespace combu {

struct Evaluation {
  // A path, or "-" for standard input. combu reads standard input to its end. Imports in standard input are
  // relative to the current folder.
  std::string file;
  bool must_be_regular = false;  // true: evaluate() refuses a pipe or device without opening it
  // the run's id: the value of std.extVar("combu.run"), and the id that put_identifier() inserts
  RunId run;

  using Pairs = std::vector<std::pair<std::string, std::string>>;
  Pairs ext_str;   // string values of std.extVar(name)
  Pairs ext_code;  // values of std.extVar(name), given as Jsonnet code
  Pairs tla_str;   // string arguments of a file that is a function; tla_code holds arguments as Jsonnet code
  Pairs tla_code;
  // Folders that combu searches for imports after the importing file's own folder. The search begins with the
  // last of these folders, as `jsonnet -J` does. The search continues with the folders of $JSONNET_PATH,
  // beginning with the first. If no folder has a file `combu.libsonnet`, `import "combu.libsonnet"` finds the
  // library that is embedded in combu.
  std::vector<std::string> import_dirs;

  // Maximum address space of the evaluator's process, in addition to the address space that the calling
  // process has mapped.
  Bytes memory_max{std::int64_t{4} << 30};
  Seconds time_max{600};
};

// A file that `import`, `importstr` or `importbin` has read.
struct Import {
  std::string path;    // absolute
  std::string sha256;  // SHA-256 of the file's bytes, in hexadecimal
};

struct Evaluated {
  std::string json;             // UTF-8 text with unspecified white space
  std::string source;           // text of the file as combu read it
  std::vector<Import> imports;  // the imported files, sorted by path
};

// Evaluates the file in a child process. If the evaluator crashes or exceeds a limit of `evaluation`,
// evaluate() throws an Error. Blocks. Calls `slow` (may be empty) once, after one second, so that the caller
// can inform the user. Call evaluate() before the process starts its own threads. Can be called repeatedly.
// Throws Error(not_found) if the file does not exist, Error(unavailable) if no child process can be created,
// and Error(cancelled) if a signal interrupts the evaluation. Throws Error(invalid) if the file has a syntax
// or run-time error (with file, line and column), or if the evaluation exceeds a limit.
[[nodiscard]] Evaluated evaluate(const Evaluation& evaluation, const std::function<void()>& slow = {});

// True if the file and its imports have the same bytes as when Evaluated::source and Evaluated::imports were
// read. False if a file is missing or cannot be read.
[[nodiscard]] bool is_unchanged(const std::string& file, const std::string& source,
                                const std::vector<Import>& imports);

// Returns the name and version of the evaluator, for example "libjsonnet 0.18.0" or "rsjsonnet 0.5.1".
[[nodiscard]] std::string evaluator();

// Returns `source` with the run's id inserted. The run's id replaces the text UUID in each bind `local NAME =
// "UUID";`. The quotes may be single or double, the spacing is free, and the bind may be part of a list of
// binds. Pure.
[[nodiscard]] std::string put_identifier(const std::string& source, const RunId& run);

}  // namespace combu
