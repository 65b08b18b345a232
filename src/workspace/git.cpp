#include "workspace/git.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "combu/text.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

constexpr Seconds k_time_max{60};
constexpr std::size_t k_output_max = std::size_t{64} << 20U;
constexpr std::size_t k_index_max = std::size_t{512} << 20U;

// Environment variables that combu passes on to git. They name the location of git, the user's settings, and
// the limits of the search for a repository. All other variables that begin with GIT_ are dropped, because
// they may name another repository, programs, or files to write.
constexpr std::array<std::string_view, 8> k_kept{
    "GIT_CEILING_DIRECTORIES=", "GIT_CONFIG_COUNT=",  "GIT_CONFIG_GLOBAL=", "GIT_CONFIG_KEY_",
    "GIT_CONFIG_NOSYSTEM=",     "GIT_CONFIG_SYSTEM=", "GIT_CONFIG_VALUE_",  "GIT_EXEC_PATH="};

// Settings of git that Git::ask() keeps: they affect the comparison of a file with a commit, and name no
// program.
constexpr std::array<std::string_view, 12> k_settings{
    "core.attributesfile", "core.autocrlf",           "core.checkstat",  "core.eol",
    "core.excludesfile",   "core.filemode",           "core.ignorecase", "core.precomposeunicode",
    "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks",   "core.trustctime"};

bool is_kept(std::string_view variable, bool is_for_another) {
  const auto begins_it = [&](std::string_view name) { return variable.starts_with(name); };
  if (begins_it("GIT_")) return std::ranges::any_of(k_kept, begins_it);
  // Under sudo, HOME and XDG_CONFIG_HOME lead to root's settings, which the calling user cannot read.
  return !is_for_another || (!begins_it("HOME=") && !begins_it("XDG_CONFIG_HOME="));
}

std::vector<std::string> environment_for(const std::optional<User>& user) {
  std::vector<std::string> environment = own_environment();
  std::erase_if(environment, [&](const std::string& each) { return !is_kept(each, user.has_value()); });
  if (user) {
    const std::string home = home_of_user(user->uid);
    environment.push_back(fmt::format("HOME={}", home.empty() ? "/" : home));
  }
  // Keeps git from fetching objects. GIT_ALLOW_PROTOCOL is needed because git before 2.44 ignores
  // GIT_NO_LAZY_FETCH.
  for (const char* variable :
       {"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0"})
    environment.emplace_back(variable);
  return environment;
}

// Returns the NAME of a setting such as "filter.NAME.clean"; nullopt for settings that concern no filter.
std::optional<std::string> filter_in(std::string_view setting) {
  constexpr std::string_view k_section = "filter.";
  const std::size_t end = setting.rfind('.');
  if (!setting.starts_with(k_section) || end < k_section.size()) return std::nullopt;
  return std::string(setting.substr(k_section.size(), end - k_section.size()));
}

constexpr std::size_t k_sha1_size = 40;
constexpr std::size_t k_sha256_size = 64;

