#include "control/socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "combu/system.hpp"

namespace combu::control {
namespace {

constexpr int k_waiting_max = 16;  // maximum number of connections that wait to be accepted
constexpr time_t k_patience_s = 5;

std::string why() {
  return std::generic_category().message(errno);
}

// A short address for a socket path of any length: /proc/self/fd/NUMBER/NAME. NUMBER is the descriptor of the
// opened folder, and NAME is the socket's file name.
class ShortPath {
 public:
  explicit ShortPath(const std::filesystem::path& path)
      : folder_(open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    const std::string text = fmt::format("/proc/self/fd/{}/{}", folder_.number(), path.filename().string());
    text.copy(address_.sun_path, sizeof address_.sun_path - 1);
  }
  [[nodiscard]] bool is_there() const { return folder_.number() >= 0; }
  // The socket functions take the address of every family as a pointer to sockaddr (socket(7)).
  [[nodiscard]] const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&address_); }
  static constexpr socklen_t k_size = sizeof(sockaddr_un);

 private:
  Descriptor folder_;
  sockaddr_un address_{.sun_family = AF_UNIX, .sun_path = {}};
};

Descriptor make_socket(int flags) {
  return Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0));
}

}  // namespace

Descriptor listen_at(const std::string& path) {
  const std::filesystem::path place(path);
  make_private_folder(place.parent_path());
  std::error_code none;
  std::filesystem::remove(place, none);
  const ShortPath at(place);
  Descriptor made = make_socket(SOCK_NONBLOCK);
  constexpr mode_t k_mode = 0600;
  // fchmod() must come before bind(), because bind() gives the socket's file the mode that the socket has.
  if (!at.is_there() || made.number() < 0 || fchmod(made.number(), k_mode) != 0 ||
      bind(made.number(), at.address(), ShortPath::k_size) != 0 || listen(made.number(), k_waiting_max) != 0)
    throw Error(ErrorKind::refused, path, "cannot create a socket: " + why());
  return made;
}

Descriptor connect_to(const std::string& path) {
  const std::filesystem::path place(path);
  std::error_code none;
  if (std::filesystem::exists(place.parent_path(), none)) make_private_folder(place.parent_path());
  const ShortPath at(place);
  Descriptor made = make_socket(0);
  // If the owner is stopped (SIGSTOP), it accepts no clients, and connect() could block indefinitely. The
  // option SO_SNDTIMEO also limits how long connect() blocks (socket(7)).
  const timeval patience{.tv_sec = k_patience_s, .tv_usec = 0};
  (void)setsockopt(made.number(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  if (!at.is_there() || made.number() < 0 || connect(made.number(), at.address(), ShortPath::k_size) != 0)
    throw Error(ErrorKind::not_found, path, "no process answers at this socket: " + why());
  return made;
}

Bell::Bell() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_.number() < 0) throw Error(ErrorKind::refused, "", "cannot create an eventfd: " + why());
}

void Bell::ring() const {
  const std::uint64_t one = 1;
  (void)!write(event_.number(), &one, sizeof one);
}

void Bell::silence() const {
  std::uint64_t count = 0;
  (void)!read(event_.number(), &count, sizeof count);
}

}  // namespace combu::control
