#include "spec/slots.hpp"

#include <fmt/format.h>

#include <array>

#include "spec/fields.hpp"
#include "spec/values.hpp"

namespace combu {

Slots& Slots::operator+=(const Slots& other) {
  cpus.nano += other.cpus.nano;
  memory.count += other.memory.count;
  return *this;
}

Slots& Slots::operator-=(const Slots& other) {
  cpus.nano -= other.cpus.nano;
  memory.count -= other.memory.count;
  return *this;
}

bool Slots::fit(const Slots& free) const {
  return (cpus.nano == 0 || cpus <= free.cpus) && (memory.count == 0 || memory <= free.memory);
}

std::string to_string(const Slots& slots) {
  std::string text;
  if (slots.cpus.nano != 0)
    text = fmt::format("{} CPU{}", to_string(slots.cpus), slots.cpus == Cpus{1'000'000'000} ? "" : "s");
  if (slots.memory.count != 0)
    text += fmt::format("{}{} of memory", text.empty() ? "" : ", ", to_string(slots.memory));
  return text.empty() ? "nothing" : text;
}

namespace spec {
namespace {

constexpr Bytes k_memory_least{std::int64_t{6} << 20};  // moby: daemon/daemon_unix.go, linuxMinMemory

constexpr std::array k_deploy_fields{Spelling{"resources", "resources"}};
constexpr std::array k_resources_fields{Spelling{"limits", "limits"},
                                        Spelling{"reservations", "reservations"}};
constexpr std::array k_resource_fields{Spelling{"cpus", "cpus"}, Spelling{"memory", "memory"}};

}  // namespace

std::optional<Cpus> read_cpus(const Json& value, const Place& place, Report& report) {
  return read_unit<Cpus>(value, "a number of CPUs", parse_cpus, place, report);
}

std::optional<Bytes> read_bytes(const Json& value, const Place& place, Report& report) {
  return read_unit<Bytes>(value, "a size such as \"512m\" or a number of bytes", parse_bytes, place, report);
}

std::optional<Bytes> read_memory(const Json& value, const Place& place, Report& report) {
  const auto memory = read_bytes(value, place, report);
  if (!memory || memory->count == 0 || *memory >= k_memory_least) return memory;
  report.add(place, fmt::format("{} is too little: an engine gives no container less than {}",
                                to_string(*memory), to_string(k_memory_least)));
  return std::nullopt;
}

Deploy read_deploy(const Json& value, const Place& place, Report& report) {
  Deploy deploy;
  // nullptr when it is not given, or is no object (which is reported).
  const auto object = [&](const Json* inner, const Place& here) -> const Json* {
    if (inner == nullptr || inner->is_object()) return inner;
    report.add(here, fmt::format("must be an object, not {}", shown(*inner)));
    return nullptr;
  };
  if (object(&value, place) == nullptr) return deploy;
  const Place inside = place.key("resources");
  const Json* resources = object(Section(value, k_deploy_fields, place, report).find("resources"), inside);
  if (resources == nullptr) return deploy;
  const Section section(*resources, k_resources_fields, inside, report);
  // The limits come last: they are what is enforced.
  for (const char* kind : {"reservations", "limits"}) {
    const Place here = inside.key(kind);
    const Json* given = object(section.find(kind), here);
    if (given == nullptr) continue;
    const Section amounts(*given, k_resource_fields, here, report);
    if (const Json* cpus = amounts.find("cpus")) deploy.cpus = read_cpus(*cpus, here.key("cpus"), report);
    if (const Json* memory = amounts.find("memory"))
      deploy.memory = read_memory(*memory, here.key("memory"), report);
  }
  return deploy;
}

}  // namespace spec
}  // namespace combu
