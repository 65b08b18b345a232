#include <fcntl.h>
#include <fmt/core.h>
#include <httplib.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <ctime>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "combu/http.hpp"

namespace combu {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int k_connect_seconds = 10;
constexpr int k_write_seconds = 60;
constexpr int k_send_buffer =
    1 << 20;  // requested size of a socket's send buffer in bytes; the kernel may set a smaller size
// Maximum size of the pieces in which a request body is written. A writable socket accepts a piece of this
// size without blocking. For each piece of twice this size, the memory allocator would make a separate memory
// mapping, which is slower.
constexpr std::size_t k_piece_max = std::size_t{32} << 10U;
// Maximum number of a response's bytes outside its body, such as headers, that may arrive before the next
// byte of the body. For comparison: HTTP servers written in Go refuse requests with more than 1 MiB of
// headers. An engine's response has less than 2 KiB of headers.
constexpr std::size_t k_framing_max = std::size_t{256} << 10U;
constexpr std::time_t k_unlimited_seconds = std::time_t{10} * 365 * 24 * 3600;

bool is_success(int status) {
  return status >= 200 && status < 300;
}

std::string words_of(int error) {
  return std::system_category().message(error);
}

// Returns why a connection failed. The function examines the address itself, because cpp-httplib does not
// report the reason.
std::string why_no_connection(const Address& address, httplib::Error error) {
  if (error == httplib::Error::ConnectionTimeout) {
    return fmt::format("no connection within {} s; is the engine running?", k_connect_seconds);
  }
  if (address.kind == Address::Kind::tcp) return "no connection: is the engine running and listening there?";
  struct stat status {};
  if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
    return fmt::format("the socket's path is longer than the {} characters that the system allows",
                       sizeof(sockaddr_un::sun_path) - 1);
  }
  if (::stat(address.path.c_str(), &status) != 0) {
    const int why = errno;
    return fmt::format("the socket cannot be found: {}; is the engine running?", words_of(why));
  }
  if (!S_ISSOCK(status.st_mode)) return "the path must be a socket";
  if (::access(address.path.c_str(), W_OK) != 0 && errno == EACCES) {
    return "permission denied; you must be in the socket's group (usually docker)";
  }
  return "connection refused: no process listens on the socket; is the engine running?";
}

void prepare_client(httplib::ClientImpl& client, const Address& address) {
  if (address.kind == Address::Kind::unix_socket) client.set_address_family(AF_UNIX);
  client.set_keep_alive(true);
  client.set_tcp_nodelay(true);
  client.set_follow_location(false);
  client.set_decompress(false);
  client.set_url_encode(false);
  client.set_connection_timeout(k_connect_seconds);
  client.set_write_timeout(k_write_seconds);
}

template <class Verb>
auto uninterrupted(const Verb& verb) {
  auto result = verb();
  while (result < 0 && errno == EINTR) result = verb();
  return result;
}

// Enforces k_framing_max and HttpRequest::answer_max for one response. Necessary because cpp-httplib does not
// limit the size of headers, interim responses and chunk framing.
class Meter {
 public:
  explicit Meter(const HttpRequest& request) : answer_max_(request.answer_max) {}

  enum class Excess { none, framing, time };
  [[nodiscard]] Excess excess() const { return excess_; }

  // The class Stream calls arrive() when bytes have arrived from the socket. Returns false if the response
  // takes longer than HttpRequest::answer_max.
  bool arrive() {
    const auto now = SteadyClock::now();
    if (!began_) began_ = now;
    if (answer_max_ && now - *began_ > *answer_max_) excess_ = Excess::time;
    return excess_ == Excess::none;
  }
  // The class Stream calls read() when cpp-httplib reads bytes. Returns false if more than k_framing_max
  // bytes have been read since the most recent byte of the body.
  bool read(std::size_t bytes) {
    unseen_ += bytes;
    if (unseen_ > k_framing_max) excess_ = Excess::framing;
    return excess_ == Excess::none;
  }
  // The struct Call calls body() when a part of the response's body has been read.
  void body() { unseen_ = 0; }

 private:
  std::optional<Seconds> answer_max_;
  std::optional<SteadyClock::time_point> began_;
  std::size_t unseen_ = 0;
  Excess excess_ = Excess::none;
};

