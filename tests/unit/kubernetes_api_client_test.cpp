// Requests to an API server, which the tests script.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kubernetes/api_client.hpp"
#include "kubernetes_fixture.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::kubernetes {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using wire::Asked;
using wire::Reply;

// A maximum time that no test reaches.
constexpr Seconds k_long{600};

std::string status_object(const std::string& message) {
  return R"({"kind":"Status","apiVersion":"v1","status":"Failure","message":")" + message + R"("})";
}

std::string request_header(const Asked& asked, const std::string& name) {
  const std::size_t at = asked.head.find("\r\n" + name + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + name.size() + 4;
  return asked.head.substr(begin, asked.head.find('\r', begin) - begin);
}

// An API server that answers by `handler`, and a client of this server.
class Served {
 public:
  explicit Served(wire::ScriptedDaemon::Handler handler, const ApiLimits& limits = {},
                  const std::function<void(Access&)>& change = {})
      : daemon_(std::move(handler), wire::ScriptedDaemon::Kind::tcp), access_(access_to(url())) {
    if (change) change(access_);
    client_ = std::make_unique<ApiClient>(access_, limits);
  }

  [[nodiscard]] std::string url() const {
    return "http" + daemon_.address().substr(daemon_.address().find(':'));
  }
  [[nodiscard]] const wire::ScriptedDaemon& daemon() const { return daemon_; }
  [[nodiscard]] ApiClient& client() const { return *client_; }
  [[nodiscard]] ApiResponse get(const std::string& target = "/x") const {
    return client_->send({.target = target}, {});
  }
  // Returns the error of a GET request.
  [[nodiscard]] Error error() const {
    return error_in([&] { (void)get(); });
  }
  // Returns the lines of a stream, and the error that ends it, if there is one.
  [[nodiscard]] std::pair<std::vector<std::string>, std::optional<Error>> watched(
      Seconds silence_max = k_long) const {
    std::vector<std::string> lines;
    auto error = test::error_of([&] {
      client_->read(
          "/w?watch=1",
          {.on_line = [&](std::string_view line) { lines.emplace_back(line); }, .silence_max = silence_max},
          {});
    });
    return {lines, error};
  }

 private:
  wire::ScriptedDaemon daemon_;
  Access access_;
  std::unique_ptr<ApiClient> client_;
};

Reply ok(const Asked& /*asked*/) {
  return wire::whole(200, "{}");
}

TEST(ApiClientTest, SendsARequestAndReturnsTheAnswer) {
  const Served served([](const Asked&) {
    return wire::whole(201, "created",
                       "Warning: 299 - \"unknown \\\"a\\\"\"\r\nwarning: 299 - \"b\"\r\nWarning: odd\r\n");
  });
  const ApiResponse response = served.client().send({.method = "PATCH",
                                                     .target = "/api/v1/pods/a?x=%2F..",
                                                     .body = "{1}",
                                                     .content_type = "application/merge-patch+json"},
                                                    {});
  EXPECT_EQ(response.status, 201);
  EXPECT_EQ(response.body, "created");
  EXPECT_THAT(response.warnings, ElementsAre("unknown \"a\"", "b", "odd"));
  const Asked asked = served.daemon().asked().at(0);
  EXPECT_EQ(asked.method, "PATCH");
  EXPECT_EQ(asked.target, "/api/v1/pods/a?x=%2F..");
  EXPECT_EQ(asked.body, "{1}");
  EXPECT_EQ(request_header(asked, "Content-Type"), "application/merge-patch+json");
  EXPECT_EQ(request_header(asked, "Accept"), "application/json");
  EXPECT_THAT(request_header(asked, "User-Agent"), StartsWith("combu/"));
  EXPECT_EQ(request_header(asked, "Authorization"), "");
}

TEST(ApiClientTest, KnowsTheMethodsOfTheApi) {
  const Served served(ok);
  for (const std::string method : {"GET", "POST", "PUT", "DELETE"}) {
    const std::string body = method == "GET" ? "" : "body";
    EXPECT_EQ(served.client().send({.method = method, .target = "/x", .body = body}, {}).body, "{}");
    EXPECT_EQ(served.daemon().asked().back().method, method);
    EXPECT_EQ(served.daemon().asked().back().body, body);
  }
  EXPECT_EQ(served.client().send({.method = "DELETE", .target = "/x"}, {}).body, "{}");
  EXPECT_EQ(request_header(served.daemon().asked().back(), "Content-Type"), "");
  EXPECT_EQ(served.client().send({.method = "POST", .target = "/x"}, {}).body, "{}");
  EXPECT_EQ(request_header(served.daemon().asked().back(), "Content-Length"), "0");
  EXPECT_EQ(request_header(served.daemon().asked().back(), "Content-Type"), "application/json");
}

TEST(ApiClientTest, ThePathOfTheServerPrecedesThatOfTheRequest) {
  const Served served(ok, {}, [](Access& access) { access.cluster.address.path = "/k8s/c-1"; });
  (void)served.get("/api");
  EXPECT_THAT(served.daemon().lines(), ElementsAre("GET /k8s/c-1/api"));
}

TEST(ApiClientTest, ConnectionsAreReused) {
  const Served served(ok);
  for (int i = 0; i < 5; ++i) (void)served.get();
  EXPECT_EQ(served.daemon().connections(), 1U);
}

TEST(ApiClientTest, ThreadsHaveTheirOwnConnections) {
  constexpr std::size_t k_threads = 4;
  const Served served([](const Asked& asked) { return wire::whole(200, asked.target); });
  in_parallel(k_threads, k_threads, [&](std::size_t thread) {
    for (int i = 0; i < 20; ++i) {
      const std::string target = "/" + std::to_string(thread) + "/" + std::to_string(i);
      EXPECT_EQ(served.get(target).body, target);
    }
  });
  EXPECT_EQ(served.daemon().asked().size(), k_threads * 20);
  EXPECT_LE(served.daemon().connections(), k_threads);
}

TEST(ApiClientTest, CompressionCanBeDisabled) {
  const Served usual(ok);
  const Served disabled(ok, {}, [](Access& access) { access.cluster.disables_compression = true; });
  (void)usual.get();
  (void)disabled.get();
  EXPECT_THAT(request_header(usual.daemon().asked().at(0), "Accept-Encoding"), HasSubstr("gzip"));
  EXPECT_EQ(request_header(disabled.daemon().asked().at(0), "Accept-Encoding"), "");
}

// ---- Credentials

TEST(ApiClientTest, SendsTokenOrPassword) {
  const Served token(ok, {}, [](Access& access) { access.account.token = "my-token"; });
  (void)token.get();
  EXPECT_EQ(request_header(token.daemon().asked().at(0), "Authorization"), "Bearer my-token");
  const Served password(ok, {}, [](Access& access) {
    access.account.username = "me";
    access.account.password = "pass";
  });
  (void)password.get();
  EXPECT_EQ(request_header(password.daemon().asked().at(0), "Authorization"), "Basic bWU6cGFzcw==");
}

// Accepts only the token "new". Writes this token into the file when it refuses another token.
struct Renewal {
  TestFolder folder;
  std::string token_file = folder.write("token", "old-secret");
  std::string next = "new";

  Reply operator()(const Asked& asked, const Reply& accepted) const {
    if (request_header(asked, "Authorization") == "Bearer new") return accepted;
    folder.write("token", next);
    return wire::whole(401, status_object("Unauthorized"));
  }
};

TEST(ApiClientTest, After401RenewsTheCredentialsOnce) {
  const Renewal renewal;
  const Served served([&](const Asked& asked) { return renewal(asked, wire::whole(200, "welcome")); }, {},
                      [&](Access& access) { access.account.token_file = renewal.token_file; });
  EXPECT_EQ(served.client().send({.method = "POST", .target = "/x", .body = "b"}, {}).body, "welcome");
  EXPECT_THAT(served.daemon().lines(), ElementsAre("POST /x", "POST /x"));
  EXPECT_EQ(served.daemon().asked().at(1).body, "b");
}

TEST(ApiClientTest, ASecond401IsRefused) {
  Renewal renewal;
  renewal.next = "also-secret";
  const Served served([&](const Asked& asked) { return renewal(asked, wire::whole(200, "")); }, {},
                      [&](Access& access) { access.account.token_file = renewal.token_file; });
  const Error error = served.error();
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_EQ(
      error.message(),
      "the API server does not accept the credentials of user lab of config: Unauthorized; log in again");
  EXPECT_EQ(served.daemon().asked().size(), 2U);
}

TEST(ApiClientTest, CredentialsThatCannotChangeAreSentOnce) {
  const Served served([](const Asked&) { return wire::whole(401, status_object("Unauthorized")); }, {},
                      [](Access& access) { access.account.token = "my-secret"; });
  const Error error = served.error();
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.what(), Not(HasSubstr("my-secret")));
  EXPECT_EQ(served.daemon().asked().size(), 1U);
}

