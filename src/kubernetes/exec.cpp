// exec(): a WebSocket whose messages carry the streams of a program in a container. Only this file includes
// Boost, which takes long to compile.
//
// Each message begins with a byte for its stream: 0 standard input, 1 standard output, 2 standard error, 3
// the program's end as an object Status. The subprotocol is v4.channel.k8s.io. The newer v5 can also close
// the standard input, but loses the last output of a program if the client reads slowly.
// https://kubernetes.io/docs/concepts/architecture/control-plane-node-communication/#streaming

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/compose.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <condition_variable>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "combu/curl.hpp"
#include "combu/http.hpp"
#include "combu/json.hpp"
#include "combu/text.hpp"
#include "kubernetes/kubernetes_engine.hpp"
#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using boost::system::error_code;

constexpr std::chrono::seconds k_handshake_max{30};
constexpr std::chrono::milliseconds k_close_max{500};  // to send the last bytes and the end of the stream
constexpr std::size_t k_message_max = std::size_t{16} << 20U;
constexpr std::size_t k_unread_max = std::size_t{1} << 20U;
constexpr std::size_t k_unsent_max = std::size_t{1} << 20U;
constexpr std::size_t k_errors_size = 500;  // bytes of the standard error that errors() returns
constexpr char k_input = 0;
constexpr char k_output = 1;
constexpr char k_error_output = 2;
constexpr char k_status = 3;

// A connection of libcurl as a stream of Boost.Asio (AsyncReadStream and AsyncWriteStream). One thread uses
// it.
class CurlStream {
 public:
  using executor_type = asio::io_context::executor_type;

  CurlStream(asio::io_context& context, CURL* easy) : easy_(easy), ready_(context) {
    curl_socket_t socket = CURL_SOCKET_BAD;
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket);
    // libcurl closes its own descriptor, and the stream_descriptor closes the copy.
    const int copy = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw Error(ErrorKind::unavailable, "", "the connection to the API server is closed");
    ready_.assign(copy);
  }

  executor_type get_executor() { return context().get_executor(); }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return transfer<asio::mutable_buffer>(buffers, asio::posix::stream_descriptor::wait_read, &read,
                                          std::forward<Token>(token));
  }
  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return transfer<asio::const_buffer>(buffers, asio::posix::stream_descriptor::wait_write, &write,
                                        std::forward<Token>(token));
  }

  // Ends both directions, so that all transfers end.
  void shut() { ::shutdown(ready_.native_handle(), SHUT_RDWR); }

 private:
  using Wait = asio::posix::stream_descriptor::wait_type;

  // One transfer of at least one byte.
  template <class Buffer>
  struct Transfer {
    CurlStream& stream;
    Buffer buffer;
    Wait direction;
    CURLcode (*move)(CURL*, Buffer, std::size_t&);
    bool is_begun = false;
    bool is_over = false;
    error_code result = {};
    std::size_t count = 0;

    template <class Self>
    void operator()(Self& self, error_code error = {}) {
      if (is_over) return self.complete(result, count);
      result = error;
      const bool is_first = !std::exchange(is_begun, true);
      if (!error && buffer.size() > 0) {
        const CURLcode code = move(stream.easy_, buffer, count);
        if (code == CURLE_AGAIN) return stream.ready_.async_wait(direction, std::move(self));
        if (code != CURLE_OK && direction == asio::posix::stream_descriptor::wait_write) {
          // The bytes that have already arrived must still be read. A failed write of Boost.Beast would end
          // the reading too, so the bytes are dropped, and the reading finds the end of the connection.
          stream.shut();
          count = buffer.size();
        } else if (code != CURLE_OK) {
          result = asio::error::connection_reset;
        }
        if (code == CURLE_OK && count == 0) result = asio::error::eof;
      }
      // The handler must not be called before the function that begins the transfer has returned.
      is_over = true;
      if (is_first) return asio::post(stream.get_executor(), std::move(self));
      self.complete(result, count);
    }
  };

  template <class Buffer, class Buffers, class Token>
  auto transfer(const Buffers& buffers, Wait direction, CURLcode (*move)(CURL*, Buffer, std::size_t&),
                Token&& token) {
    Buffer first;
    for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers); ++at)
      if (first.size() == 0) first = *at;
    return asio::async_compose<Token, void(error_code, std::size_t)>(
        Transfer<Buffer>{*this, first, direction, move}, token, ready_);
  }
  static CURLcode read(CURL* easy, asio::mutable_buffer buffer, std::size_t& count) {
    return curl_easy_recv(easy, buffer.data(), buffer.size(), &count);
  }
  static CURLcode write(CURL* easy, asio::const_buffer buffer, std::size_t& count) {
    return curl_easy_send(easy, buffer.data(), buffer.size(), &count);
  }
  asio::io_context& context() { return static_cast<asio::io_context&>(ready_.get_executor().context()); }

  CURL* easy_;
  asio::posix::stream_descriptor ready_;
};

