#include <fmt/format.h>

#include "combu/inputs.hpp"
#include "inputs/content.hpp"
#include "inputs/walk.hpp"

namespace combu {
namespace inputs {

// Adds the length of the text, too, so that different sequences of texts have different digests.
void Content::add_text(std::string_view text) {
  sum_.add(fmt::format("{}:{},", text.size(), text));
}

void Content::add(std::string_view name, const ContentEntry& thing) {
  add_text(name);
  switch (thing.kind) {
    case ContentEntry::Kind::folder:
      return sum_.add("folder ");
    case ContentEntry::Kind::file:
      sum_.add(thing.is_program ? "program " : "file ");
      return add_text(thing.text);
    case ContentEntry::Kind::link:
      sum_.add("link ");
      return add_text(thing.text);
  }
}

void Content::add(const Found& found) {
  end_file();
  const auto mode = found.status.st_mode;
  if (S_ISREG(mode)) {
    file_.emplace(File{.name = std::string(found.name),
                       .thing = {.kind = ContentEntry::Kind::file, .is_program = (mode & S_IXUSR) != 0}});
  } else if (S_ISLNK(mode)) {
    add(found.name, {.kind = ContentEntry::Kind::link, .text = found.target});
  } else {
    add(found.name, {.kind = ContentEntry::Kind::folder});
  }
}

void Content::end_file() {
  if (!file_) return;
  file_->thing.text = file_->sum.text();
  add(file_->name, file_->thing);
  file_.reset();
}

std::string Content::digest() {
  end_file();
  return "sha256:" + sum_.text();
}

}  // namespace inputs

std::string content_digest(const Input& input, const std::stop_token& stop) {
  inputs::Content content;
  const auto go_on = [&] {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, input.from, "cancelled");
    return true;
  };
  inputs::walk(input, [&](const inputs::Found& found) {
    content.add(found);
    if (S_ISREG(found.status.st_mode))
      inputs::read_file(found, [&](std::string_view bytes) {
        content.add(bytes);
        return go_on();
      });
    return go_on();
  });
  return content.digest();
}

}  // namespace combu
