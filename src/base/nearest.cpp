#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "combu/base.hpp"

namespace combu {
namespace {

// Returns the optimal string alignment distance of two words. Each insertion, deletion, substitution and swap
// of two adjacent characters costs one.
std::size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<std::size_t> before_last(right.size() + 1);
  std::vector<std::size_t> last(right.size() + 1);
  std::vector<std::size_t> current(right.size() + 1);
  for (std::size_t j = 0; j <= right.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= left.size(); ++i) {
    current[0] = i;
    for (std::size_t j = 1; j <= right.size(); ++j) {
      const std::size_t substitution = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      current[j] = std::min({last[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        current[j] = std::min(current[j], before_last[j - 2] + 1);
      }
    }
    before_last.swap(last);
    last.swap(current);
  }
  return last[right.size()];
}

// Returns true if `word` abbreviates `known`, as "img" abbreviates "image". `word` and `known` must begin
// with the same letter, and `known` must contain the letters of `word` in the same order. `word` must have at
// least three letters and at least half of the length of `known`, so "dns" does not abbreviate "depends".
bool abbreviates(std::string_view word, std::string_view known) {
  constexpr std::size_t k_letters_least = 3;
  if (word.size() < k_letters_least || 2 * word.size() < known.size()) return false;
  if (known.empty() || word.front() != known.front()) return false;
  std::size_t met = 0;
  for (const char letter : known) met += met < word.size() && word[met] == letter ? 1 : 0;
  return met == word.size();
}

std::optional<std::string_view> shortest_abbreviated(std::string_view word,
                                                     const std::vector<std::string_view>& known) {
  std::optional<std::string_view> best;
  for (const std::string_view candidate : known)
    if (abbreviates(word, candidate) && (!best || candidate.size() < best->size())) best = candidate;
  return best;
}

}  // namespace

std::optional<std::string_view> nearest(std::string_view word, const std::vector<std::string_view>& known) {
  const std::size_t distance_max = std::max<std::size_t>(1, word.size() / 3);
  std::optional<std::string_view> best;
  std::size_t best_distance = distance_max + 1;
  for (const std::string_view candidate : known) {
    // The difference of the lengths is a lower bound of the edit distance. The check of the lengths keeps
    // edit_distance() from building a huge table for a huge word.
    const std::size_t difference =
        std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size());
    if (difference >= best_distance) continue;
    const std::size_t distance = edit_distance(word, candidate);
    // If the edit distance equals the length of the longer word, the two words are not similar.
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best ? best : shortest_abbreviated(word, known);
}

}  // namespace combu