bool is_commit(std::string_view text) {
  return (text.size() == k_sha1_size || text.size() == k_sha256_size) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns settings that define each filter with an empty command. With these settings, git applies no filter,
// and does not use a file of the work tree in place of the content in the index.
std::string config_with(const std::set<std::string>& filters, bool is_sha256) {
  std::string text = is_sha256
                         ? "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n"
                         : "[core]\n\trepositoryformatversion = 0\n";
  for (const std::string& filter : filters) {
    std::string name;
    for (const char letter : filter) {
      if (letter == '"' || letter == '\\') name += '\\';
      name += letter;
    }
    text += fmt::format("[filter \"{}\"]\n\tclean =\n", name);
  }
  return text;
}

Error refusal(std::string why) {
  return {ErrorKind::refused, "git", std::move(why)};
}

Error refusal(const fs::path& path, const char* action) {
  return refusal(
      fmt::format("cannot {} {}: {}", action, path.string(), std::generic_category().message(errno)));
}

bool has_entry(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

// Returns the path of the nearest `.git` in `folder` or above it, within the limits of git's search. Returns
// an empty path if git would find no `.git`.
fs::path repository_above(const fs::path& folder) {
  const char* ceilings = std::getenv("GIT_CEILING_DIRECTORIES");  // NOLINT(concurrency-mt-unsafe)
  const std::vector<std::string> limits = split_at(':', ceilings == nullptr ? "" : ceilings);
  for (fs::path above = folder;; above = above.parent_path()) {
    if (has_entry(above / ".git")) return above / ".git";
    const fs::path next = above.parent_path();
    if (next == above || std::ranges::find(limits, next.string()) != limits.end()) return {};
  }
}

void make_subfolder(const fs::path& path) {
  constexpr mode_t k_mode = 0755;
  // chmod() is needed because the umask may deny access to the calling user.
  if (::mkdir(path.c_str(), k_mode) != 0 || ::chmod(path.c_str(), k_mode) != 0) throw refusal(path, "create");
}

void make_link(const fs::path& target, const fs::path& path) {
  if (::symlink(target.c_str(), path.c_str()) != 0) throw refusal(path, "create");
}

}  // namespace

std::vector<std::string> split_at(char separator, const std::string& text) {
  std::vector<std::string> pieces;
  std::istringstream stream(text);
  for (std::string piece; std::getline(stream, piece, separator);) pieces.push_back(piece);
  return pieces;
}

Git::Git(const std::string& folder, std::stop_token stop)
    : limit_(std::chrono::steady_clock::now() +
             std::chrono::duration_cast<std::chrono::steady_clock::duration>(k_time_max)),
      stop_(std::move(stop)) {
  if (const User user = calling_user(); user.uid != geteuid()) user_ = user;
  environment_ = environment_for(user_);
  try {
    find(folder);
    if (commit_.empty()) return;
    read_settings();
    make_folder();
    copy_index();
  } catch (const Error& error) {
    commit_.clear();
    problem_ = error.message();
  }
}

Git::~Git() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

// If `folder` is in a work tree, sets commit_, top_, repository_ and common_.
void Git::find(const std::string& folder) {
  const auto lines_of = [](const ProgramEnd& end) {
    return end.problem.empty() ? split_at('\n', end.output) : std::vector<std::string>();
  };
  const ProgramEnd found = git(
      folder, {"rev-parse", "--is-inside-work-tree", "--show-toplevel", "--absolute-git-dir"}, k_output_max);
  const std::vector<std::string> lines = lines_of(found);
  const auto refuse = [&](const ProgramEnd& end) {
    const fs::path near = repository_above(folder);
    if (!end.problem.empty() && !near.empty()) throw refusal("git " + end.problem);
    if (!near.empty())
      throw refusal(fmt::format("git does not accept {}; `git -C {} status` shows the reason", near.string(),
                                shell_word(folder)));
  };
  if (found.exit_code != 0 || lines.size() != 3) return refuse(found);
  // A repository's settings can name a work tree elsewhere (core.worktree). In such a work tree, git would
  // find another repository, or no repository.
  const std::string& top = lines[1];
  const std::string& repository = lines[2];
  const ProgramEnd at_top = git(
      top, {"rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir", "HEAD"}, k_output_max);
  const std::vector<std::string> lines_at_top = lines_of(at_top);
  if (!at_top.problem.empty()) return refuse(at_top);
  if (lines.front() != "true" || lines_at_top.size() < 2 || lines_at_top[0] != top ||
      lines_at_top[1] != repository)
    throw refusal(
        fmt::format("core.worktree of {} names {}, which is not the folder of that repository; combu "
                    "compares nothing there",
                    repository, top));
  if (lines_at_top.size() != 4) return refuse(at_top);
  if (!is_commit(lines_at_top[3])) throw refusal(fmt::format("{} has no commit", repository));
  top_ = top;
  repository_ = repository;
  common_ = fs::path(top) / lines_at_top[2];
  commit_ = lines_at_top[3];
}

void Git::read_settings() {
  const ProgramEnd end = git(top_, {"config", "--list", "-z"}, k_output_max);
  if (!end.problem.empty() || end.exit_code != 0 || end.output_cut)
    throw refusal(
        fmt::format("git cannot read the settings of {}; `git -C {} config --list` shows the reason",
                    repository_.string(), shell_word(top_)));
  for (const std::string& entry : split_at('\0', end.output)) {
    const std::size_t at = entry.find('\n');
    const std::string name = entry.substr(0, at);
    if (auto filter = filter_in(name)) filters_.insert(std::move(*filter));
    // git treats a setting without a value as true.
    if (std::ranges::find(k_settings, name) != k_settings.end())
      settings_[name] = at == std::string::npos ? "true" : entry.substr(at + 1);
  }
}

// Makes the temporary git folder, which later calls of git use. Under sudo, the temporary git folder belongs
// to root, so that the calling user cannot make combu write elsewhere. The files in the temporary git folder
// belong to the calling user.
void Git::make_folder() {
  std::error_code fault;
  const fs::path above = user_ ? "/tmp" : fs::temp_directory_path(fault);
  if (fault)
    throw refusal(fmt::format("cannot use the folder for temporary files: {}; set TMPDIR", fault.message()));
  std::string path = fs::absolute(above) / "combu-git-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) throw refusal(path, "create");
  folder_ = path;
  constexpr mode_t k_mode_to_enter = 0711;
  if (user_ && ::chmod(path.c_str(), k_mode_to_enter) != 0) throw refusal(path, "open");
  make_subfolder(folder_ / "refs");
  make_subfolder(folder_ / "info");
  write("HEAD", commit_ + "\n");
  write("config", config_with(filters_, commit_.size() == k_sha256_size));
  for (const char* name : {"info/attributes", "info/exclude"}) make_link(common_ / name, folder_ / name);
  std::erase_if(environment_, [](const std::string& each) { return each.starts_with("GIT_CONFIG"); });
  for (const auto& [name, value] : {std::pair("GIT_DIR", folder_.string()),
                                    {"GIT_WORK_TREE", top_},
                                    {"GIT_OBJECT_DIRECTORY", (common_ / "objects").string()},
                                    {"GIT_CONFIG_NOSYSTEM", "1"},
                                    {"GIT_CONFIG_GLOBAL", "/dev/null"}})
    environment_.push_back(fmt::format("{}={}", name, value));
}

// Copies the index, because git writes to the index. The copy keeps the modification time of the index,
// because git also compares the content of each file that is not older than the index.
void Git::copy_index() {
  const fs::path index = repository_ / "index";
  struct stat status {};
  if (::stat(index.c_str(), &status) != 0 && errno == ENOENT) return;
  if (!S_ISREG(status.st_mode)) throw refusal(fmt::format("{} must be a regular file", index.string()));
  ProgramEnd copied = run({"cat", "--", index.string()}, k_index_max);
  if (copied.output_cut)
    throw refusal(fmt::format("{} is larger than {} MiB", index.string(), k_index_max >> 20U));
  if (!copied.problem.empty() || copied.exit_code != 0)
    throw refusal(fmt::format("cannot read {}: cat {}", index.string(),
                              copied.problem.empty() ? "failed" : copied.problem));
  write("index", copied.output, &status.st_mtim);
  // A split index refers to a file named `sharedindex.…`.
  std::error_code fault;
  for (fs::directory_iterator it(repository_, fault); !fault && it != fs::directory_iterator();
       it.increment(fault)) {
    const fs::path name = it->path().filename();
    if (name.string().starts_with("sharedindex.")) make_link(it->path(), folder_ / name);
  }
}

void Git::write(const fs::path& name, const std::string& text, const timespec* modified_at) {
  const fs::path path = folder_ / name;
  constexpr mode_t k_mode = 0600;
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, k_mode));
  std::size_t written = 0;
  while (file.is_open() && written < text.size()) {
    const ssize_t count = ::write(file.number(), text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) break;
    if (count > 0) written += static_cast<std::size_t>(count);
  }
  if (!file.is_open() || written < text.size()) throw refusal(path, "write");
  if (user_ && ::fchown(file.number(), user_->uid, user_->gid) != 0)
    throw refusal(path, "change the owner of");
  if (modified_at == nullptr) return;
  const std::array<timespec, 2> times{*modified_at, *modified_at};
  if (::futimens(file.number(), times.data()) != 0) throw refusal(path, "set the modification time of");
}

