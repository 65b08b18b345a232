#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "combu/http.hpp"

namespace combu {
namespace {

// Removes the time limits of the request's socket, and makes its calls blocking.
void make_patient(int socket) {
  const timeval unlimited{};
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &unlimited, sizeof(unlimited));
  ::setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &unlimited, sizeof(unlimited));
  const int flags = ::fcntl(socket, F_GETFL);
  ::fcntl(socket, F_SETFL, flags & ~O_NONBLOCK);
}

Error broken(const std::string& address, int code) {
  return {ErrorKind::unavailable, address,
          fmt::format("the connection is broken: {}", std::system_category().message(code))};
}

}  // namespace

RawConnection::RawConnection(std::string address, Descriptor socket, std::string received)
    : address_(std::move(address)), socket_(std::move(socket)), received_(std::move(received)) {
  make_patient(socket_.number());
}

std::size_t RawConnection::read(std::span<char> buffer) {
  if (closed_ || buffer.empty()) return 0;
  if (taken_ < received_.size()) {
    const std::size_t count = received_.copy(buffer.data(), buffer.size(), taken_);
    taken_ += count;
    return count;
  }
  while (true) {
    const ssize_t count = ::recv(socket_.number(), buffer.data(), buffer.size(), 0);
    if (count > 0) return static_cast<std::size_t>(count);
    const int code = errno;
    if (count == 0 || closed_) return 0;
    if (code != EINTR) throw broken(address_, code);
  }
}

void RawConnection::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const int code = errno;
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      continue;
    }
    if (closed_) throw Error(ErrorKind::unavailable, address_, "the connection was closed");
    if (code != EINTR) throw broken(address_, code);
  }
}

void RawConnection::close() {
  closed_ = true;
  ::shutdown(socket_.number(), SHUT_RDWR);
}

}  // namespace combu
