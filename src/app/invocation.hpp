#pragma once
// What stands before or after any command.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "combu/base.hpp"
#include "combu/spec.hpp"

namespace combu {

// What --engine names.
enum class NamedEngine {
  none,
  real,           // by its address
  simulated,      // with its options
  any_simulated,  // without options: of a run on record, whatever options it has
};

struct Invocation {
  std::vector<std::string> arguments;  // the command line, the program's name first
  std::string file;                    // as it was given; "-" is standard input, empty: none
  bool must_be_regular = false;        // the file: the caller has not named it
  std::vector<std::string> ext_str;
  std::vector<std::string> ext_code;
  std::vector<std::string> tla_str;
  std::vector<std::string> tla_code;
  std::vector<std::string> import_dirs;
  std::string evaluate_memory = "4GiB";
  std::string evaluate_time = "10m";
  std::string progress = "auto";
  std::string engine;                            // empty: DOCKER_HOST, Docker's context, its default socket
  NamedEngine named_engine = NamedEngine::none;  // by `engine`
  std::string trace;                             // a file, empty: none
  // Returns the faults in the sections of an experiment that are for one kind of engine, of all kinds that
  // the program knows.
  std::function<std::vector<Error>(const Experiment&)> check_sections;
};

// An option's value. Throw Error(invalid) with the option as subject.
[[nodiscard]] Seconds duration_option(std::string_view option, const std::string& text);
[[nodiscard]] Cpus cpus_option(std::string_view option, const std::string& text);
[[nodiscard]] Bytes bytes_option(std::string_view option, const std::string& text);

// `invocation` with an experiment's file: where it has none, experiment.jsonnet, else
// docker/experiment.jsonnet, of the current folder. Without one if neither is there.
[[nodiscard]] Invocation with_default_file(Invocation invocation);
// `invocation` with the file that a command's argument names; an empty one names none. Throws Error(invalid)
// if it has a file already.
[[nodiscard]] Invocation with_file(Invocation invocation, const std::string& file);

}  // namespace combu
