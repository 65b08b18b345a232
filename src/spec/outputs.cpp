#include "spec/outputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "spec/fields.hpp"
#include "spec/values.hpp"
#include "spec/volumes.hpp"

namespace combu::spec {
namespace {

constexpr Seconds k_every_min{1};

constexpr std::array k_output_fields{Spelling{"path", "path"}, Spelling{"required", "required"},
                                     Spelling{"max_size", "max_size"}};
constexpr std::array k_collect_fields{Spelling{"to", "to"}, Spelling{"on", "on"}, Spelling{"every", "every"}};

void read_path(const Json& value, const Place& place, Report& report, Output& output) {
  const auto text = read_string(value, place, report);
  if (!text) return;
  // A relative path begins at the scratch folder, which only attempts in workers have (see check_worker()).
  output.in_scratch = !text->starts_with('/');
  std::string path = normalised(output.in_scratch ? "/" + *text : *text);
  if (output.in_scratch && leads_out(*text)) {
    report.add(place, fault_of_scratch_path(*text));
  } else if (path == "/") {
    report.add(place, "must not be the root of the container; name a folder in it");
  } else if (path == "/manifest.sha256" || path == "/manifest.entries") {
    report.add(place, "is reserved for the list of the trial's outputs; name another file");
  } else if (path.find(":/") != std::string::npos) {
    report.add(
        place,
        fmt::format(
            "\"{}\": must be only the path in the container; `collect.to` sets where combu stores outputs",
            shortened(*text)));
  } else if (expect_no_pattern(output.in_scratch ? path.substr(1) : path, place, report)) {
    output.path = std::move(path);
  }
}

Output read_output(const Json& value, const Place& place, Report& report) {
  Output output;
  if (!value.is_object()) {
    read_path(value, place, report, output);
    return output;
  }
  const Section section(value, k_output_fields, place, report);
  if (const Json* path = section.find("path")) {
    read_path(*path, place.key("path"), report, output);
  } else if (section.lacks("path")) {
    report.add(place.key("path"), "missing: the output's path in the container");
  }
  if (const Json* required = section.find("required"))
    output.required = read_flag(*required, place.key("required"), report).value_or(true);
  if (const Json* most = section.find("max_size")) {
    output.size_max = read_unit(*most, "a size such as \"2g\"", parse_bytes, place.key("max_size"), report)
                          .value_or(Bytes{1});
    if (output.size_max.count == 0)
      report.add(place.key("max_size"), "must be more than 0; leave the field out for no limit");
  }
  return output;
}

// Returns "s3://BUCKET[/PREFIX]" without repeated or final slashes, or reports a fault and returns nullopt.
// The rules for the bucket's name are in the Amazon S3 User Guide, "Bucket naming rules".
std::optional<std::string> read_bucket(const std::string& text, const Place& place, Report& report) {
  constexpr std::string_view k_scheme = "s3://";
  const std::filesystem::path path = text.substr(k_scheme.size());
  std::string normal(k_scheme);
  std::string bucket;
  for (const auto& element : path) {
    const std::string part = element.string();
    if (bucket.empty()) {
      bucket = part;
    } else if (part == "." || part == "..") {
      report.add(place,
                 fmt::format("\"{}\": a path in a bucket must not contain `{}`", shortened(text), part));
      return std::nullopt;
    }
    if (!part.empty()) normal += (normal == k_scheme ? "" : "/") + part;
  }
  const auto is_inner = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9') || letter == '.' ||
           letter == '-';
  };
  constexpr std::size_t k_least = 3;
  constexpr std::size_t k_most = 63;
  if (bucket.size() < k_least || bucket.size() > k_most || !std::ranges::all_of(bucket, is_inner)) {
    report.add(place, fmt::format("\"{}\" must be s3://BUCKET or s3://BUCKET/PREFIX; "
                                  "a bucket's name must have 3 to 63 characters from a-z, 0-9, `.` and `-`",
                                  shortened(text)));
    return std::nullopt;
  }
  return normal;
}

}  // namespace