// The byte stream of one connection. The class replaces cpp-httplib's own stream, which makes two system
// calls for each 4 KiB. The system calls of cpp-httplib's stream would take most of the time of a large
// response.
class Stream final : public httplib::Stream {
 public:
  Stream(socket_t socket, timespec read_patience, timespec write_patience, std::span<char> buffer,
         Meter* meter)
      : socket_(socket),
        read_patience_(read_patience),
        write_patience_(write_patience),
        buffer_(buffer),
        meter_(meter) {}

  [[nodiscard]] bool is_readable() const override {
    return !unread_.empty() || is_ready(POLLIN, read_patience_);
  }
  [[nodiscard]] bool is_writable() const override { return is_ready(POLLOUT, write_patience_); }

  ssize_t read(char* to, std::size_t size) override {
    if (unread_.empty()) {
      if (!is_readable()) return -1;
      const ssize_t count = uninterrupted([&] { return ::recv(socket_, buffer_.data(), buffer_.size(), 0); });
      if (count <= 0) return count;
      if (meter_ != nullptr && !meter_->arrive()) return -1;
      unread_ = {buffer_.data(), static_cast<std::size_t>(count)};
    }
    const std::size_t count = unread_.copy(to, size);
    unread_.remove_prefix(count);
    if (meter_ != nullptr && !meter_->read(count)) return -1;
    return static_cast<ssize_t>(count);
  }
  ssize_t write(const char* from, std::size_t size) override {
    if (!is_writable()) return -1;
    return uninterrupted([&] { return ::send(socket_, from, size, 0); });
  }

  // Unused: only HTTP servers call get_remote_ip_and_port() and get_local_ip_and_port().
  void get_remote_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  void get_local_ip_and_port(std::string& /*ip*/, int& /*port*/) const override {}
  [[nodiscard]] socket_t socket() const override { return socket_; }
  // Returns the bytes that have been received, but not read.
  [[nodiscard]] std::string_view unread() const { return unread_; }

 private:
  [[nodiscard]] bool is_ready(short what, timespec patience) const {
    pollfd wanted{socket_, what, 0};
    return uninterrupted([&] { return ::ppoll(&wanted, 1, &patience, nullptr); }) > 0;
  }

  socket_t socket_;
  timespec read_patience_;
  timespec write_patience_;
  std::span<char> buffer_;
  Meter* meter_;  // nullptr: no limits
  std::string_view unread_;
};

// Makes a descriptor of a socket refer to /dev/null instead. Afterwards, cpp-httplib cannot use or shut down
// the socket.
void detach_socket(socket_t number) {
  const Descriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ::dup2(nothing.number(), number);
}

// The handover of a connection by Channel::upgrade().
struct Handover {
  bool is_accepted = false;
  std::string received;  // bytes that follow the headers of the answer
};

class Client final : public httplib::ClientImpl {
 public:
  using ClientImpl::ClientImpl;

  // If the next request sets Handover::is_accepted, cpp-httplib gives up the request's socket; nullptr: no
  // handover.
  void hand_over(Handover* handover) { handover_ = handover; }

  // Sets the Meter that limits the next responses; nullptr: no limits.
  void measure(Meter* meter) { meter_ = meter; }

 private:
  // size of the buffer in bytes; equals the capacity of a unix socket
  static constexpr std::size_t k_buffer = std::size_t{256} << 10U;

  static timespec patience(time_t seconds, time_t microseconds) {
    constexpr int k_nanoseconds = 1000;
    return {.tv_sec = seconds, .tv_nsec = microseconds * k_nanoseconds};
  }

  bool process_socket(const Socket& socket, std::function<bool(httplib::Stream&)> process) override {
    Stream stream(socket.sock, patience(read_timeout_sec_, read_timeout_usec_),
                  patience(write_timeout_sec_, write_timeout_usec_), {buffer_.get(), k_buffer}, meter_);
    const bool result = process(stream);
    if (handover_ != nullptr && handover_->is_accepted) {
      handover_->received = stream.unread();
      detach_socket(socket.sock);
    }
    return result;
  }

  // The buffer is not initialised, so that its pages use no memory until a response fills them.
  std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(k_buffer);
  Meter* meter_ = nullptr;
  Handover* handover_ = nullptr;
};

std::unique_ptr<Client> make_client(const Address& address) {
  auto client = address.kind == Address::Kind::unix_socket
                    ? std::make_unique<Client>(address.path)
                    : std::make_unique<Client>(address.host, address.port);
  prepare_client(*client, address);
  return client;
}