TEST(ApiClientTest, AWatchRenewsTheCredentialsToo) {
  const Renewal renewal;
  const Served served(
      [&](const Asked& asked) {
        return renewal(asked, wire::ended(wire::stream({"1\n"}, Reply::Then::keep)));
      },
      {}, [&](Access& access) { access.account.token_file = renewal.token_file; });
  const auto [lines, error] = served.watched();
  EXPECT_THAT(lines, ElementsAre("1"));
  EXPECT_FALSE(error);
}

// ---- Error statuses

TEST(ApiClientTest, EachErrorStatusHasItsKind) {
  const std::map<int, ErrorKind> kinds{{400, ErrorKind::invalid},     {403, ErrorKind::refused},
                                       {404, ErrorKind::not_found},   {405, ErrorKind::refused},
                                       {409, ErrorKind::conflict},    {410, ErrorKind::unavailable},
                                       {422, ErrorKind::invalid},     {429, ErrorKind::unavailable},
                                       {500, ErrorKind::unavailable}, {503, ErrorKind::unavailable}};
  for (const auto& [status, kind] : kinds) {
    const Served served([status = status](const Asked&) {
      return wire::whole(status, status_object("pods \\\"a\\\"\\n are  odd"), "Retry-After: 7\r\n");
    });
    try {
      (void)served.get();
      ADD_FAILURE() << status;
    } catch (const ApiError& error) {
      EXPECT_EQ(error.kind(), kind) << status;
      EXPECT_EQ(error.status(), status);
      EXPECT_EQ(error.retry_after(), Seconds(7));
      EXPECT_EQ(error.subject(), served.url());
      EXPECT_EQ(error.message(), "pods \"a\" are odd");
    }
  }
}

