#include "app/reproduction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <string_view>
#include <vector>

#include "combu/json.hpp"
#include "combu/jsonnet.hpp"
#include "combu/session.hpp"
#include "combu/text.hpp"
#include "combu/workspace.hpp"

namespace combu {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t k_files_named = 5;
constexpr std::string_view k_run = "run";

std::string literal(std::string_view text) {
  return json_text(OrderedJson(text));
}

// Finds the run's id in the evaluated text. A short id, which a user chose, matches only whole words: the id
// "one" does not match in "none". If the file does not use the run's id, nothing matches.
class IdFinder {
 public:
  explicit IdFinder(const RunEntry& entry) : id_(entry.id.text()), is_asked_for_(asks_for_id(entry)) {}

  [[nodiscard]] bool is_word() const { return is_asked_for_ && id_.size() < k_random_size; }

  // Returns the parts of `text` before, between and after the occurrences of the run's id.
  [[nodiscard]] std::vector<std::string_view> parts(std::string_view text) const {
    std::vector<std::string_view> parts;
    std::size_t from = 0;
    for (std::size_t at = find(text, 0); at != std::string_view::npos; at = find(text, at + 1)) {
      if (at < from) continue;
      parts.push_back(text.substr(from, at - from));
      from = at + id_.size();
    }
    parts.push_back(text.substr(from));
    return parts;
  }

 private:
  static constexpr std::size_t k_random_size = 12;

  static bool asks_for_id(const RunEntry& entry) {
    const std::string& source = entry.text.source;
    return source.empty() || source.find("combu.run") != std::string::npos ||
           source.find("import") != std::string::npos || put_identifier(source, entry.id) != source;
  }