// Returns true if the other side does not speak HTTP. The library cpp-httplib returns the same error for a
// truncated HTTP response and for a response that is not HTTP. Therefore speaks_something_else() sends its
// own request and checks the first bytes of the response.
bool speaks_something_else(const Address& address) {
  constexpr int k_patience_ms = 2000;
  constexpr std::string_view k_protocol = "HTTP/1.";
  const std::unique_ptr<Client> client = make_client(address);
  Descriptor socket;
  client->set_socket_options([&](socket_t number) { socket = Descriptor(::dup(number)); });
  bool other = false;
  client->Post(
      "/",
      [&](std::size_t, httplib::DataSink&) {
        pollfd wanted{socket.number(), POLLIN, 0};
        if (::poll(&wanted, 1, k_patience_ms) != 1) return false;
        std::array<char, k_protocol.size()> bytes{};
        const ssize_t count = ::recv(socket.number(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
        other = count > 0 &&
                !k_protocol.starts_with(std::string_view(bytes.data(), static_cast<std::size_t>(count)));
        return false;
      },
      "text/plain");
  return other;
}

void ignore_broken_pipes() {
  // If the other side has closed the connection, a write must fail with an error. If SIGPIPE were not
  // ignored, the signal would end the process instead.
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    if (::sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
      action.sa_handler = SIG_IGN;
      ::sigaction(SIGPIPE, &action, nullptr);
    }
  });
}

// The state of one call of Channel::send().
struct Call {
  Call(const HttpRequest& sent, Handover* wanted) : request(sent), handover(wanted), meter(sent) {}

  const HttpRequest& request;
  Handover* handover;  // nullptr: the caller wants no handover
  Meter meter;
  HttpResponse response;
  SteadyClock::time_point last_news = SteadyClock::now();
  bool headers_came = false;
  bool opened = false;
  bool complete_without_body = false;
  bool chunked = false;
  bool keeps_open = true;
  bool sink_refused = false;
  bool is_too_large = false;
  std::exception_ptr thrown;  // exception that a callback of the request threw; send() rethrows it, because
                              // cpp-httplib cannot handle exceptions

  template <typename Body>
  bool guarded(const Body& body) {
    try {
      return body();
    } catch (...) {
      thrown = std::current_exception();
      return false;
    }
  }

  bool on_headers(const httplib::Response& head) {
    last_news = SteadyClock::now();
    headers_came = true;
    response.status = head.status;
    response.content_type = head.get_header_value("Content-Type");
    response.headers.assign(head.headers.begin(), head.headers.end());
    chunked = head.get_header_value("Transfer-Encoding") == "chunked";
    keeps_open = head.get_header_value("Connection") != "close";
    open_once();
    if (handover != nullptr && (head.status == 101 || head.status == 200)) {
      handover->is_accepted = true;
      return false;
    }
    // A response with status 304 has no body (RFC 9110, 15.4.5), but cpp-httplib would wait for a body.
    complete_without_body = head.status == 304;
    return !complete_without_body;
  }

  void open_once() {
    if (opened || !is_success(response.status)) return;
    opened = true;
    if (request.on_open) request.on_open();
  }

  bool on_piece(const char* data, std::size_t size) {
    last_news = SteadyClock::now();
    meter.body();
    if (!request.sink || !is_success(response.status)) {
      is_too_large = size > request.body_max - response.body.size();
      if (!is_too_large) response.body.append(data, size);
      return !is_too_large;
    }
    sink_refused = !request.sink({data, size});
    return !sink_refused;
  }

  [[nodiscard]] bool was_silent() const {
    return request.silence_max && SteadyClock::now() - last_news >= *request.silence_max;
  }
};

}  // namespace

struct Channel::Impl {
  explicit Impl(Address where) : address(std::move(where)), client(make_client(address)) {
    client->set_socket_options([this](socket_t number) { adopt_socket(number); });
  }

  // cpp-httplib calls adopt_socket() between socket() and connect().
  void adopt_socket(socket_t number) {
    // A unix socket is writable only while three quarters of its buffer are empty. With a small buffer, the
    // transfer would stall between two pieces of a body. For TCP, the kernel adjusts the buffer size itself.
    if (address.kind == Address::Kind::unix_socket)
      ::setsockopt(number, SOL_SOCKET, SO_SNDBUF, &k_send_buffer, sizeof(k_send_buffer));
    const std::scoped_lock lock(mutex);
    socket = Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (!stop.stop_requested()) return;
    // If a stop was requested before the socket existed, break_off() could not shut the socket down. Hence
    // adopt_socket() detaches the socket, so that connect() fails.
    detach_socket(number);
  }

