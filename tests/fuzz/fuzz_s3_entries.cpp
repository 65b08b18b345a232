// Reads texts as objects of a bucket and as answers of its server. No text may cause a crash, and no path may
// lead out of its folder. An entry that is read, written and read again must be the same. The input has four
// texts, each ended by the character RS (0x1e): a manifest, a list of entries, a page of a listing, and the
// path of an input from another trial.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "combu/base.hpp"
#include "combu/inputs.hpp"
#include "outputs/s3_answers.hpp"
#include "outputs/s3_entries.hpp"
#include "outputs/s3_listing.hpp"
#include "outputs/s3_place.hpp"

namespace {

using combu::OutputEntry;

void expect(bool holds) {
  if (!holds) std::abort();
}

void expect_kept(const OutputEntry& entry) {
  const auto again = combu::outputs::read_entries(combu::outputs::entry_line(entry));
  expect(again.size() == 1);
  expect(again[0].kind == entry.kind && again[0].path == entry.path && again[0].target == entry.target);
  expect(again[0].modified == entry.modified);
  expect(entry.kind == OutputEntry::Kind::symbolic_link || again[0].mode == entry.mode);
}

void read_lists(std::string_view manifest, std::string_view entries, const std::string& path) {
  try {
    const combu::outputs::BucketOutputs left = combu::outputs::as_listed(std::string(manifest), entries);
    for (const OutputEntry& entry : left.entries) expect_kept(entry);
    (void)combu::outputs::wanted_of(left, path);
    if (!left.known) return;
    for (const auto& [name, thing] : *left.known) expect(!combu::outputs::leads_out(name));
    (void)combu::content_digest(*left.known, "trial", path);
  } catch (const combu::Error&) {
  }
}

void read_page(std::string_view text) {
  const combu::outputs::S3Page page = combu::outputs::read_page(text);
  for (const combu::outputs::S3Object& object : page.objects) {
    expect(object.key.size() <= text.size());
    (void)combu::outputs::file_entry(object.key, {.mode = object.key, .mtime = object.written});
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr char k_end = 0x1e;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 4> texts;
  for (std::string_view& text : texts) {
    text = rest.substr(0, rest.find(k_end));
    rest.remove_prefix(std::min(text.size() + 1, rest.size()));
  }
  read_lists(texts[0], texts[1], "/" + std::string(texts[3]));
  read_page(texts[2]);
  (void)combu::outputs::s3_place("s3://lab/" + std::string(texts[3]));
  return 0;
}
