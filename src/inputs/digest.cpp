#include <fmt/format.h>

#include "combu/inputs.hpp"
#include "inputs/content.hpp"
#include "inputs/walk.hpp"

namespace combu {
namespace inputs {

// Told apart from what follows, whatever it holds.
void Content::add_text(std::string_view text) {
  sum_.add(fmt::format("{}:{},", text.size(), text));
}

void Content::add(const Found& found) {
  const auto mode = found.status.st_mode;
  add_text(found.name);
  if (S_ISLNK(mode)) {
    sum_.add("link ");
    add_text(read_link(found));
  } else if (S_ISDIR(mode)) {
    sum_.add("folder ");
  } else {
    sum_.add(fmt::format("{} {} ", (mode & S_IXUSR) != 0 ? "program" : "file", found.status.st_size));
  }
}

}  // namespace inputs

std::string content_digest(const std::string& path, const std::stop_token& stop) {
  inputs::Content content;
  const auto go_on = [&] {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, path, "cancelled");
    return true;
  };
  inputs::walk(path, [&](const inputs::Found& found) {
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