  // Aborts the running call of send(). The thread that requests the stop calls break_off(). A TCP socket
  // cannot be shut down during the few microseconds between socket() and connect(), so break_off() tries
  // again.
  void break_off() {
    while (!over) {
      const std::scoped_lock lock(mutex);
      if (::shutdown(socket.number(), SHUT_RDWR) == 0 || errno != ENOTCONN) return;
      std::this_thread::yield();
    }
  }

  [[nodiscard]] bool closed_by_other_side() const {
    char byte = 0;
    return ::recv(socket.number(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
  }

  [[noreturn]] void fail(ErrorKind kind, std::string message) const {
    throw Error(kind, address.text(), std::move(message));
  }
  [[noreturn]] void explain(const Call& call, httplib::Error error);
  HttpResponse send(const HttpRequest& request, std::stop_token stop, Handover* handover);
  httplib::Request make_request(Call& call);
  bool send_pieces(Call& call, httplib::DataSink& sink);
  enum class Room { some, unwanted, stuck };
  [[nodiscard]] Room room() const;
  void set_silence(std::optional<Seconds> silence_max);

  Address address;
  std::unique_ptr<Client> client;
  std::mutex
      mutex;  // guards `socket`, which is used by the thread in send() and by the thread that requests a stop
  Descriptor socket;  // a duplicate of cpp-httplib's descriptor; stays valid when cpp-httplib closes its own
  std::stop_token stop;
  std::atomic<bool> over = true;
  bool answered = false;  // true after the first response: the other side speaks HTTP
};

httplib::Request Channel::Impl::make_request(Call& call) {
  httplib::Request request;
  request.method = call.request.method;
  request.path = call.request.target;
  request.body = call.request.body;
  for (const auto& [name, value] : call.request.headers) request.headers.emplace(name, value);
  // HTTP servers written in Go refuse the path of a socket in the header Host (golang/go#60374).
  if (address.kind == Address::Kind::unix_socket) request.headers.emplace("Host", "localhost");
  if (!request.body.empty() || call.request.source)
    request.headers.emplace("Content-Type", call.request.content_type);
  if (call.request.source) {
    request.headers.emplace("Transfer-Encoding", "chunked");
    request.is_chunked_content_provider_ = true;
    request.content_provider_ = [this, &call](std::size_t, std::size_t, httplib::DataSink& sink) {
      return call.guarded([&] { return send_pieces(call, sink); });
    };
  }
  request.response_handler = [&call](const httplib::Response& head) {
    return call.guarded([&] { return call.on_headers(head); });
  };
  request.content_receiver = [&call](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
    return call.guarded([&] { return call.on_piece(data, size); });
  };
  return request;
}

// Waits until the socket is ready for more of the request's body. A server that refuses a request may respond
// before it has read the whole body, and then read no more. After such an early response, room() returns
// Room::unwanted: the caller must not write the rest of the body, so that the response can be read.
Channel::Impl::Room Channel::Impl::room() const {
  pollfd wanted{socket.number(), POLLIN | POLLOUT, 0};
  int count = 0;
  do {
    count = ::poll(&wanted, 1, k_write_seconds * 1000);
  } while (count < 0 && errno == EINTR);
  if (count != 1) return Room::stuck;
  return wanted.revents == POLLOUT ? Room::some : Room::unwanted;
}

bool Channel::Impl::send_pieces(Call& call, httplib::DataSink& sink) {
  bool broken = false;
  call.request.source([&](std::string_view bytes) {
    while (!bytes.empty() && !broken) {
      const Room there = room();
      if (there == Room::unwanted) return false;
      const std::string_view piece = bytes.substr(0, k_piece_max);
      broken = there == Room::stuck || !sink.write(piece.data(), piece.size());
      bytes.remove_prefix(piece.size());
      call.last_news = SteadyClock::now();
    }
    return !broken;
  });
  if (!broken) sink.done();
  return !broken;
}

void Channel::Impl::set_silence(std::optional<Seconds> silence_max) {
  if (!silence_max) {
    client->set_read_timeout(k_unlimited_seconds);
    return;
  }
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(*silence_max).count();
  client->set_read_timeout(micros / 1'000'000, micros % 1'000'000);
}

namespace {

// Returns the method and the target of a request for messages, without the query, which may be long.
std::string words_of(const HttpRequest& request) {
  return fmt::format("{} {}", request.method, request.target.substr(0, request.target.find('?')));
}

}  // namespace

void Channel::Impl::explain(const Call& call, httplib::Error error) {
  if (stop.stop_requested()) fail(ErrorKind::cancelled, "cancelled");
  if (call.sink_refused) fail(ErrorKind::cancelled, "the caller stopped reading the answer");
  if (call.is_too_large) {
    fail(ErrorKind::corrupt, fmt::format("the answer to {} is larger than {}", words_of(call.request),
                                         to_string(Bytes{static_cast<std::int64_t>(call.request.body_max)})));
  }
  if (call.meter.excess() == Meter::Excess::framing) {
    fail(ErrorKind::corrupt,
         fmt::format("the answer to {} has more than {} KiB of {}", words_of(call.request),
                     k_framing_max >> 10U, call.headers_came ? "chunk sizes or trailers" : "headers"));
  }
  if (call.meter.excess() == Meter::Excess::time) {
    fail(ErrorKind::timeout, fmt::format("the answer to {} was not complete within {}",
                                         words_of(call.request), to_string(*call.request.answer_max)));
  }
  if (error == httplib::Error::Connection || error == httplib::Error::ConnectionTimeout) {
    fail(ErrorKind::unavailable, why_no_connection(address, error));
  }
  if (call.was_silent()) {
    fail(ErrorKind::timeout, fmt::format("{} was not answered within {}", words_of(call.request),
                                         to_string(*call.request.silence_max)));
  }
  if (!call.headers_came && !answered && speaks_something_else(address)) {
    fail(ErrorKind::corrupt, "the answer is not HTTP; is this a Docker Engine's address?");
  }
  fail(ErrorKind::unavailable,
       fmt::format("the connection was cut {} {}",
                   call.headers_came ? "in the middle of the answer to" : "before the answer to",
                   words_of(call.request)));
}

std::string HttpResponse::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (::strncasecmp(key.c_str(), name.data(), name.size()) == 0 && key.size() == name.size()) return value;
  }
  return {};
}

