#include "spec/volumes.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "spec/fields.hpp"
#include "spec/names.hpp"
#include "spec/values.hpp"

namespace combu::spec {

namespace {

constexpr std::array k_volume_fields{Spelling{"host", "host"},        Spelling{"container", "container"},
                                     Spelling{"mode", "mode"},        Spelling{"source", "host"},
                                     Spelling{"target", "container"}, Spelling{"read_only", "read_only"},
                                     Spelling{"type", "type"},        Spelling{"remote", "remote"}};

bool is_path(std::string_view source) {
  return source.find('/') != std::string_view::npos || source.starts_with('.') || source.starts_with('~');
}

class VolumeReader {
 public:
  VolumeReader(const Caller& caller, const Place& place, Report& report)
      : caller_(caller), place_(place), report_(report) {}

  std::optional<Volume> from_string(const Json& value) {
    const auto text = read_string(value, place_, report_);
    if (!text) return std::nullopt;
    const std::size_t first = text->find(':');
    if (first == std::string::npos) {
      report_.add(place_,
                  fmt::format(R"("{}" is not a volume: write "HOST:CONTAINER" or "HOST:CONTAINER:ro")",
                              shortened(*text)));
      return std::nullopt;
    }
    const std::size_t second = text->find(':', first + 1);
    const bool has_mode = second != std::string::npos;
    const std::string mode = has_mode ? text->substr(second + 1) : "rw";
    if (mode != "rw" && mode != "ro") {
      report_.add(place_, fmt::format("the mode must be rw or ro, not \"{}\"", shortened(mode)));
      return std::nullopt;
    }
    const std::string target = text->substr(first + 1, has_mode ? second - first - 1 : std::string::npos);
    return make(from_source(text->substr(0, first), place_), target, place_, mode == "ro");
  }

  std::optional<Volume> from_object(const Json& value) {
    const Section section(value, k_volume_fields, place_, report_);
    const auto text = [&](std::string_view name) -> std::optional<std::string> {
      if (const Json* given = section.find(name))
        return read_string(*given, place_.key(section.spelling(name)), report_);
      if (section.lacks(name))
        report_.add(place_.key(name), "missing: a volume needs `host` and `container`");
      return std::nullopt;
    };
    const auto source = text("host");
    const auto target = text("container");
    const auto read_only = access(section);
    const auto remote = flag(section, "remote");
    if (!source || !target || !read_only || !remote || !known_type(section)) return std::nullopt;
    const Place source_place = place_.key(section.spelling("host"));
    return make(*remote ? from_remote(*source, source_place) : from_source(*source, source_place), *target,
                place_.key(section.spelling("container")), *read_only);
  }

