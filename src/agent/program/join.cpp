#include "join.hpp"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "system.hpp"

namespace combu::agent {
namespace {

int fail(const std::string& problem) {
  write_all(STDERR_FILENO, "agent: cannot join the worker: " + problem + "\n");
  return 1;
}

int fail_refused(const std::string& path) {
  return fail(path + ": the worker refuses this process");
}

// True if the agent listens on the socket. An attempt of the same user can replace the socket by its own one.
bool is_agent(int socket) {
  constexpr pid_t k_first = 1;
  if (getppid() != 0) return true;  // the engine has not started this process in a container
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid == k_first;
}

bool send_descriptors(int socket) {
  const std::array<int, 2> numbers{STDIN_FILENO, STDOUT_FILENO};
  char byte = 0;
  iovec part{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(numbers))> space{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(numbers));
  std::memcpy(CMSG_DATA(header), numbers.data(), sizeof(numbers));
  return sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

}  // namespace

int join(const std::string& folder) {
  // An attempt of the same user must not use the descriptors of this process.
  prctl(PR_SET_DUMPABLE, 0);
  const std::string path = folder + "/socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return fail(problem_text(path, ENAMETOOLONG));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() ||
      connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return fail(problem_text(path, errno));
  if (!is_agent(socket.get())) return fail(path + ": another process listens on the socket");
  if (!send_descriptors(socket.get())) return fail_refused(path);
  // This process must not keep the pipes open after the worker has closed them.
  close(STDIN_FILENO);
  close(STDOUT_FILENO);
  // The worker sends a byte when it has accepted the descriptors, and closes the socket at the end of the
  // connection.
  std::size_t received = 0;
  while (true) {
    char byte = 0;
    const ssize_t count = recv(socket.get(), &byte, 1, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) {
      ++received;
      continue;
    }
    return received > 0 ? 0 : fail_refused(path);
  }
}

}  // namespace combu::agent