TEST(ApiClientTest, AnAnswerThatIsNoStatusObjectIsQuoted) {
  const auto message = [](int status, const std::string& body) {
    const Served served([&](const Asked&) { return wire::whole(status, body); });
    return served.error().message();
  };
  EXPECT_EQ(message(502, "<h1>Bad\nGateway</h1>"), "answered with status 502: <h1>Bad Gateway</h1>");
  EXPECT_EQ(message(503, ""), "answered with status 503");
  EXPECT_EQ(message(404, R"({"message": 3})"), R"(answered with status 404: {"message": 3})");
  EXPECT_THAT(message(302, ""), HasSubstr("redirection (status 302); correct `server`"));
}

// ---- Broken connections and limits

TEST(ApiClientTest, ABrokenConnectionIsUnavailable) {
  const Served closed([](const Asked&) { return wire::hang_up(); });
  EXPECT_EQ(closed.error().kind(), ErrorKind::unavailable);
  EXPECT_THAT(closed.error().what(),
              StartsWith(closed.url() + ": the API server cannot be reached, or the connection broke: "));
  const Served cut(
      [](const Asked&) { return wire::cut("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"); });
  EXPECT_EQ(cut.error().kind(), ErrorKind::unavailable);
}

TEST(ApiClientTest, AServerThatDoesNotRunIsUnavailable) {
  std::string url;
  {
    const Served served(ok);
    url = served.url();
  }
  ApiClient client(access_to(url));
  EXPECT_EQ(error_in([&] { (void)client.send({.target = "/x"}, {}); }).kind(), ErrorKind::unavailable);
}

