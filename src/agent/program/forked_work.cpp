#include "forked_work.hpp"

#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>

namespace combu::agent {
namespace {

constexpr int k_stream = 3;
constexpr int k_report = 4;
constexpr int k_folder = 5;
constexpr int k_first_other = 6;
constexpr std::size_t k_report_max = 1024;  // fits into a pipe

void close_others() {
  if (close_range(k_first_other, UINT_MAX, 0) == 0) return;
  const auto count = static_cast<int>(sysconf(_SC_OPEN_MAX));
  for (int number = k_first_other; number < count; ++number) close(number);
}

void write_report(int to, const Report& report) {
  std::string bytes(1, static_cast<char>(report.status));
  bytes += std::string_view(report.text).substr(0, k_report_max);
  write_all(to, bytes);
}

[[noreturn]] void run_helper(int stream, int report, int folder, const HelperWork& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  if (stream >= 0) dup2(stream, k_stream);
  dup2(report, k_report);
  if (folder >= 0) dup2(folder, k_folder);
  close_others();
  write_report(k_report, work(k_stream, folder >= 0 ? k_folder : -1));
  _exit(0);
}

}  // namespace

bool start_helper(Direction direction, int folder, const HelperWork& work, Helper& helper) {
  Pipe stream;
  Pipe report;
  if (!open_pipe(report) || (direction != Direction::none && !open_pipe(stream))) return false;
  const bool is_input = direction == Direction::to_helper;
  const int childs_end = is_input ? stream.reader.get() : stream.writer.get();
  const pid_t pid = fork();
  if (pid < 0) return false;
  if (pid == 0) run_helper(childs_end, report.writer.get(), folder, work);
  helper.pid = pid;
  helper.stream = std::move(is_input ? stream.writer : stream.reader);
  helper.report = std::move(report.reader);
  if (helper.stream.is_open()) set_nonblocking(helper.stream.get());
  set_nonblocking(helper.report.get());
  return true;
}

bool help_without_child(int folder, const HelperWork& work, Helper& helper) {
  Pipe stream;
  Pipe report;
  if (!open_pipe(report) || !open_pipe(stream)) return false;
  set_nonblocking(stream.writer.get());
  const Report answer = work(stream.writer.get(), folder);
  if (answer.status != 0) return false;
  write_report(report.writer.get(), answer);
  helper.stream = std::move(stream.reader);
  helper.report = std::move(report.reader);
  return true;
}

Report report_of(const Helper& helper, std::uint8_t otherwise) {
  std::array<char, k_report_max + 1> bytes;
  const ssize_t count = read(helper.report.get(), bytes.data(), bytes.size());
  if (count < 1) return {.status = otherwise, .text = "a process of the agent has been killed"};
  return {.status = static_cast<std::uint8_t>(bytes[0]),
          .text = std::string(bytes.data() + 1, static_cast<std::size_t>(count) - 1)};
}

}  // namespace combu::agent
