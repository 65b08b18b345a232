#include <fmt/format.h>

#include <numeric>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"
#include "view/table.hpp"

namespace combu {

void print_runs(std::ostream& out, std::span<const RunRow> runs, std::size_t columns_max) {
  Table<7> table({"RUN", "EXPERIMENT", "BEGAN", "ENDED", "STATE", "TRIALS", "ENGINE"}, {1, 5, 6});
  for (const RunRow& run : runs) {
    const RunEntry& entry = run.entry;
    table.add({entry.id.text(), entry.experiment, local_time(entry.began_at),
               entry.ended_at ? local_time(*entry.ended_at) : "-",
               fmt::format("{}{}", run.state, entry.engine.is_simulated ? " (simulated)" : ""),
               counts_text(run.counts), entry.engine.address});
  }
  table.print(out, columns_max);
}

void print_runs_json(std::ostream& out, std::span<const RunRow> runs) {
  for (const RunRow& run : runs) {
    const RunEntry& entry = run.entry;
    nlohmann::ordered_json object{{"run", entry.id.text()},
                                  {"experiment", entry.experiment},
                                  {"file", entry.file},
                                  {"state", run.state},
                                  {"began_at", rfc3339(entry.began_at)},
                                  {"ended_at", nullptr},
                                  {"trials", std::accumulate(run.counts.begin(), run.counts.end(), 0UL)},
                                  {"counts", nlohmann::ordered_json::object()},
                                  {"engine", entry.engine.address},
                                  {"simulated", entry.engine.is_simulated}};
    if (entry.ended_at) object["ended_at"] = rfc3339(*entry.ended_at);
    for (std::size_t i = 0; i < run.counts.size(); ++i)
      if (run.counts.at(i) > 0)
        object["counts"][std::string(to_string(static_cast<TrialState>(i)))] = run.counts.at(i);
    out << json_text(object) << '\n';
  }
}

}  // namespace combu