TEST(ApiClientTest, ASilentServerIsUnavailable) {
  const Served served([](const Asked&) { return wire::stall(); }, {.silence_max = Seconds{0.05}});
  const Error error = served.error();
  EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  EXPECT_EQ(error.message(), "the API server has sent nothing for 50 ms");
}

TEST(ApiClientTest, AnAnswerThatNeverEndsIsUnavailable) {
  const Served served(
      [](const Asked&) {
        Reply reply = wire::stream({}, Reply::Then::close);
        reply.more = [] {
          std::this_thread::yield();
          return wire::chunk("x");
        };
        return reply;
      },
      {.answer_max = Seconds{0.1}});
  EXPECT_EQ(served.error().kind(), ErrorKind::unavailable);
}

TEST(ApiClientTest, ALargeAnswerIsCorrupt) {
  const auto answer = [](const Asked& asked) {
    return wire::whole(asked.target == "/x" ? 200 : 500, std::string(3 << 20U, 'x'));
  };
  const Served served(answer, {.body_max = 2 << 20U});
  EXPECT_EQ(served.error().kind(), ErrorKind::corrupt);
  EXPECT_EQ(served.error().message(), "the answer of the API server is larger than 2 MiB");
  EXPECT_EQ(error_in([&] { (void)served.get("/error"); }).kind(), ErrorKind::corrupt);
  EXPECT_EQ(Served(answer, {.body_max = 3 << 20U}).get().body.size(), 3U << 20U);
}

TEST(ApiClientTest, EndlessHeadersAreCorrupt) {
  const Served served([](const Asked&) {
    return wire::endless("HTTP/1.1 200 OK\r\n", "X: " + std::string(1000, 'x') + "\r\n");
  });
  EXPECT_EQ(served.error().kind(), ErrorKind::corrupt);
}

// Without being woken, the client would look at the stop only after a second or later.
constexpr Seconds k_soon{0.5};

TEST(ApiClientTest, AStopEndsARequestAtOnce) {
  const Served served([](const Asked&) { return wire::stall(); });
  std::stop_source stop;
  std::chrono::steady_clock::time_point stopped;
  std::jthread stopper([&] {
    served.daemon().wait_for_requests(1);
    stopped = std::chrono::steady_clock::now();
    stop.request_stop();
  });
  const Error error = error_in([&] { (void)served.client().send({.target = "/x"}, stop.get_token()); });
  const auto ended = std::chrono::steady_clock::now();
  stopper.join();
  EXPECT_EQ(error.kind(), ErrorKind::cancelled);
  EXPECT_LT(Seconds(ended - stopped), k_soon);
}

TEST(ApiClientTest, ARequestedStopSendsNothing) {
  const Served served(ok);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_in([&] { (void)served.client().send({.target = "/x"}, stop.get_token()); }).kind(),
            ErrorKind::cancelled);
  EXPECT_EQ(served.daemon().asked().size(), 0U);
  EXPECT_EQ(served.get().body, "{}") << "the client can still be used";
}

// ---- Streams