ProgramEnd Git::run(std::vector<std::string> arguments, std::size_t size_max,
                    const std::string& input) const {
  ProgramEnd end = run_program({.arguments = std::move(arguments),
                                .environment = environment_,
                                .input = input,
                                .output_max = size_max,
                                .time_max = limit_ - std::chrono::steady_clock::now(),
                                .user = user_,
                                .stop = stop_});
  // The message names k_time_max, which limits all calls of git together, and not the remaining seconds that
  // limited this call.
  if (!end.problem.empty() && std::chrono::steady_clock::now() >= limit_)
    end.problem = fmt::format("did not end within {}", to_string(k_time_max));
  return end;
}

ProgramEnd Git::git(const std::string& folder, const std::vector<std::string>& arguments,
                    std::size_t size_max, const std::string& input) const {
  std::vector<std::string> all{"git",
                               "--no-pager",
                               "--no-optional-locks",
                               "-C",
                               folder,
                               "-c",
                               "core.fsmonitor=false",
                               "-c",
                               "core.hooksPath=/dev/null"};
  for (const auto& [name, value] : settings_)
    all.insert(all.end(), {"-c", fmt::format("{}={}", name, value)});
  all.insert(all.end(), arguments.begin(), arguments.end());
  return run(std::move(all), size_max, input);
}

std::optional<Git::Cut> Git::ask_up_to(std::size_t size_max, const std::vector<std::string>& arguments,
                                       const std::string& input) {
  ProgramEnd end = git(top_, arguments, size_max, input);
  if (end.problem.empty() && (end.exit_code == 0 || end.output_cut))
    return Cut{.text = std::move(end.output), .is_cut = end.output_cut};
  if (problem_.empty())
    problem_ = end.problem.empty()
                   ? fmt::format("git ended with exit code {} when it compared {} with its commit",
                                 end.exit_code, top_)
                   : "git " + end.problem;
  return std::nullopt;
}

std::optional<std::string> Git::ask(const std::vector<std::string>& arguments, const std::string& input) {
  auto answer = ask_up_to(k_output_max, arguments, input);
  if (!answer) return std::nullopt;
  if (answer->is_cut) {
    if (problem_.empty()) problem_ = fmt::format("git wrote more than {} MiB", k_output_max >> 20U);
    return std::nullopt;
  }
  return std::move(answer->text);
}

}  // namespace combu
