#include <fmt/format.h>

#include "combu/json.hpp"
#include "combu/text.hpp"
#include "combu/view.hpp"

namespace combu {

void print_findings(std::ostream& out, std::span<const Finding> findings) {
  for (const Finding& finding : findings)
    out << fmt::format("{:<7} {}: {}{}{}\n", to_string(finding.kind), finding.subject,
                       clean_line(finding.text), finding.remedy.empty() ? "" : "; ", finding.remedy);
}

void print_findings_json(std::ostream& out, std::span<const Finding> findings) {
  for (const Finding& finding : findings) {
    const nlohmann::ordered_json object{{"kind", to_string(finding.kind)},
                                        {"subject", finding.subject},
                                        {"text", finding.text},
                                        {"remedy", finding.remedy}};
    out << json_text(object) << '\n';
  }
}

}  // namespace combu