TEST(ApiClientTest, AWatchPassesWholeLines) {
  const Served served([](const Asked&) {
    return wire::dripped(
        wire::ended(wire::stream({"{\"a\":1}\n{\"b\"", ":2}\r\n\n", "last\n"}, Reply::Then::keep)));
  });
  for (int i = 0; i < 2; ++i) {
    const auto [lines, error] = served.watched();
    EXPECT_THAT(lines, ElementsAre("{\"a\":1}", "{\"b\":2}", "last"));
    EXPECT_FALSE(error);
  }
  EXPECT_THAT(served.daemon().lines(), ElementsAre("GET /w?watch=1", "GET /w?watch=1"));
  EXPECT_EQ(served.daemon().connections(), 1U);
}

TEST(ApiClientTest, AWatchThatIsCutIsUnavailable) {
  const Served cut([](const Asked&) { return wire::stream({"1\n", "2\n"}, Reply::Then::close); });
  const auto [lines, error] = cut.watched();
  EXPECT_THAT(lines, ElementsAre("1", "2"));
  EXPECT_EQ(error.value().kind(), ErrorKind::unavailable);
  const Served in_line([](const Asked&) {
    return wire::ended(wire::stream({"1\n", "2"}, Reply::Then::keep));
  });
  const auto [whole_lines, fault] = in_line.watched();
  EXPECT_THAT(whole_lines, ElementsAre("1"));
  EXPECT_EQ(fault.value().message(), "the API server has ended the stream within a line");
}

TEST(ApiClientTest, AWatchThatIsSilentIsUnavailable) {
  const Served served([](const Asked&) { return wire::stream({"1\n"}, Reply::Then::stall); });
  const auto [lines, error] = served.watched(Seconds{0.3});
  EXPECT_THAT(lines, ElementsAre("1"));
  EXPECT_EQ(error.value().kind(), ErrorKind::unavailable);
  EXPECT_EQ(error.value().message(), "the API server has sent nothing for 300 ms");
}

TEST(ApiClientTest, EachByteEndsTheSilence) {
  constexpr Seconds k_silence_max{1};
  constexpr int k_pieces = 8;
  constexpr Seconds k_pause{0.15};  // k_pieces pauses take longer than k_silence_max
  const Served served(
      [&](const Asked&) {
        Reply reply = wire::stream({}, Reply::Then::close);
        reply.more = [k_pause, sent = 0]() mutable {
          if (sent > k_pieces) return std::string();
          real_clock().wait(k_pause, {});
          return ++sent <= k_pieces ? wire::chunk("1\n") : std::string("0\r\n\r\n");
        };
        return reply;
      },
      {.silence_max = k_silence_max});
  const auto [lines, error] = served.watched(k_silence_max);
  EXPECT_EQ(lines.size(), static_cast<std::size_t>(k_pieces));
  EXPECT_FALSE(error);
  EXPECT_EQ(served.get().body.size(), 2U * k_pieces);
}

TEST(ApiClientTest, TheTimeThatTheCallerTakesForALineIsNoSilence) {
  std::atomic<bool> has_returned = false;
  const Served served([&](const Asked&) {
    Reply reply = wire::stream({"1\n"}, Reply::Then::close);
    reply.more = [&has_returned, sent = false]() mutable {
      has_returned.wait(false);
      return std::exchange(sent, true) ? std::string() : wire::chunk("2\n") + "0\r\n\r\n";
    };
    return reply;
  });
  constexpr Seconds k_silence_max{0.5};
  std::vector<std::string> lines;
  served.client().read("/w",
                       {.on_line =
                            [&](std::string_view line) {
                              lines.emplace_back(line);
                              if (line != "1") return;
                              real_clock().wait(1.5 * k_silence_max, {});
                              has_returned = true;
                              has_returned.notify_all();
                            },
                        .silence_max = k_silence_max},
                       {});
  EXPECT_THAT(lines, ElementsAre("1", "2"));
}

