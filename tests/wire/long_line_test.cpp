// One line of 500 MB in an attempt's log: how much of it the program keeps in memory.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "combu/docker.hpp"
#include "combu/telemetry.hpp"
#include "record_folder.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::wire {
namespace {

using nlohmann::json;

constexpr std::size_t k_line_size = 500'000'000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool k_is_sanitized = true;
#elif defined(__has_feature)
constexpr bool k_is_sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool k_is_sanitized = false;
#endif
// The sanitizers do not release freed memory, and need further bytes to describe each byte.
constexpr std::size_t k_memory_max = (k_is_sanitized ? std::size_t{700} : std::size_t{150}) << 20U;

const std::string k_timestamp = "2026-01-31T12:00:00.000000007Z ";

std::string header_of(std::size_t size) {
  std::string header("\1\0\0\0", 4);
  for (const int shift : {24, 16, 8, 0}) header += static_cast<char>(size >> static_cast<unsigned>(shift));
  return header;
}

// The bytes of a log: a line that arrives in pieces, and then a second line.
struct Form {
  std::string name;
  bool has_terminal = false;
  std::string begin;
  std::string part;
  std::size_t part_text = 0;  // bytes of the line in each part
  std::string end;
};

void PrintTo(const Form& form, std::ostream* out) {
  *out << form.name;
}

// The log drivers json-file and `local` store a message with a time for each 16 KiB of a line.
Form messages_of_16_kib() {
  constexpr std::size_t k_size = 16384;
  Form form{.name = "messages_of_16_KiB", .part_text = 64 * k_size};
  for (int i = 0; i < 64; ++i)
    form.part += header_of(k_timestamp.size() + k_size) + k_timestamp + std::string(k_size, 'x');
  form.end = header_of(k_timestamp.size() + 1) + k_timestamp + "\n";
  return form;
}
Form one_message() {
  const std::string part(1U << 20U, 'x');
  const std::size_t parts = (k_line_size + part.size() - 1) / part.size();
  return {.name = "one_message",
          .begin = header_of(k_timestamp.size() + parts * part.size() + 1) + k_timestamp,
          .part = part,
          .part_text = part.size(),
          .end = "\n"};
}
Form terminal() {
  const std::string part(1U << 20U, 'x');
  return {.name = "terminal",
          .has_terminal = true,
          .begin = k_timestamp,
          .part = part,
          .part_text = part.size(),
          .end = "\n"};
}

json labels() {
  return {{"combu.experiment", "exp"},
          {"combu.file", "/f"},
          {"combu.run", "run1"},
          {"combu.trial", "a"},
          {"combu.attempt", "1"}};
}

Reply answer(const Form& form, const Asked& asked) {
  if (asked.target == "/_ping") return whole(200, "OK", "Api-Version: 1.41\r\n");
  if (asked.target.find("/containers/json?") != std::string::npos)
    return whole(200, json::array({{{"Id", "c1"},
                                    {"Names", {"/a"}},
                                    {"Image", "img"},
                                    {"State", "exited"},
                                    {"Status", "Exited (0) 1 second ago"},
                                    {"Created", 1700000000},
                                    {"Labels", labels()},
                                    {"Ports", json::array()}}})
                          .dump());
  if (asked.target.ends_with("/json"))
    return whole(200, json{{"Id", "c1"},
                           {"Name", "/a"},
                           {"State", {{"Status", "exited"}, {"ExitCode", 0}}},
                           {"Config", {{"Image", "img"}, {"Tty", form.has_terminal}, {"Labels", labels()}}}}
                          .dump());
  Reply reply = stream({}, Reply::Then::keep);
  if (!form.begin.empty()) reply.pieces.push_back(chunk(form.begin));
  reply.more = [part = chunk(form.part), end = chunk(form.end) + "0\r\n\r\n", text = form.part_text,
                sent = std::size_t{0}, is_over = false]() mutable -> std::string {
    if (sent < k_line_size) {
      sent += text;
      return part;
    }
    return std::exchange(is_over, true) ? "" : end;
  };
  return reply;
}

// Returns a size of this process from /proc/self/status.
std::size_t bytes_of(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(name + ":")) return std::stoul(line.substr(name.size() + 1)) << 10U;
  throw std::runtime_error("no " + name);
}

class LongLine : public testing::TestWithParam<Form> {};
INSTANTIATE_TEST_SUITE_P(, LongLine, testing::Values(messages_of_16_kib(), one_message(), terminal()),
                         [](const testing::TestParamInfo<Form>& form) { return form.param.name; });

TEST_P(LongLine, ALineOfHalfAGigabyteIsStoredWithLittleMemory) {
  ScriptedDaemon daemon([](const Asked& asked) { return answer(GetParam(), asked); });
  const std::unique_ptr<Engine> engine =
      open_docker({parse_address(daemon.address()), "the test", "/nonexistent"}, {Seconds{20}});
  const test::Folder folder("long-line");
  Telemetry telemetry(folder.path(), RunId("run1"));
  Trial trial{.name = "a"};
  trial.metrics = Metrics{.json = true};
  std::ofstream("/proc/self/clear_refs") << 5;  // resets VmHWM
  const std::size_t before = bytes_of("VmRSS");
  const auto notes = ingest_logs(*engine, {.run = RunId("run1"), .trial = "a", .attempt = 1}, trial,
                                 LogEnd::complete, telemetry, {});
  EXPECT_LT(bytes_of("VmHWM"), before + k_memory_max);
  EXPECT_THAT(notes, testing::ElementsAre(testing::HasSubstr("combu keeps only the last 64 MiB")));
  const std::size_t parts = (k_line_size + GetParam().part_text - 1) / GetParam().part_text;
  EXPECT_EQ(telemetry.log("a", 1)->size.count, static_cast<std::int64_t>(parts * GetParam().part_text + 1));
}

}  // namespace
}  // namespace combu::wire
