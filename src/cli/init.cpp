#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
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
// The name of each trial begins with this name, and is a hostname, which has at most 63 characters.
constexpr std::size_t k_name_max = 40;

// Converts a folder's name to a valid name for images and containers, for example "My Lab" to my-lab. Returns
// "" if the name would be empty or too long, or would lose non-ASCII letters. If such letters were dropped,
// different folders could get the same name, and combu would take their experiments for one experiment.
std::string project_name(std::string_view folder) {
  std::string name;
  for (const char c : folder) {
    if (static_cast<unsigned char>(c) >= 0x80) return "";
    const char lower = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool fits = (lower >= 'a' && lower <= 'z') || (lower >= '0' && lower <= '9');
    if (fits) {
      name += lower;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (name.ends_with('-')) name.pop_back();
  return name.size() <= k_name_max ? name : "";
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

[[noreturn]] void refuse_existing(const std::vector<std::string>& paths) {
  const bool is_one = paths.size() == 1;
  throw Error(ErrorKind::invalid, fmt::format("{}", fmt::join(paths, ", ")),
              fmt::format("{} already, and `init` overwrites nothing; choose another folder, or move {} away",
                          is_one ? "exists" : "exist", is_one ? "it" : "them"));
}

// Files and folders that this call of `init` created. The destructor removes them unless keep() was called.
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
  if (fault) refuse(path, "cannot be created: " + fault.message());
}

void write_new(const fs::path& path, std::string_view text, Made& made) {
  make_folder(path.parent_path(), made);
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): the call is the system's.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                        text.starts_with("#!") ? mode_t{0777} : mode_t{0666});
  if (file < 0 && errno == EEXIST) refuse_existing({path.string()});
  if (file < 0) refuse(path, "cannot be created: " + std::generic_category().message(errno));
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

bool is_there(const fs::path& path) {
  std::error_code fault;
  return fs::exists(fs::symlink_status(path, fault));
}

// True for a file that may exist in the folder before `init` creates the experiment. `init` leaves existing
// files of this kind as they are.
bool may_be_theirs(std::string_view path) {
  return path == "README.md" || path == ".gitignore" || path == ".dockerignore";
}

// Returns the files to create in `folder`. Throws Error(invalid) with all paths that prevent the creation.
std::vector<InitFile> to_be_made(const fs::path& folder) {
  std::vector<InitFile> files;
  std::vector<std::string> obstacles;
  for (const InitFile& file : k_init_files) {
    std::string obstacle;
    if (is_there(folder / file.path)) obstacle = (folder / file.path).lexically_normal().string();
    // If the path had a link in place of a folder, the file would be written elsewhere.
    for (fs::path within = fs::path(file.path).parent_path(); !within.empty();
         within = within.parent_path()) {
      std::error_code fault;
      const fs::path path = (folder / within).lexically_normal();
      if (is_there(path) && !fs::is_directory(fs::symlink_status(path, fault)))
        obstacle = path.string() + " (not a folder)";
    }
    if (obstacle.empty()) {
      files.push_back(file);
    } else if (!may_be_theirs(file.path) && std::ranges::find(obstacles, obstacle) == obstacles.end()) {
      obstacles.push_back(obstacle);
    }
  }
  if (!obstacles.empty()) refuse_existing(obstacles);
  return files;
}

// Returns the content of a .gitignore, or an empty string if the file cannot be read.
std::string ignored_paths(const fs::path& file) {
  constexpr Bytes k_most{std::int64_t{1} << 20U};
  try {
    return read_regular_file(file, k_most).value_or("");
  } catch (const Error&) {
    return "";
  }
}

// Returns a line that names the existing files that `init` left unchanged, or an empty string if there are
// none. The line also says if the .gitignore lacks /results/.
std::string left_alone(const fs::path& folder, const std::vector<InitFile>& made) {
  std::vector<std::string> names;
  for (const InitFile& file : k_init_files) {
    if (std::ranges::find(made, file.path, &InitFile::path) != made.end()) continue;
    names.emplace_back(file.path);
    if (file.path == ".gitignore") {
      std::istringstream text(ignored_paths(folder / file.path));
      bool has_results = false;
      for (std::string line; std::getline(text, line);) {
        const std::string_view pattern = trimmed(line);
        has_results = has_results || pattern == "/results/" || pattern == "/results" ||
                      pattern == "results/" || pattern == "results";
      }
      if (!has_results) names.back() += " (add /results/ to it)";
    }
  }
  return names.empty() ? "" : fmt::format("kept: {}\n", fmt::join(names, ", "));
}

struct Options {
  std::string folder = ".";
  std::optional<std::string> name;  // the experiment's name; nullopt for the folder's name
};

int init(const Options& options) {
  const std::string& named = options.folder;
  if (named.empty())
    throw Error(ErrorKind::invalid, "init", "FOLDER must not be empty; leave it out for the current folder");
  const fs::path folder = named;
  std::error_code fault;
  const fs::file_status status = fs::status(folder, fault);
  if (fs::exists(status) && !fs::is_directory(status))
    throw Error(ErrorKind::invalid, named, "must be a folder, or must not exist");
  fs::path whole = fs::absolute(folder, fault).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string name = project_name(options.name.value_or(whole.filename().string()));
  if (!options.name && name.empty())
    throw Error(
        ErrorKind::invalid, named,
        fmt::format(
            "cannot derive the experiment's name from the folder's name, which must have a letter a to z or "
            "a digit, only ASCII characters, and at most {} of them; use --name NAME",
            k_name_max));
  if (options.name && (name.empty() || name != *options.name))
    throw Error(ErrorKind::invalid, fmt::format("--name \"{}\"", shortened(*options.name)),
                fmt::format("must be the name of an image: small letters a to z, digits, and - between them, "
                            "{} characters at most",
                            k_name_max));
  const std::vector<InitFile> files = to_be_made(folder);
  Made made;
  std::vector<std::string_view> names;
  for (const InitFile& file : files) {
    write_new(folder / file.path, filled(std::string(file.text), name), made);
    names.push_back(file.path);
  }
  made.keep();
  const bool here = whole == fs::current_path(fault);
  (void)put_out(fmt::format(
      "created the experiment {} in {}: {}\n{}next: {}make run-experiment\n", name, whole.string(),
      fmt::join(names, ", "), left_alone(folder, files),
      here ? std::string()
           : fmt::format("cd {} && ", shell_word(named.starts_with('-') ? "./" + named : named))));
  return 0;
}

}  // namespace

void add_init(CommandLine& line, Action& action) {
  CliCommand command =
      line.add_command("init", "Create an experiment: Makefile, Dockerfile, experiment.jsonnet");
  const auto options = std::make_shared<Options>();
  const auto name = std::make_shared<std::string>();
  command
      .add_option("FOLDER", options->folder,
                  "The folder, created if it is missing; default: the current folder")
      .type_name("");
  command.add_option("--name", *name, "Name of the experiment; default: the folder's name").type_name("NAME");
  command.footer("Example:\n  combu init lab && cd lab && make run-experiment");
  command.callback([command, &action, options, name] {
    if (command.count("--name") > 0) options->name = *name;
    action = [options] { return init(*options); };
  });
}

}  // namespace combu