TEST(ApiClientTest, ARightThatWasGrantedBeforeIsRefusedOnlyForNow) {
  constexpr std::string_view k_refusal = "pods is forbidden: User \"u\" cannot list resource \"pods\"";
  const Served served([&](const Asked& asked) {
    return asked.number == 0 ? wire::whole(200, "{}")
                             : wire::whole(403, status_object(std::string(k_refusal)));
  });
  const auto kind_of = [&](const std::string& target) {
    return error_in([&] { (void)served.get(target); }).kind();
  };
  (void)served.get("/api/v1/namespaces/n/pods?limit=1");
  EXPECT_EQ(kind_of("/api/v1/namespaces/n/pods?limit=500"), ErrorKind::unavailable);
  EXPECT_EQ(kind_of("/api/v1/namespaces/n/pods/a"), ErrorKind::refused);
  EXPECT_EQ(kind_of("/api/v1/namespaces/n/events"), ErrorKind::refused);
}

TEST(ApiClientTest, AnAdmissionRefusalWithTheWordCannotIsNoMissingRight) {
  const std::vector<std::string> refusals{
      R"(admission webhook \"p\" denied the request: container \"main\" cannot run as root)",
      R"(admission webhook \"p\" denied the request: forbidden: User \"u\" cannot create resource \"pods\")",
      R"(pods \"a\" is forbidden: the policy \"p\" denied request: User \"u\" cannot create resource \"x\")",
      R"(pods \"a\" is forbidden: User \"u\" cannot run as root)",
  };
  for (const std::string& refusal : refusals) {
    const Served served([&](const Asked& asked) {
      return asked.number == 0 ? wire::whole(200, "{}") : wire::whole(403, status_object(refusal));
    });
    (void)served.get("/api/v1/namespaces/n/pods");
    const Error error = error_in([&] { (void)served.get("/api/v1/namespaces/n/pods"); });
    EXPECT_EQ(error.kind(), ErrorKind::refused) << refusal;
    EXPECT_THAT(error.message(), Not(HasSubstr("combu doctor"))) << refusal;
  }
}

TEST(ApiClientTest, AMissingRightHasARemedy) {
  const auto message_for = [](const std::string& refusal) {
    const Served served([&](const Asked&) { return wire::whole(403, status_object(refusal)); });
    return error_in([&] { (void)served.get("/api/v1/namespaces/n/pods"); }).message();
  };
  EXPECT_EQ(message_for(R"(pods is forbidden: User \"u\" cannot list resource \"pods\")"),
            "pods is forbidden: User \"u\" cannot list resource \"pods\"; check the name of the namespace; "
            "`combu doctor` with the same --engine prints the missing rights");
  EXPECT_THAT(message_for(R"(forbidden: User \"u\" cannot get path \"/version\")"),
              HasSubstr("combu doctor"));
  EXPECT_EQ(message_for("the policy says that you cannot do this"),
            "the policy says that you cannot do this");
}

TEST(ApiClientTest, AStopEndsAWatchAtOnce) {
  const Served served([](const Asked&) { return wire::stream({"1\n"}, Reply::Then::stall); });
  std::stop_source stop;
  std::atomic<bool> has_line = false;
  std::chrono::steady_clock::time_point stopped;
  std::jthread stopper([&] {
    has_line.wait(false);
    // libcurl has timers for a new connection, which also wake the client. Let them pass.
    real_clock().wait(k_soon, {});
    stopped = std::chrono::steady_clock::now();
    stop.request_stop();
  });
  served.client().read("/w",
                       {.on_line =
                            [&](std::string_view) {
                              has_line = true;
                              has_line.notify_all();
                            },
                        .silence_max = k_long},
                       stop.get_token());
  const auto ended = std::chrono::steady_clock::now();
  stopper.join();
  EXPECT_LT(Seconds(ended - stopped), k_soon);
}

