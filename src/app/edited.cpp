#include "app/edited.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "app/changes.hpp"
#include "app/load.hpp"
#include "app/values.hpp"
#include "combu/json.hpp"
#include "combu/jsonnet.hpp"
#include "combu/text.hpp"

namespace combu {
namespace {

// The time limit of an evaluation that serves only for a note to the user.
constexpr const char* k_note_time = "10s";

std::vector<Import> imports_of(const RunEntry& entry) {
  std::vector<Import> imports;
  const auto object = parse_json(entry.text.imports);
  for (const auto& [path, sha256] : object.items())
    imports.push_back({.path = path, .sha256 = sha256.get<std::string>()});
  return imports;
}

std::string words_of(const Changes& changes) {
  const std::size_t count = changes.changed() + changes.joined + changes.gone;
  return count == 0 ? "no trial differs"
                    : fmt::format("{} {}", number_of(count, "trial"), count == 1 ? "differs" : "differ");
}

}  // namespace

void note_edits(Progress& progress, Record& record, const RunEntry& entry, const Invocation& invocation,
                std::string_view command) {
  if (entry.file.ends_with("/-")) return;
  const std::string run = fmt::format("run {}: ", entry.id.text());
  try {
    const bool is_known = !entry.text.imports.empty();
    if (is_known && is_unchanged(entry.file, entry.text.source, imports_of(entry))) return;
    Invocation now = invocation_for(entry, invocation);
    now.evaluate_time = k_note_time;
    const Loaded file = load_or_throw(now, entry.id, [&] {
      progress.phase(fmt::format("evaluating {}, to compare it with the record", entry.file));
    });
    progress.end();
    if (!is_known && file.text.evaluated == entry.text.evaluated) return;
    const Loaded on_record = load(record, entry.id);
    const Changes changes =
        compare_with_file(entry.id, on_record.run.experiment, record.restored_trials(entry.id),
                          named_until_now(entry, on_record.caller), file.run.experiment, {});
    progress.note(
        fmt::format("{}{} was edited after it was recorded, and {}; `{}` uses the recorded text, or with "
                    "--edited the current file",
                    run, entry.file, words_of(changes), command));
  } catch (const std::exception& error) {
    const auto* own = dynamic_cast<const Error*>(&error);
    if (own != nullptr && own->kind() == ErrorKind::cancelled) throw;
    progress.end();
    progress.note(
        fmt::format("{}the recorded text is used; the current file cannot be read: {}", run, error.what()));
  }
}

}  // namespace combu