// Boost.Beast finds these functions by their arguments.
void beast_close_socket(CurlStream& stream) {
  stream.shut();
}
template <class Handler>
void async_teardown(beast::role_type /*role*/, CurlStream& stream, Handler&& handler) {
  stream.shut();
  asio::post(stream.get_executor(), beast::bind_handler(std::forward<Handler>(handler), error_code{}));
}

// How a program has ended, by the message on the stream k_status.
struct ExecEnd {
  std::optional<int> exit_code;
  std::string refusal;  // set if the program could not be started
};

ExecEnd read_status(std::string_view text) {
  const nlohmann::json status = parse_json_or_discard(text);
  if (text_of(status, "status") == "Success") return {.exit_code = 0, .refusal = {}};
  if (text_of(status, "reason") == "NonZeroExitCode") {
    const auto& cause = element_of(member_of(status, {"details", "causes"}), "reason", "ExitCode");
    return {.exit_code = parse_number<int>(text_of(cause, "message")).value_or(-1), .refusal = {}};
  }
  std::string message = escape_controls(one_line(text_of(status, "message")));
  return {.exit_code = std::nullopt,
          .refusal = message.empty() ? "the node has not started the program" : std::move(message)};
}

class ExecStream final : public ByteStream {
 public:
  ExecStream(std::string trial, ApiConnection connection)
      : trial_(std::move(trial)),
        connection_(std::move(connection)),
        socket_(context_, connection_.easy.get()) {}

  ~ExecStream() override {
    ExecStream::close();
    if (thread_.joinable()) thread_.join();
  }
  ExecStream(const ExecStream&) = delete;
  ExecStream& operator=(const ExecStream&) = delete;