TEST(ApiClientTest, AnExceptionOfTheCallerEndsAWatch) {
  const Served served([](const Asked&) { return wire::stream({"1\n2\n"}, Reply::Then::stall); });
  int lines = 0;
  EXPECT_THROW(served.client().read("/w",
                                    {.on_line =
                                         [&](std::string_view) {
                                           ++lines;
                                           throw std::runtime_error("enough");
                                         },
                                     .silence_max = k_long},
                                    {}),
               std::runtime_error);
  EXPECT_EQ(lines, 1);
}

TEST(ApiClientTest, AnErrorStatusEndsAWatchWithoutLines) {
  const Served served([](const Asked&) { return wire::whole(410, status_object("too old") + "\n"); });
  std::vector<std::string> lines;
  try {
    served.client().read(
        "/w", {.on_line = [&](std::string_view line) { lines.emplace_back(line); }, .silence_max = k_long},
        {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const ApiError& error) {
    EXPECT_EQ(error.status(), 410);
    EXPECT_EQ(error.message(), "too old");
  }
  EXPECT_THAT(lines, ElementsAre());
}

TEST(ApiClientTest, ALongLineIsCorrupt) {
  const Served served(
      [](const Asked&) { return wire::endless("HTTP/1.1 200 OK\r\n\r\n1\n", std::string(1000, 'x')); },
      {.line_max = 1 << 20U});
  const auto [lines, error] = served.watched();
  EXPECT_THAT(lines, ElementsAre("1"));
  EXPECT_EQ(error.value().kind(), ErrorKind::corrupt);
  EXPECT_THAT(error.value().message(), EndsWith("has a line of more than 1 MiB"));
}

TEST(ApiClientTest, AWatchMayBeLargerThanAnAnswer) {
  const Served served(
      [](const Asked&) {
        return wire::ended(
            wire::stream(std::vector<std::string>(50, std::string(999, 'x') + "\n"), Reply::Then::keep));
      },
      {.body_max = 1000, .line_max = 1000});
  EXPECT_EQ(served.watched().first.size(), 50U);
}

// ---- Proxies

// The daemon is the proxy of a server whose name does not exist.
void use_as_proxy(Access& access, const std::string& server) {
  access.proxy = access.cluster.server;
  access.cluster = {.server = server, .address = parse_server_address(server).value()};
}

TEST(ApiClientTest, RequestsGoThroughTheProxy) {
  const Served http(ok, {}, [](Access& access) { use_as_proxy(access, "http://api.invalid:81"); });
  (void)http.get();
  EXPECT_THAT(http.daemon().lines(), ElementsAre("GET http://api.invalid:81/x"));
  const Served https([](const Asked&) { return wire::whole(403, ""); }, {},
                     [](Access& access) {
                       use_as_proxy(access, "https://api.invalid");
                       access.cluster.tls_server_name = "kubernetes";
                       access.account.token = "my-secret";
                     });
  const Error error = https.error();
  EXPECT_EQ(error.kind(), ErrorKind::unavailable);
  EXPECT_THAT(https.daemon().lines(), ElementsAre("CONNECT api.invalid:443"));
  EXPECT_THAT(https.daemon().asked().at(0).head, Not(HasSubstr("my-secret")));
}

TEST(ApiClientTest, VariablesThatOnlyLibcurlReadsHaveNoEffect) {
  ::setenv("ALL_PROXY", "http://127.0.0.1:1", 1);  // NOLINT(concurrency-mt-unsafe): no other thread reads it
  const Served served(ok);
  EXPECT_EQ(served.get().body, "{}");
  ::unsetenv("ALL_PROXY");       // NOLINT(concurrency-mt-unsafe)
  ::setenv("no_proxy", "*", 1);  // NOLINT(concurrency-mt-unsafe)
  const Served proxy(ok, {}, [](Access& access) { use_as_proxy(access, "http://api.invalid"); });
  EXPECT_EQ(proxy.get().body, "{}");
  ::unsetenv("no_proxy");  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace combu::kubernetes
