#include "outputs/place_folders.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <functional>
#include <system_error>

namespace combu::outputs {
namespace {

// `make` has the same meaning as for open_without_links().
Descriptor opened_place(const std::string& folder,
                        const std::function<int(int above, const std::string& name)>& make) {
  const OpenedFolder opened = open_without_links(folder, make);
  if (opened.code == ENOTDIR)
    throw Error(ErrorKind::refused, opened.failed,
                "cannot be opened: it must be a folder, because combu follows no symbolic links below "
                "`collect.to`; remove it, or choose another `collect.to`");
  if (opened.code == ENOENT && !make) return Descriptor();
  if (!opened.folder.is_open())
    refuse(opened.failed, make ? "cannot be made" : "cannot be opened", opened.code);
  Descriptor place(openat(opened.folder.number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!place.is_open()) refuse(folder, "cannot be opened", errno);
  return place;
}

}  // namespace

void refuse(const std::string& path, const char* what, int code) {
  throw Error(ErrorKind::refused, path, fmt::format("{}: {}", what, std::generic_category().message(code)));
}

Descriptor open_place(const std::string& folder) {
  return opened_place(folder, {});
}

Descriptor make_folders(const std::string& folder, std::optional<Owner> owner) {
  return opened_place(folder, [&](int above, const std::string& name) {
    // A writer for another trial may make the folder at the same time.
    if (mkdirat(above, name.c_str(), k_permissions) != 0) return errno == EEXIST ? 0 : errno;
    const bool is_given =
        !owner || fchownat(above, name.c_str(), owner->uid, owner->gid, AT_SYMLINK_NOFOLLOW) == 0;
    return is_given ? 0 : errno;
  });
}

}  // namespace combu::outputs
