// Reads texts as evaluated experiments, and makes a plan if the experiment has no error. Nothing may crash.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "combu/plan.hpp"
#include "combu/spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  combu::Caller caller;
  caller.file = "/project/experiment.jsonnet";
  caller.folder = "/project";
  caller.home = "/home/ada";
  caller.env = [](const std::string&) { return std::nullopt; };
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const combu::Reading reading = combu::read_experiment(text, caller);
  if (!reading.errors.empty()) return 0;
  (void)combu::make_plan(reading.experiment);
  return 0;
}
