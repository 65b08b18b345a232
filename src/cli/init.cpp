#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "combu/base.hpp"
#include "init_files.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_placeholder = "my-experiment";
constexpr std::size_t k_name_max = 40;  // with a trial's part behind it still a hostname

// What an image and a container may be called, of the folder's name: "My Lab" is my-lab.
std::string project_name(const fs::path& folder) {
  std::string name;
  for (const char c : folder.filename().string()) {
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fits = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (fits) {
      name += lower;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  name.resize(std::min(name.size(), k_name_max));
  while (name.ends_with('-')) name.pop_back();
  return name.empty() ? std::string("experiment") : name;
}

std::string filled(std::string text, std::string_view name) {
  for (std::size_t at = text.find(k_placeholder); at != std::string::npos;
       at = text.find(k_placeholder, at + name.size()))
    text.replace(at, k_placeholder.size(), name);
  return text;
}

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw Error(ErrorKind::refused, path.string(), why);
}

[[noreturn]] void refuse_existing(const fs::path& path) {
  throw Error(ErrorKind::invalid, path.string(),
              "is there already, and nothing is overwritten: name another folder, or move it away");
}

// What one call has made, which goes again unless it is kept.
class Made {
 public:
  Made() = default;
  ~Made() {
    std::error_code fault;
    for (; !paths_.empty(); paths_.pop_back()) fs::remove(paths_.back(), fault);
  }
  Made(const Made&) = delete;
  Made& operator=(const Made&) = delete;

  void add(const fs::path& path) { paths_.push_back(path); }
  void keep() { paths_.clear(); }

 private:
  std::vector<fs::path> paths_;
};

void make_folder(const fs::path& path, Made& made) {
  std::error_code fault;
  if (path.empty() || fs::exists(path, fault)) return;
  make_folder(path.has_filename() ? path.parent_path() : path.parent_path().parent_path(), made);
  if (fs::create_directory(path, fault)) made.add(path);
  if (fault) refuse(path, "cannot be made: " + fault.message());
}

void write_new(const fs::path& path, std::string_view text, Made& made) {
  make_folder(path.parent_path(), made);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): the call is the system's.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                        text.starts_with("#!") ? mode_t{0777} : mode_t{0666});
  if (file < 0 && errno == EEXIST) refuse_existing(path);
  if (file < 0) refuse(path, "cannot be made: " + std::generic_category().message(errno));
  made.add(path);
  int error = 0;
  while (!text.empty() && error == 0) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (close(file) != 0 && error == 0) error = errno;
  if (error != 0) refuse(path, "cannot be written: " + std::generic_category().message(error));
}

int init(const std::string& named) {
  const fs::path folder = named;
  std::error_code fault;
  const fs::file_status status = fs::status(folder, fault);
  if (fs::exists(status) && !fs::is_directory(status))
    throw Error(ErrorKind::invalid, named, "is no folder: name one that is to be made, or filled");
  const auto is_there = [&](const fs::path& path) { return fs::exists(fs::symlink_status(path, fault)); };
  for (const InitFile& file : k_init_files) {
    // Through a link it would be written elsewhere.
    for (fs::path within = fs::path(file.path).parent_path(); !within.empty(); within = within.parent_path())
      if (is_there(folder / within) && !fs::is_directory(fs::symlink_status(folder / within, fault)))
        throw Error(ErrorKind::invalid, (folder / within).string(),
                    "is no folder, and one is to be filled here: name another folder, or move it away");
    if (is_there(folder / file.path)) refuse_existing(folder / file.path);
  }
  fs::path whole = fs::absolute(folder, fault).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string name = project_name(whole);
  Made made;
  std::vector<std::string_view> names;
  for (const InitFile& file : k_init_files) {
    write_new(folder / file.path, filled(std::string(file.text), name), made);
    names.push_back(file.path);
  }
  made.keep();
  const bool here = whole == fs::current_path(fault);
  (void)put_out(fmt::format(
      "made the experiment {} in {}: {}\nnext: {}make run-experiment\n", name, whole.string(),
      fmt::join(names, ", "),
      here ? std::string()
           : fmt::format("cd {} && ", shell_word(named.starts_with('-') ? "./" + named : named))));
  return 0;
}

}  // namespace

void add_init(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("init", "Make a folder for an experiment: Makefile, Dockerfile, experiment.jsonnet");
  const auto folder = std::make_shared<std::string>(".");
  command->add_option("FOLDER", *folder, "Made where it is missing; else this one")->type_name("");
  command->footer("Example:\n  combu init lab && cd lab && make run-experiment");
  command->callback(
      [&action, folder] { action = [folder] { return init(folder->empty() ? "." : *folder); }; });
}

}  // namespace combu