Channel::Channel(Address address) {
  ignore_broken_pipes();
  impl_ = std::make_unique<Impl>(std::move(address));
}
Channel::~Channel() = default;
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;

HttpResponse Channel::Impl::send(const HttpRequest& request, std::stop_token stopping, Handover* handover) {
  if (stopping.stop_requested()) fail(ErrorKind::cancelled, "cancelled");
  stop = std::move(stopping);
  set_silence(request.silence_max);
  Call call(request, handover);
  httplib::Request sent = make_request(call);
  httplib::Response answer;
  httplib::Error error = httplib::Error::Success;
  bool done = false;
  over = false;
  {
    const std::stop_callback on_stop(stop, [this] { break_off(); });
    // If the connection turns out to be closed, cpp-httplib reconnects before it sends anything. A request is
    // never sent twice.
    client->measure(&call.meter);
    client->hand_over(handover);
    done = client->send(sent, answer, error);
    client->hand_over(nullptr);
    client->measure(nullptr);
    over = true;
  }
  if (call.thrown) std::rethrow_exception(call.thrown);
  if (handover != nullptr && handover->is_accepted) {
    if (stop.stop_requested()) fail(ErrorKind::cancelled, "cancelled");
    return std::move(call.response);
  }
  if (!done && !call.complete_without_body) explain(call, error);
  answered = true;
  // cpp-httplib accepts a chunked body as complete even if the connection was cut after a chunk.
  if (done && call.chunked && call.keeps_open && closed_by_other_side()) explain(call, httplib::Error::Read);
  // For a response with status 204, which has no body, cpp-httplib does not call the handlers.
  if (!call.headers_came) call.on_headers(answer);
  return std::move(call.response);
}

HttpResponse Channel::send(const HttpRequest& request, std::stop_token stop) {
  return impl_->send(request, std::move(stop), nullptr);
}

Upgraded Channel::upgrade(const HttpRequest& request, std::stop_token stop) {
  Handover handover;
  Upgraded upgraded{.response = impl_->send(request, std::move(stop), &handover), .connection = nullptr};
  if (!handover.is_accepted) return upgraded;
  const std::scoped_lock lock(impl_->mutex);
  upgraded.connection = std::make_unique<RawConnection>(
      impl_->address.text(), std::exchange(impl_->socket, Descriptor()), std::move(handover.received));
  return upgraded;
}

}  // namespace combu