 private:
  std::optional<bool> access(const Section& section) {
    if (const Json* mode = section.find("mode")) {
      const auto choice = read_choice(*mode, {"rw", "ro"}, place_.key("mode"), report_);
      return choice ? std::optional(*choice == 1) : std::nullopt;
    }
    return flag(section, "read_only");
  }
  std::optional<bool> flag(const Section& section, std::string_view name) {
    const Json* given = section.find(name);
    return given == nullptr ? std::optional(false) : read_flag(*given, place_.key(name), report_);
  }
  // Compose's field `type` is redundant, because the source shows the type. Only the value of the field is
  // checked.
  bool known_type(const Section& section) {
    const Json* type = section.find("type");
    return type == nullptr || read_choice(*type, {"bind", "volume"}, place_.key("type"), report_);
  }
  // `volume`: the result of from_source() or from_remote()
  std::optional<Volume> make(std::optional<Volume> volume, const std::string& target,
                             const Place& target_place, bool read_only) {
    if (!target.starts_with('/')) {
      report_.add(target_place,
                  fmt::format("the path in the container, \"{}\", must begin with `/`", shortened(target)));
      return std::nullopt;
    }
    if (!volume) return std::nullopt;
    volume->target = normalised(target);
    if (volume->target == "/") {
      report_.add(target_place, "the container's root cannot be a volume");
      return std::nullopt;
    }
    volume->read_only = read_only;
    volume->path = place_.text();
    return volume;
  }
  std::optional<Volume> from_remote(const std::string& source, const Place& place) {
    if (!source.starts_with('/')) {
      report_.add(
          place,
          fmt::format("\"{}\" must begin with `/`, because `remote` is only for paths on the host where "
                      "the trial runs; write an absolute path, or remove `remote`",
                      shortened(source)));
      return std::nullopt;
    }
    Volume volume;
    volume.source = normalised(source);
    volume.folder_meant = source.ends_with('/');
    volume.remote = true;
    return volume;
  }
  std::optional<Volume> from_source(const std::string& source, const Place& place) {
    Volume volume;
    if (source.empty()) {
      report_.add(place, "the host's path is empty");
      return std::nullopt;
    }
    volume.source_is_path = is_path(source);
    if (!volume.source_is_path) {
      if (const auto fault = fault_of_named_volume(source)) {
        report_.add(place, *fault + "; a path must begin with `/`, `./` or `~/`");
        return std::nullopt;
      }
      volume.source = source;
      return volume;
    }
    if (source.starts_with('~') && source != "~" && !source.starts_with("~/")) {
      report_.add(place,
                  fmt::format("\"{}\": only your own home folder, `~/`, is supported; write an absolute path",
                              shortened(source)));
      return std::nullopt;
    }
    volume.folder_meant = source.ends_with('/');
    volume.source = absolute_path(source, caller_);
    return volume;
  }

  const Caller& caller_;
  const Place& place_;
  Report& report_;
};

}  // namespace

std::string fault_of_own_folder(std::string_view path) {
  if (!holds_path("/combu", path)) return "";
  return fmt::format("{} is in the folder /combu, which combu uses; choose another path", shortened(path));
}

std::string normalised(const std::filesystem::path& path) {
  std::string text = path.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

bool leads_out(const std::filesystem::path& path) {
  const std::filesystem::path normal = path.lexically_normal();
  const std::string first = normal.empty() ? "" : normal.begin()->string();
  return first.empty() || first == "." || first == "..";
}

std::string fault_of_scratch_path(const std::string& path) {
  return fmt::format(
      "\"{}\" must be an absolute path or, with `worker`, a path within the attempt's scratch folder",
      shortened(path));
}

std::string absolute_path(const std::string& path, const Caller& caller) {
  if (path == "~" || path.starts_with("~/")) return normalised(caller.home + "/" + path.substr(1));
  return normalised(std::filesystem::path(caller.folder) / path);
}

std::vector<Volume> read_volumes(const Json& value, const Caller& caller, const Place& place,
                                 Report& report) {
  std::vector<Volume> volumes;
  if (!value.is_array()) {
    report.add(place, fmt::format("must be an array of volumes, such as [\"./data:/data:ro\"], not {}",
                                  kind_of(value)));
    return volumes;
  }
  std::unordered_set<std::string> targets;
  std::size_t index = 0;
  for (const Json& element : value) {
    const Place here = place.index(index++);
    VolumeReader reader(caller, here, report);
    std::optional<Volume> volume;
    if (element.is_string()) {
      volume = reader.from_string(element);
    } else if (element.is_object()) {
      volume = reader.from_object(element);
    } else {
      report.add(here, fmt::format("must be \"HOST:CONTAINER\" or {{host, container, mode}}, not {}",
                                   kind_of(element)));
    }
    if (!volume) continue;
    if (!targets.insert(volume->target).second) {
      report.add(here, fmt::format("two volumes have the same path in the container, {}",
                                   shortened(volume->target)));
      continue;
    }
    volumes.push_back(std::move(*volume));
  }
  return volumes;
}

}  // namespace combu::spec