  // Requests the WebSocket, and returns the server's answer. Call it once, before all other functions.
  UpgradeAnswer shake_hands(const std::stop_token& stop) {
    socket_.binary(true);
    socket_.auto_fragment(false);
    socket_.read_message_max(k_message_max);
    socket_.set_option(websocket::stream_base::timeout{.handshake_timeout = k_handshake_max,
                                                       .idle_timeout = websocket::stream_base::none(),
                                                       .keep_alive_pings = false});
    socket_.set_option(websocket::stream_base::decorator([&](websocket::request_type& request) {
      namespace http = beast::http;
      request.set(http::field::user_agent, "combu/" COMBU_VERSION);
      request.set(http::field::sec_websocket_protocol, "v4.channel.k8s.io");
      if (!connection_.authorization.empty())
        request.set(http::field::authorization, connection_.authorization);
    }));
    websocket::response_type answer;
    error_code result = asio::error::would_block;
    socket_.async_handshake(answer, connection_.host, connection_.target,
                            [&](const error_code& error) { result = error; });
    const std::stop_callback on_stop(
        stop, [this] { asio::post(context_, [this] { socket_.next_layer().shut(); }); });
    while (result == asio::error::would_block) context_.run_one();
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, trial_, "cancelled");
    if (result && result != websocket::error::upgrade_declined)
      throw Error(ErrorKind::unavailable, trial_,
                  fmt::format("the connection to the container failed: {}", result.message()));
    if (!result) begin();
    return {.status = static_cast<int>(answer.result_int()), .body = answer.body()};
  }

  std::size_t read(std::span<char> buffer) override {
    if (buffer.empty()) return 0;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !unread_.empty() || is_over_ || is_closed_; });
    if (!unread_.empty() && !is_closed_) {
      const std::size_t count = unread_.copy(buffer.data(), buffer.size(), read_);
      read_ += count;
      if (read_ < unread_.size()) return count;
      unread_.clear();
      read_ = 0;
      if (std::exchange(is_paused_, false)) asio::post(context_, [this] { receive(); });
      return count;
    }
    if (auto fault = std::exchange(fault_, std::nullopt); fault && !is_closed_) throw Error(*fault);
    return 0;
  }

  void write(std::string_view bytes) override {
    std::unique_lock lock(mutex_);
    while (!bytes.empty()) {
      changed_.wait(lock, [this] { return unsent_.size() < k_unsent_max || is_over_ || is_closed_; });
      if (is_over_ || is_closed_)
        throw Error(ErrorKind::unavailable, trial_, "the program's input is closed");
      if (unsent_.empty()) unsent_ += k_input;
      const std::size_t count = std::min(bytes.size(), k_unsent_max + 1 - unsent_.size());
      unsent_ += bytes.substr(0, count);
      bytes.remove_prefix(count);
      if (!std::exchange(is_sending_, true)) asio::post(context_, [this] { send(); });
    }
  }

  void close() override {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_closed_, true)) return;
    changed_.notify_all();
    if (!is_over_) asio::post(context_, [this] { end(); });
  }

  std::string errors() override {
    const std::scoped_lock lock(mutex_);
    std::string_view text = errors_;
    text.remove_prefix(text.size() - std::min(text.size(), k_errors_size));
    while (text.size() < errors_.size() && !text.empty() && is_inside_character(text.front()))
      text.remove_prefix(1);
    if (!text.empty()) return escape_controls(one_line(text));
    if (!exit_code_) return "";
    return fmt::format("the program has ended with exit code {}", *exit_code_);
  }

 private:
  // ---- Called in the stream's own thread

  void begin() {
    receive();
    thread_ = std::jthread([this] { context_.run(); });
  }

  void receive() {
    socket_.async_read(incoming_, [this](const error_code& error, std::size_t /*count*/) {
      if (error)
        return finish(Error(ErrorKind::unavailable, trial_,
                            "the connection was cut in the middle of the program's output"));
      const std::string message = beast::buffers_to_string(incoming_.data());
      incoming_.clear();
      if (take(message)) receive();
    });
  }

  // Returns false if no further message is to be received now.
  bool take(std::string_view message) {
    if (message.empty()) return true;
    const char stream = message.front();
    message.remove_prefix(1);
    if (stream == k_status) {
      const ExecEnd end = read_status(message);
      std::optional<Error> fault;
      if (!end.refusal.empty()) fault.emplace(ErrorKind::refused, trial_, end.refusal);
      {
        const std::scoped_lock lock(mutex_);
        exit_code_ = end.exit_code;
        if (fault) errors_ = end.refusal;
      }
      finish(std::move(fault));
      return false;
    }
    const std::scoped_lock lock(mutex_);
    if (stream == k_error_output) append_to_tail(errors_, message, k_errors_size);
    if (stream != k_output || message.empty()) return true;
    unread_ += message;
    changed_.notify_all();
    is_paused_ = unread_.size() >= k_unread_max;
    return !is_paused_;
  }

  void send() {
    {
      const std::scoped_lock lock(mutex_);
      if (unsent_.empty() || is_over_) {
        is_sending_ = is_closed_;  // after close(), the end of the stream is sent, but only once
        if (is_closed_ && !is_over_) asio::post(context_, [this] { say_goodbye(); });
        return;
      }
      sending_ = std::exchange(unsent_, {});
    }
    changed_.notify_all();
    socket_.async_write(asio::buffer(sending_), [this](const error_code& error, std::size_t /*count*/) {
      if (error) return finish(Error(ErrorKind::unavailable, trial_, "the connection was cut"));
      send();
    });
  }

  // After close(): sends the rest of the input, and then the end of the stream.
  void end() {
    const std::scoped_lock lock(mutex_);
    if (is_over_) return;
    deadline_.expires_after(k_close_max);
    deadline_.async_wait([this](const error_code& error) {
      if (!error) finish({});
    });
    if (!is_sending_) asio::post(context_, [this] { say_goodbye(); });
  }

  void say_goodbye() {
    socket_.async_close(websocket::close_code::normal, [this](const error_code& /*error*/) { finish({}); });
  }

  // Nothing more is received or sent. `fault`: the next read() throws it.
  void finish(std::optional<Error> fault) {
    deadline_.cancel();
    socket_.next_layer().shut();
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(is_over_, true)) return;
      fault_ = std::move(fault);
    }
    changed_.notify_all();
    context_.stop();  // Boost.Beast may still wait, for example for the end of a timeout
  }

  const std::string trial_;
  const ApiConnection connection_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  asio::steady_timer deadline_{context_};
  websocket::stream<CurlStream> socket_;
  beast::flat_buffer incoming_;
  std::string sending_;  // the message that is being sent

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::string unread_;      // of the standard output
  std::size_t read_ = 0;    // bytes of `unread_` that read() has returned
  bool is_paused_ = false;  // no message is received until `unread_` has been read
  std::string unsent_;      // the next message
  bool is_sending_ = false;
  bool is_closed_ = false;
  bool is_over_ = false;
  std::optional<Error> fault_;
  std::string errors_;
  std::optional<int> exit_code_;

  std::jthread thread_;
};

