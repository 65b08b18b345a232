#include "view/table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "combu/text.hpp"
#include "combu/view.hpp"
#include "progress/forms.hpp"

namespace combu {

void fit_widths(std::span<std::size_t> widths, std::span<const std::size_t> floors, std::size_t columns_max) {
  if (columns_max == 0) return;
  const auto fitted = [&](std::size_t column, std::size_t cap) {
    return std::min(widths[column], std::max(floors[column], cap));
  };
  const auto line_width = [&](std::size_t cap) {
    std::size_t sum = k_column_gap * (widths.size() - 1);
    for (std::size_t column = 0; column < widths.size(); ++column) sum += fitted(column, cap);
    return sum;
  };
  std::size_t cap = columns_max;
  while (cap > 0 && line_width(cap) > columns_max) --cap;
  for (std::size_t column = 0; column < widths.size(); ++column) widths[column] = fitted(column, cap);
}

std::string fit_between(std::string_view begin, std::string_view text, std::string_view end,
                        std::size_t columns_max) {
  std::string clean = clean_line(text);
  if (columns_max > 0) {
    const std::size_t others = columns_of(begin) + columns_of(end);
    const std::size_t left = columns_max > others ? columns_max - others : 0;
    clean = cut_line(clean, std::max(left, k_column_least));
  }
  return fit_line(fmt::format("{}{}{}", begin, clean, end), columns_max);
}

std::string run_title(const RunEntry& run, std::string_view rest, std::size_t columns_max) {
  const std::string_view mark = run.engine.is_simulated ? " (simulated)" : "";
  return fit_between(fmt::format("run {}{} of ", run.id.text(), mark), run.experiment, rest, columns_max);
}

TableForm standard_table() {
  constexpr std::size_t k_rows_of_a_terminal = 100;
  if (isatty(STDOUT_FILENO) == 0) return {};
  return {.columns = screen_size(stdout).columns, .rows = k_rows_of_a_terminal};
}

std::string more_text(std::size_t count) {
  const std::string digits = std::to_string(count);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return fmt::format("… and {} more; --limit 0 shows all", grouped);
}

}  // namespace combu
