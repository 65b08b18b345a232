// evaluate [--measure] FILE [--ext-str K=V] [--ext-code K=CODE] [--tla-str K=V] [--tla-code K=CODE]…
//
// Prints the JSON to which combu evaluates an experiment file, or the error. With --measure, prints the cost
// instead: seconds of CPU in user mode, and the peak memory of the larger process in bytes. Tests and
// benchmarks compare evaluators with this program.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "combu/jsonnet.hpp"

namespace {

combu::Evaluation evaluation_of(std::span<char*> arguments) {
  combu::Evaluation evaluation;
  evaluation.file = arguments.front();
  evaluation.run = combu::RunId("0123456789ab");
  for (std::size_t i = 1; i + 1 < arguments.size(); i += 2) {
    const std::string_view option = arguments[i];
    const std::string given = arguments[i + 1];
    const std::size_t equals = given.find('=');
    auto& pairs = option == "--ext-str"    ? evaluation.ext_str
                  : option == "--ext-code" ? evaluation.ext_code
                  : option == "--tla-str"  ? evaluation.tla_str
                                           : evaluation.tla_code;
    pairs.emplace_back(given.substr(0, equals), given.substr(equals + 1));
  }
  return evaluation;
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

// getrusage() also counts the memory that this process used before it executed this program.
long own_peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stol(line.substr(sizeof "VmHWM:"));
  return 0;
}

void print_usage() {
  rusage own{};
  rusage evaluators{};
  (void)::getrusage(RUSAGE_SELF, &own);
  (void)::getrusage(RUSAGE_CHILDREN, &evaluators);
  (void)std::printf("%.3f %ld\n", seconds(own.ru_utime) + seconds(evaluators.ru_utime),
                    std::max(own_peak_bytes(), 1024 * evaluators.ru_maxrss));
}

int run(std::span<char*> arguments) {
  const bool is_measured = !arguments.empty() && std::string_view(arguments.front()) == "--measure";
  if (is_measured) arguments = arguments.subspan(1);
  if (arguments.empty()) return 2;
  const std::string json = combu::evaluate(evaluation_of(arguments)).json;
  if (is_measured) {
    print_usage();
    return 0;
  }
  return std::fwrite(json.data(), 1, json.size(), stdout) == json.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, static_cast<std::size_t>(argc - 1)});
  } catch (const combu::Error& error) {
    (void)std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