bool expect_no_pattern(const std::string& path, const Place& place, Report& report) {
  const std::size_t at = path.find_first_of("*?[");
  if (at == std::string::npos) return true;
  const std::size_t slash = path.rfind('/', at);
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  report.add(
      place,
      fmt::format("\"{}\": must be a path without a pattern such as `{}`; name {}", shortened(path), path[at],
                  folder.empty() ? "each file or folder" : fmt::format("the folder {}", shortened(folder))));
  return false;
}

std::vector<Output> read_outputs(const Json& value, const Place& place, Report& report) {
  std::vector<Output> outputs;
  const auto take = [&](const Json& element, const Place& here) {
    Output output = read_output(element, here, report);
    if (output.path.empty()) return;
    const auto other = std::ranges::find_if(outputs, [&](const Output& one) {
      return holds_path(one.path, output.path) || holds_path(output.path, one.path);
    });
    if (other == outputs.end()) {
      outputs.push_back(std::move(output));
    } else if (other->path == output.path && other->in_scratch == output.in_scratch) {
      report.add(here, fmt::format("{} is named twice", output.path_in_container()));
    } else {
      const bool is_within = holds_path(other->path, output.path);
      const Output& inner = is_within ? output : *other;
      const Output& outer = is_within ? *other : output;
      report.add(
          here, inner.in_scratch == outer.in_scratch
                    ? fmt::format("{} is within {}, which is collected as a whole", inner.path_in_container(),
                                  outer.path_in_container())
                    : fmt::format("{} and {} would have the same path in the results folder; rename one",
                                  outer.path_in_container(), inner.path_in_container()));
    }
  };
  if (value.is_object()) {
    take(value, place);
  } else {
    read_list(value, "paths in the container", place, report, take);
  }
  return outputs;
}

Collect read_collect(const Json& value, const Caller& caller, const Place& place, Report& report) {
  Collect collect{.to = absolute_path("results", caller)};
  if (!value.is_object()) {
    report.add(place, fmt::format("must be {{to, on, every}}, not {}", shown(value)));
    return collect;
  }
  const Section section(value, k_collect_fields, place, report);
  if (const Json* to = section.find("to")) {
    const auto text = read_string(*to, place.key("to"), report);
    if (text && text->starts_with("s3://")) {
      collect.to = read_bucket(*text, place.key("to"), report).value_or(collect.to);
    } else if (text && (text->find("://") != std::string::npos || text->starts_with("s3:"))) {
      report.add(place.key("to"), fmt::format("\"{}\" is not supported: name a folder, or s3://BUCKET/PREFIX",
                                              shortened(*text)));
    } else if (text && text->empty()) {
      report.add(place.key("to"), "the folder's path is empty");
    } else if (text && text->starts_with('$')) {
      report.add(place.key("to"),
                 fmt::format("\"{}\": variables are not expanded; write ~/… for your home folder",
                             shortened(*text)));
    } else if (text && text->starts_with('~') && *text != "~" && !text->starts_with("~/")) {
      report.add(place.key("to"),
                 fmt::format("\"{}\": only your own home folder, `~/`, is supported; write an absolute path",
                             shortened(*text)));
    } else if (text) {
      collect.to = absolute_path(*text, caller);
    }
  }
  if (const Json* on = section.find("on")) {
    if (const auto choice = read_choice(*on, {"always", "success"}, place.key("on"), report))
      collect.on = static_cast<CollectOn>(*choice);
  }
  if (const Json* every = section.find("every")) {
    collect.every = read_duration(*every, place.key("every"), report).value_or(k_every_min);
    if (collect.every < k_every_min)
      report.add(place.key("every"),
                 fmt::format("must be at least {:g}s; leave the field out to collect outputs only at the end",
                             k_every_min.count()));
  }
  return collect;
}

}  // namespace combu::spec