  [[nodiscard]] std::size_t find(std::string_view text, std::size_t from) const {
    if (!is_asked_for_) return std::string_view::npos;
    const auto is_letter = [&](std::size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    std::size_t at = text.find(id_, from);
    while (is_word() && at != std::string_view::npos && (is_letter(at - 1) || is_letter(at + id_.size())))
      at = text.find(id_, at + 1);
    return at;
  }

  std::string_view id_;
  bool is_asked_for_;
};

// Returns `text` as a Jsonnet expression. Where `text` contains the recorded run's id, the expression inserts
// the new run's id.
std::string text_in_jsonnet(std::string_view text, const IdFinder& finder) {
  std::vector<std::string> literals;
  for (const std::string_view part : finder.parts(text)) literals.push_back(literal(part));
  return fmt::format("{}", fmt::join(literals, fmt::format(" + {} + ", k_run)));
}

std::string key_in_jsonnet(std::string_view key, const IdFinder& finder) {
  const std::string code = text_in_jsonnet(key, finder);
  return code == literal(key) ? code : fmt::format("[{}]", code);
}

void write(const OrderedJson& value, const IdFinder& finder, const std::string& indent, std::string& out) {
  const std::string inner = indent + "  ";
  if (value.is_structured() && !value.empty()) {
    out += value.is_array() ? "[\n" : "{\n";
    for (const auto& element : value.items()) {
      out += inner;
      if (value.is_object()) out += key_in_jsonnet(element.key(), finder) + ": ";
      write(element.value(), finder, inner, out);
      out += ",\n";
    }
    out += indent + (value.is_array() ? "]" : "}");
  } else if (value.is_string()) {
    out += text_in_jsonnet(value.get_ref<const std::string&>(), finder);
  } else {
    out += json_text(value);
  }
}

// Replaces the image in `fields`, the fields of a trial or of the defaults, by the recorded image.
void pin_image(OrderedJson& fields, const Digests& references) {
  const auto image = fields.is_object() ? fields.find("image") : fields.end();
  if (image == fields.end() || !image->is_string()) return;
  const std::string name = *image;
  const auto found = references.lower_bound({name, fields.value("platform", "")});
  if (found == references.end() || found->first.first != name) return;
  if (found->second.find("sha256:") == std::string::npos) return;
  *image = found->second;
  for (const char* pull : {"pull", "pull_policy"})
    if (fields.value(pull, "") == "always") fields.erase(pull);
}

bool is_as_it_was(const RunEntry& entry) {
  const GitRevision now = revision_of(entry.folder, entry.text.evaluated);
  return now.commit == entry.revision && now.working_tree.diff == entry.working_tree.diff;
}

}  // namespace

std::string evaluated_again(const RunEntry& entry, int revision) {
  const bool is_earlier = revision > 0 && static_cast<std::size_t>(revision) <= entry.earlier.size();
  OrderedJson file = parse_ordered_json(is_earlier ? entry.earlier[static_cast<std::size_t>(revision - 1)]
                                                   : entry.text.evaluated);
  if (file.is_array()) file = OrderedJson{{"trials", std::move(file)}};
  // Keep the experiment's name: before a run, combu removes old containers only of the same experiment.
  file["experiment"] = entry.experiment;
  if (file.contains("defaults")) pin_image(file["defaults"], entry.references);
  for (OrderedJson& trial : file["trials"]) pin_image(trial, entry.references);
  // A newline in the path would end the comment.
  const std::string title =
      fit_line(fmt::format("// Run {} of {}, as it was evaluated.", entry.id.text(), entry.file), 0);
  std::string out = fmt::format("{}\nlocal {} = std.extVar(\"combu.run\");\n", title, k_run);
  write(file, IdFinder(entry), "", out);
  return out + "\n";
}

std::string reproduction(const RunEntry& entry, const std::vector<std::string>& trials,
                         const std::string& engine) {
  std::vector<std::string> notes;
  std::vector<std::string> commands{fmt::format("cd {}", shell_word(entry.folder))};
  const WorkingTree& tree = entry.working_tree;
  if (!entry.revision.empty() && !is_as_it_was(entry)) {
    commands.emplace_back("git diff --stat --exit-code HEAD");
    commands.push_back(fmt::format("git checkout --detach {}", entry.revision));
    if (!tree.diff.empty() && !tree.is_cut)
      commands.push_back(fmt::format(
          "combu show --diff --run {} | git -C \"$(git rev-parse --show-toplevel)\" apply", entry.id.text()));
  }
  if (!tree.problem.empty())
    notes.push_back(
        fmt::format("the folder's version is not recorded, or only in part: {}", fit_line(tree.problem, 0)));
  else if (entry.revision.empty())
    notes.emplace_back("the folder was not under version control");
  if (tree.is_cut) notes.emplace_back("the recorded diff of the working tree is incomplete");
  if (!tree.by_index.empty())
    notes.push_back(fmt::format("files with a git filter, compared by the index only: {}",
                                list_text(tree.by_index, k_files_named)));
  if (!tree.left_out.empty())
    notes.push_back(
        fmt::format("changed files that are not recorded: {}", list_text(tree.left_out, k_files_named)));
  if (!tree.untracked.empty())
    notes.push_back(fmt::format("files that were not under version control: {}",
                                list_text(tree.untracked, k_files_named)));
  const IdFinder finder(entry);
  std::vector<std::string> names;
  std::vector<std::string> only;
  for (const std::string& trial : trials) {
    names.push_back(shell_word(trial));
    only.push_back("--only " + shell_word(fmt::format("{}", fmt::join(finder.parts(trial), k_run_id_word))));
  }
  if (finder.is_word())
    notes.push_back(fmt::format("each word `{}` is treated as the run's id", entry.id.text()));
  commands.push_back(fmt::format("combu show --evaluated --run {} {} | combu {}-f - run {} --no-cache --wait",
                                 entry.id.text(), fmt::join(names, " "),
                                 engine.empty() ? "" : fmt::format("--engine {} ", shell_word(engine)),
                                 fmt::join(only, " ")));
  std::string text;
  for (const std::string& note : notes) text += fmt::format("# {}\n", note);
  return text + fmt::format("{}\n", fmt::join(commands, " &&\n"));
}

}  // namespace combu