bool is_container_running(const nlohmann::json& pod) {
  const nlohmann::json& shown =
      element_of(member_of(member_of(pod, "status"), "containerStatuses"), "name", k_container);
  return member_of(member_of(shown, "state"), "running").is_object();
}

}  // namespace

std::unique_ptr<ByteStream> KubernetesEngine::exec(const Key& key, const std::vector<std::string>& argv,
                                                   std::stop_token stop) {
  const std::string name = pod_name(key);
  const std::optional<nlohmann::json> object = objects_.find(k_pods, name, stop);
  const auto pod = object ? report_of(*object) : std::nullopt;
  if (!pod || pod->observation.key != key)
    throw Error(ErrorKind::not_found, key.trial,
                fmt::format("no Pod of attempt {} in run {}", key.attempt, key.run.text()));
  const bool is_kept = pod->observation.placement.keeps_files && is_container_running(*object);
  if (pod->observation.phase != Phase::running && !is_kept)
    throw Error(ErrorKind::conflict, key.trial,
                fmt::format("the attempt does not run: {}", pod->observation.status));
  std::string target = fmt::format("{}/exec?container={}&stdin=true&stdout=true&stderr=true",
                                   objects_.path(k_pods, name), k_container);
  for (const std::string& word : argv) target += "&command=" + percent_encode(word);
  std::unique_ptr<ExecStream> stream;
  try {
    api_.upgrade(
        target,
        [&](ApiConnection connection) {
          stream = std::make_unique<ExecStream>(key.trial, std::move(connection));
          return stream->shake_hands(stop);
        },
        stop);
  } catch (const ApiError& error) {
    throw Error(error.kind(), key.trial, error.message());
  }
  return stream;
}

}  // namespace combu::kubernetes
