#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <sstream>

#include "combu/analysis.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "view/table.hpp"

namespace combu {
namespace {

std::string state_text(const TrialRow& row) {
  const std::string_view state = to_string(row.entry.state);
  if (row.entry.state != TrialState::running || row.health == Health::none) return std::string(state);
  return fmt::format("{} ({})", state, to_string(row.health));
}

std::string attempt_text(const TrialRow& row) {
  return row.entry.attempt == 0 ? "-" : std::to_string(row.entry.attempt);
}

std::optional<Usage> usage_of(const TrialRow& row) {
  return row.entry.state == TrialState::running ? row.usage : row.entry.usage;
}

std::string memory_text(const TrialRow& row) {
  const auto usage = usage_of(row);
  return usage ? to_string(usage->memory) : "-";
}

// Returns the mean number of cores that a running trial has used, for example "1.5 cores" or "0.03 cores".
// Returns the CPU time of any other trial, for example "42.0 s".
std::string cpu_text(const TrialRow& row, const std::optional<Seconds>& ran) {
  const auto usage = usage_of(row);
  if (!usage) return "-";
  if (row.entry.state != TrialState::running) return to_string(usage->cpu);
  if (!ran || *ran <= Seconds(0)) return "-";
  const double cores = usage->cpu / *ran;
  return fmt::format("{:.{}f} cores", cores, cores < 1 ? 2 : 1);
}

std::string timestamp_json(const std::optional<Instant>& at) {
  return at ? fmt::format("\"{}\"", rfc3339(*at)) : "null";
}

// Converts a comma-separated list to a JSON array of strings.
std::string gpus_text(const std::string& gpus) {
  if (gpus.empty()) return "null";
  std::string array;
  std::istringstream ids(gpus);
  for (std::string id; std::getline(ids, id, ',');) array += (array.empty() ? "" : ",") + json_string(id);
  return "[" + array + "]";
}

std::string text_or_null(std::string_view text) {
  return text.empty() ? "null" : json_string(text);
}

std::string outputs_json(const std::optional<CollectionResult>& collection) {
  if (!collection) return "null";
  std::string left;
  for (const std::string& path : collection->left) left += (left.empty() ? "" : ",") + json_string(path);
  return fmt::format(R"({{"files":{},"bytes":{},"left":[{}]}})", collection->files, collection->size.count,
                     left);
}

void print_table(std::ostream& out, std::span<const TrialRow> rows, Instant now, std::size_t columns_max) {
  Table<5> table({"TRIAL", "STATE", "ATTEMPT", "RAN", "REASON"}, {0, 4});
  table.reserve(rows.size());
  for (const TrialRow& row : rows) {
    const std::optional<Seconds> time = time_of(row.entry, now);
    table.add({row.entry.name, state_text(row), attempt_text(row), time ? to_string(*time) : "-",
               reason_text(row.entry)});
  }
  table.print(out, columns_max);
}

void print_table_with_use(std::ostream& out, std::span<const TrialRow> rows, Instant now,
                          std::size_t columns_max) {
  Table<7> table({"TRIAL", "STATE", "ATTEMPT", "RAN", "MEMORY", "CPU", "REASON"}, {0, 6});
  table.reserve(rows.size());
  for (const TrialRow& row : rows) {
    const std::optional<Seconds> time = time_of(row.entry, now);
    table.add({row.entry.name, state_text(row), attempt_text(row), time ? to_string(*time) : "-",
               memory_text(row), cpu_text(row, time), reason_text(row.entry)});
  }
  table.print(out, columns_max);
}

}  // namespace

std::string outputs_text(const CollectionResult& collection) {
  return fmt::format("{}, {}", number_of(collection.files, "file"), to_string(collection.size));
}

void print_trials(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now,
                  const TableForm& form) {
  const std::string counts =
      run.state.empty() ? "" : fmt::format(", {}: {}", run.state, counts_text(run.counts));
  out << run_title(run.entry, counts, form.columns) << '\n';
  const std::size_t shown = form.shown(trials.size());
  const std::span<const TrialRow> rows = trials.first(shown);
  const bool any_use =
      std::ranges::any_of(rows, [](const TrialRow& row) { return usage_of(row).has_value(); });
  (any_use ? print_table_with_use : print_table)(out, rows, now, form.columns);
  if (shown < trials.size()) out << more_text(trials.size() - shown) << '\n';
  if (trials.size() != 1 || !trials.front().entry.collection) return;
  const CollectionResult& collection = *trials.front().entry.collection;
  out << "outputs: " << outputs_text(collection) << '\n';
  for (const std::string& path : collection.left) out << fmt::format("not collected: {}\n", clean_line(path));
}

// Formats JSON without a library for speed: there may be 100,000 trials, and their params are JSON already.
void print_trials_json(std::ostream& out, const RunRow& run, std::span<const TrialRow> trials, Instant now) {
  const std::string of = fmt::format(R"({{"experiment":{},"run":{},"trial":)",
                                     json_string(run.entry.experiment), json_string(run.entry.id.text()));
  std::string text;
  for (const TrialRow& row : trials) {
    text.clear();
    const TrialEntry& entry = row.entry;
    const std::optional<Seconds> time = time_of(entry, now);
    const std::optional<Usage> usage = usage_of(row);
    const bool runs = entry.state == TrialState::running;
    text +=
        fmt::format(R"({}{},"attempt":{},"state":"{}","health":{},"exit_code":{},"cause":{},"reason":{},)",
                    of, json_string(entry.name), entry.attempt, to_string(entry.state),
                    text_or_null(row.health == Health::none ? "" : to_string(row.health)),
                    entry.exit_code ? std::to_string(*entry.exit_code) : "null",
                    text_or_null(entry.cause == Cause::none ? "" : to_string(entry.cause)),
                    text_or_null(reason_text(entry)));
    text += fmt::format(
        R"("image":{},"digest":{},"params":{},"id":{},"created_at":{},"ran_at":{},"ended_at":{},"seconds":{},"gpus":{},"memory":{},"memory_peak":{},"cpu_seconds":{},"version":{},"outputs":{},"simulated":{}}})"
        "\n",
        json_string(entry.image), text_or_null(entry.digest), entry.params.empty() ? "null" : entry.params,
        json_string(entry.container),
        timestamp_json(row.created_at == Instant{} ? std::nullopt : std::optional(row.created_at)),
        timestamp_json(entry.ran_at), timestamp_json(entry.ended_at),
        time ? fmt::format("{:.6f}", time->count()) : "null", gpus_text(entry.gpus),
        usage && runs ? std::to_string(usage->memory.count) : "null",
        usage && !runs ? std::to_string(usage->memory.count) : "null",
        usage ? fmt::format("{:.6f}", usage->cpu.count()) : "null", entry.revision,
        outputs_json(entry.collection), run.entry.engine.is_simulated);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
  }
}

}  // namespace combu
