// Every request of the Docker room, with an engine that gives a hostile answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "docker/api.hpp"
#include "docker/api_json.hpp"
#include "wire/scripted_daemon.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Le;
using testing::StartsWith;
using wire::Asked;
using wire::Reply;
using wire::ScriptedDaemon;

// The part of an answer that the request uses.
enum class Body {
  none,     // only the status: there is no body
  ignored,  // only the status
  header,   // a header
  value,    // the body: JSON that is parsed as a whole
  listing,  // JSON objects that are processed one by one, until their end
  objects,  // JSON objects of a stream that need not end
  bytes,    // the body, which is passed on as it arrives
};

struct Call {
  Connections& engine;
  std::stop_token stop;
  std::function<void()> heard;  // called for each piece of a stream
};

struct Endpoint {
  std::string name;
  std::string request;  // the beginning of the request line
  Body body = Body::none;
  Reply right;
  std::function<std::string(const Call&)> call;  // returns a text of the parsed answer
  // Answers the other requests that the call needs.
  std::function<Reply(const Asked&)> others = [](const Asked&) { return wire::bare(204); };
};

const std::string k_version = "/v1.41";

Reply right_ping() {
  return wire::whole(200, "OK", "Api-Version: 1.41\r\n");
}

Reply stat_header(const std::string& text) {
  return {{"HTTP/1.1 200 OK\r\nX-Docker-Container-Path-Stat: " + encode_base64url(text) + "\r\n\r\n"},
          Reply::Then::keep};
}

const std::string k_container = json{{"Id", "c"},
                                     {"Names", {"/a"}},
                                     {"State", "running"},
                                     {"Labels", {{"k", "v"}}},
                                     {"Ports", {{{"PublicPort", 80}, {"IP", "::"}, {"Type", "tcp"}}}},
                                     {"NetworkSettings", {{"Networks", {{"net", json::object()}}}}}}
                                    .dump();
const std::string k_event =
    json{{"Action", "die"}, {"time", 7}, {"Actor", {{"ID", "c"}, {"Attributes", {{"exitCode", "3"}}}}}}
        .dump();
const std::string k_layer =
    json{{"id", "l"}, {"status", "Downloading"}, {"progressDetail", {{"current", 1}, {"total", 2}}}}.dump();
const std::string k_frame("\1\0\0\0\0\0\0\3abc", 11);

std::string inspected(const json& state) {
  return json{{"Id", "c"}, {"State", state}, {"Config", {{"Image", "img"}, {"Labels", {{"k", "v"}}}}}}.dump();
}

std::string system_text(const Call& call) {
  const SystemFacts facts = get_system(call.engine, call.stop);
  std::string text = facts.product + " " + facts.version + " " + to_string(facts.capacity.memory);
  for (const std::string& device : facts.cdi_devices) text += " " + device;
  return text;
}

std::string summary_text(const ContainerSummary& summary) {
  return summary.id + summary.name + summary.state + std::to_string(summary.labels.size()) +
         std::to_string(summary.ports.size()) + std::to_string(summary.networks.size());
}

const Reply k_right_info = wire::whole(
    200, R"({"NCPU":2,"MemTotal":1024,"DiscoveredDevices":[{"Source":"cdi","ID":"nvidia.com/gpu=0"}]})");
const Reply k_right_version =
    wire::whole(200, R"({"Version":"29.0","Components":[{"Name":"Engine"},{"Name":"Podman Engine"}]})");

std::vector<Endpoint> system_endpoints() {
  return {
      {"ping", "GET /_ping", Body::header, right_ping(),
       [](const Call& call) { return call.engine.version(call.stop).text(); }},
      {"version", "GET " + k_version + "/version", Body::value, k_right_version, system_text,
       [](const Asked&) { return k_right_info; }},
      {"info", "GET " + k_version + "/info", Body::value, k_right_info, system_text,
       [](const Asked&) { return k_right_version; }},
      {"past_events", "GET " + k_version + "/events", Body::listing,
       wire::whole(200, k_event + "\n" + k_event),
       [](const Call& call) {
         std::string text;
         for (const ContainerEvent& event : past_events(call.engine, {"l"}, {"die"}, Seconds{9}, call.stop))
           text += event.action + event.id + event.attributes.at("exitCode");
         return text;
       }},
      {"events", "GET " + k_version + "/events", Body::objects,
       wire::ended(wire::stream({k_event, k_event}, Reply::Then::keep)),
       [](const Call& call) {
         std::string text;
         read_events(
             call.engine, {"l"}, [] {},
             [&](const ContainerEvent& event) {
               call.heard();
               text += event.action + event.id + event.attributes.at("exitCode");
             },
             call.stop);
         return text;
       }},
  };
}

std::vector<Endpoint> image_endpoints() {
  return {
      {"image", "GET " + k_version + "/images/img/json", Body::value,
       wire::whole(200, R"({"Id":"i","Os":"linux","Architecture":"amd64","RepoDigests":["img@sha256:7"],)"
                        R"("Config":{"Healthcheck":{"Test":["CMD","x"]}}})"),
       [](const Call& call) {
         const auto facts = inspect_image(call.engine, "img", call.stop);
         return facts ? facts->id + facts->digest + facts->platform + (facts->has_healthcheck ? "+" : "-")
                      : "";
       }},
      {"pull", "POST " + k_version + "/images/create", Body::objects,
       wire::whole(200, k_layer + "\r\n" + k_layer),
       [](const Call& call) {
         std::string text;
         pull_image(
             call.engine, {.image = "img", .platform = "", .registry_auth = ""},
             [&](Bytes done, Bytes total) {
               call.heard();
               text += std::to_string(done.count) + "/" + std::to_string(total.count) + " ";
             },
             call.stop);
         return text;
       }},
  };
}

std::string container_text(const Call& call) {
  const auto facts = inspect_container(call.engine, "c", call.stop);
  return facts ? facts->id + facts->image + facts->state + std::to_string(facts->exit_code) : "";
}

std::vector<Endpoint> container_endpoints() {
  const std::string one = k_version + "/containers/c";
  return {
      {"containers", "GET " + k_version + "/containers/json", Body::listing,
       wire::whole(200, "[" + k_container + ",\n" + k_container + "]"),
       [](const Call& call) {
         std::string text;
         list_containers(
             call.engine, {.labels = {"l"}},
             [&](ContainerSummary&& summary) { text += summary_text(summary); }, call.stop);
         return text;
       }},
      {"container", "GET " + one + "/json", Body::value,
       wire::whole(200, inspected({{"Status", "exited"}, {"ExitCode", 3}})), container_text},
      {"processes", "GET " + one + "/top", Body::value, wire::whole(200, R"({"Processes":[["1"]]})"),
       container_text,
       [](const Asked&) {
         return wire::whole(200, inspected({{"Status", "running"}}));
       }},
      {"create", "POST " + k_version + "/containers/create", Body::value, wire::whole(201, R"({"Id":"c"})"),
       [](const Call& call) {
         const HttpResponse created = create_container(call.engine, "a", "", json::object(), call.stop);
         if (created.status != 201) throw error_of(created, "a");
         return reading(call.engine, [&] { return created_id(created); });
       }},
      {"start", "POST " + one + "/start", Body::none, wire::bare(204),
       [](const Call& call) {
         start_container(call.engine, "c", "a", call.stop);
         return "started";
       }},
      {"stop", "POST " + one + "/stop", Body::none, wire::bare(204),
       [](const Call& call) {
         stop_container(call.engine, "c", Seconds{1}, call.stop);
         return "stopped";
       }},
      {"remove", "DELETE " + one, Body::none, wire::bare(204),
       [](const Call& call) {
         remove_container(call.engine, "c", "a", call.stop);
         return "removed";
       }},
      {"wait", "POST " + one + "/wait", Body::ignored, wire::whole(200, R"({"StatusCode":0})"),
       [](const Call& call) {
         remove_container(call.engine, "c", "a", call.stop);
         return "removed";
       },
       [](const Asked&) { return wire::whole(409, R"({"message":"removal is in progress"})"); }},
      {"remove_unstarted", "DELETE " + one, Body::none, wire::bare(204),
       [](const Call& call) {
         return remove_unstarted_container(call.engine, "c", call.stop) ? "removed" : "running";
       }},
      {"stats", "GET " + one + "/stats", Body::value,
       wire::whole(200, R"({"memory_stats":{"usage":9,"stats":{"inactive_file":2}},)"
                        R"("cpu_stats":{"cpu_usage":{"total_usage":5}}})"),
       [](const Call& call) {
         const auto usage = container_usage(call.engine, "c", call.stop);
         return usage ? std::to_string(usage->memory.count) : "";
       }},
  };
}

std::vector<Endpoint> file_endpoints() {
  const std::string archive = k_version + "/containers/c/archive";
  return {
      {"put_params", "PUT " + archive, Body::ignored, wire::whole(200, ""),
       [](const Call& call) {
         put_archive(call.engine, "c", "/", std::string("tar"), call.stop);
         return "there";
       }},
      {"put_inputs", "PUT " + archive, Body::ignored, wire::whole(200, ""),
       [](const Call& call) {
         put_archive(
             call.engine, "c", "a", [](const HttpRequest::Send& send) { return send("tar"); }, call.stop);
         return "there";
       }},
      {"find_path", "HEAD " + archive, Body::header, stat_header(R"({"linkTarget":"/elsewhere"})"),
       [](const Call& call) { return find_path(call.engine, "c", "/out", call.stop).value_or(""); }},
      {"file_size", "HEAD " + archive, Body::header, stat_header(R"({"size":12})"),
       [](const Call& call) {
         const auto size = file_size(call.engine, "c", "/out", call.stop);
         return size ? std::to_string(*size) : "";
       }},
      {"get_archive", "GET " + archive, Body::bytes, wire::whole(200, "abc"),
       [](const Call& call) {
         std::string text;
         const auto send = [&](std::string_view bytes) {
           call.heard();
           text += bytes;
         };
         return get_archive(call.engine, "c", "/out", send, call.stop) ? text : "";
       }},
      {"logs", "GET " + k_version + "/containers/c/logs", Body::bytes, wire::whole(200, k_frame + k_frame),
       [](const Call& call) {
         std::string text;
         const auto send = [&](const LogPiece& piece) {
           call.heard();
           text += piece.text;
         };
         read_logs(call.engine, "c", LogFormat::frames, {}, send, call.stop);
         return text;
       }},
      {"terminal_logs", "GET " + k_version + "/containers/c/logs", Body::bytes, wire::whole(200, "abc"),
       [](const Call& call) {
         std::string text;
         const auto send = [&](const LogPiece& piece) {
           call.heard();
           text += piece.text;
         };
         read_logs(call.engine, "c", LogFormat::raw, {.follow = true}, send, call.stop);
         return text;
       }},
  };
}

std::vector<Endpoint> network_endpoints() {
  return {
      {"networks", "GET " + k_version + "/networks", Body::value,
       wire::whole(200, R"([{"Id":"n","Name":"net","Labels":{"combu.experiment":"exp"}}])"),
       [](const Call& call) {
         std::string text;
         for (const NetworkSummary& network : list_networks(call.engine, {"l"}, call.stop))
           text += network.id + network.name + network.experiment;
         return text;
       }},
      {"create_network", "POST " + k_version + "/networks/create", Body::ignored,
       wire::whole(201, R"({"Id":"n"})"),
       [](const Call& call) {
         create_network(call.engine, "net", {}, call.stop);
         return "created";
       }},
      {"connect_network", "POST " + k_version + "/networks/net/connect", Body::ignored, wire::whole(200, ""),
       [](const Call& call) {
         connect_network(call.engine, "net", "c", json::object(), call.stop);
         return "connected";
       }},
      {"network_created_at", "GET " + k_version + "/networks/net", Body::value,
       wire::whole(200, R"({"Created":"2026-01-02T03:04:05Z"})"),
       [](const Call& call) {
         return network_created_at(call.engine, "net", call.stop) ? "known" : "unknown";
       }},
      {"network_users", "GET " + k_version + "/networks/net", Body::value,
       wire::whole(200, R"({"Containers":{"c":{"Name":"a"}}})"),
       [](const Call& call) {
         std::string text;
         for (const std::string& name : network_users(call.engine, "net", call.stop)) text += name;
         return text;
       }},
      {"remove_network", "DELETE " + k_version + "/networks/net", Body::none, wire::bare(204),
       [](const Call& call) {
         const HttpResponse response = remove_network(call.engine, "net", call.stop);
         if (response.status >= 300) throw error_of(response, "net");
         return "removed";
       }},
  };
}

std::vector<Endpoint> exec_endpoints() {
  return {
      {"create_exec", "POST " + k_version + "/containers/c/exec", Body::value,
       wire::whole(201, R"({"Id":"e"})"),
       [](const Call& call) { return create_exec(call.engine, "c", "a", {"cat"}, call.stop); }},
      {"inspect_exec", "GET " + k_version + "/exec/e/json", Body::value,
       wire::whole(200, R"({"Running":false,"Pid":5,"ExitCode":3})"),
       [](const Call& call) {
         const auto facts = inspect_exec(call.engine, "e", call.stop);
         return facts ? std::to_string(facts->exit_code.value_or(-1)) + (facts->has_begun ? "+" : "-") : "";
       }},
  };
}

std::vector<Endpoint> volume_endpoints() {
  return {
      {"volumes", "GET " + k_version + "/volumes", Body::value,
       wire::whole(200, R"({"Volumes":[{"Name":"v"},{"Name":"w"}]})"),
       [](const Call& call) {
         std::string text;
         for (const std::string& name : list_volumes(call.engine, "l", call.stop)) text += name;
         return text;
       }},
      {"remove_volume", "DELETE " + k_version + "/volumes/v", Body::none, wire::bare(204),
       [](const Call& call) {
         const HttpResponse response = remove_volume(call.engine, "v", call.stop);
         if (response.status >= 300) throw error_of(response, "v");
         return "removed";
       }},
  };
}

std::vector<Endpoint> endpoints_of(const std::set<Body>& bodies) {
  std::vector<Endpoint> found;
  for (const auto& some : {system_endpoints(), image_endpoints(), container_endpoints(), file_endpoints(),
                           exec_endpoints(), network_endpoints(), volume_endpoints()})
    for (const Endpoint& endpoint : some)
      if (bodies.contains(endpoint.body)) found.push_back(endpoint);
  return found;
}

struct Outcome {
  std::string understood;
  std::optional<Error> error;
};

class EndpointTest : public testing::TestWithParam<Endpoint> {
 protected:
  // Sends the request and answers it with `reply`. Stops a stream after some pieces.
  static Outcome outcome_of(const Reply& reply) {
    const auto handler = [&](const Asked& asked) {
      if ((asked.method + " " + asked.target).starts_with(GetParam().request)) return reply;
      return asked.target == "/_ping" ? right_ping() : GetParam().others(asked);
    };
    ScriptedDaemon daemon(handler, ScriptedDaemon::Kind::unix_socket, ScriptedDaemon::Bodies::whole);
    Connections engine(parse_address(daemon.address()), {Seconds{20}});
    std::stop_source stop;
    constexpr std::size_t k_heard_max = 1000;
    std::size_t heard = 0;
    const auto hear = [&] {
      if (++heard == k_heard_max) stop.request_stop();
    };
    Outcome outcome;
    try {
      outcome.understood = GetParam().call({engine, stop.get_token(), hear});
    } catch (const Error& error) {
      outcome.error = error;
    }
    return outcome;
  }

  static void expect_corrupt(const Reply& reply, const testing::Matcher<const std::string&>& message) {
    const Outcome outcome = outcome_of(reply);
    ASSERT_TRUE(outcome.error) << outcome.understood;
    EXPECT_EQ(outcome.error->kind(), ErrorKind::corrupt);
    EXPECT_THAT(outcome.error->subject(), StartsWith("unix://")) << "the engine's address";
    EXPECT_THAT(outcome.error->message(), message);
  }

  // Bodies of `begin` and then endlessly `again`, in three forms: with a content length, in chunks, and until
  // the connection ends.
  static std::vector<Reply> without_end(int status, const std::string& begin, const std::string& again) {
    const std::string head = "HTTP/1.1 " + std::to_string(status) + " Word\r\nApi-Version: 1.41\r\n";
    return {
        wire::endless(head + "Content-Length: 10000000000\r\n\r\n" + begin, again),
        wire::endless(head + "Transfer-Encoding: chunked\r\n\r\n" + wire::chunk(begin), wire::chunk(again)),
        wire::endless(head + "\r\n" + begin, again)};
  }

  static int success() {
    return std::stoi(GetParam().right.pieces.front().substr(std::string("HTTP/1.1 ").size()));
  }
};

std::string name_of(const testing::TestParamInfo<Endpoint>& endpoint) {
  return endpoint.param.name;
}
auto having(const std::set<Body>& bodies) {
  return testing::ValuesIn(endpoints_of(bodies));
}

class EveryEndpoint : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryEndpoint,
                         having({Body::none, Body::ignored, Body::header, Body::value, Body::listing,
                                 Body::objects, Body::bytes}),
                         name_of);
class EveryValue : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryValue, having({Body::value}), name_of);
class EveryIgnoredBody : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryIgnoredBody, having({Body::ignored}), name_of);
class EveryObject : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryObject, having({Body::listing, Body::objects}), name_of);
class EveryListing : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryListing, having({Body::listing}), name_of);
class EveryStream : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryStream, having({Body::objects, Body::bytes}), name_of);

// Returns nested arrays, and nested objects.
std::vector<std::string> nested(std::size_t depth) {
  std::string arrays;
  std::string objects;
  for (std::size_t i = 0; i < depth; ++i) objects += R"({"a":)";
  arrays += std::string(depth, '[') + "1" + std::string(depth, ']');
  objects += "1" + std::string(depth, '}');
  return {arrays, objects};
}

const std::vector<std::string> k_nested = nested(500'000);
const std::string k_too_deep = "nested deeper than 512 levels";
const std::string k_text(64 << 10, 'x');

TEST_P(EveryEndpoint, AnAnswerThatArrivesByteByByteIsUnderstood) {
  const Outcome whole = outcome_of(GetParam().right);
  ASSERT_FALSE(whole.error) << whole.error->what();
  EXPECT_NE(whole.understood, "");
  const Outcome dripped = outcome_of(wire::dripped(GetParam().right));
  ASSERT_FALSE(dripped.error) << dripped.error->what();
  EXPECT_EQ(dripped.understood, whole.understood);
}

TEST_P(EveryEndpoint, EndlessHeadersAreCorrupt) {
  const std::string line = "X-Header: " + std::string(1000, 'x') + "\r\n";
  const std::string interim = "HTTP/1.1 100 Continue\r\n\r\n";
  for (const Reply& reply : {wire::endless("HTTP/1.1 200 OK\r\n", line), wire::endless(interim, interim)})
    expect_corrupt(reply, HasSubstr("more than 256 KiB of headers"));
}

// An answer to HEAD has no body: the bytes of a body are read as the answer to the next request, if there is
// a next request.
const auto k_body_of_head = testing::AnyOf(ErrorKind::corrupt, ErrorKind::unavailable, ErrorKind::refused);

TEST_P(EveryEndpoint, ARefusalThatIsNestedTooDeepIsARefusal) {
  for (const std::string& value : k_nested) {
    const Outcome outcome = outcome_of(wire::whole(500, R"({"message":)" + value + "}"));
    if (GetParam().name == "processes" || GetParam().name == "network_created_at") {
      EXPECT_FALSE(outcome.error) << "they do without";
      continue;
    }
    ASSERT_TRUE(outcome.error);
    if (GetParam().request.starts_with("HEAD"))
      EXPECT_THAT(outcome.error->kind(), k_body_of_head);
    else
      EXPECT_EQ(outcome.error->kind(),
                // `wait`: the error of the removal.
                GetParam().name == "wait" ? ErrorKind::conflict : ErrorKind::refused);
    EXPECT_THAT(outcome.error->message().size(), Le(600U));
  }
}

TEST_P(EveryEndpoint, AnEndlessRefusalIsCorrupt) {
  const Reply reply = without_end(500, R"({"message":")", k_text)[1];
  if (GetParam().request.starts_with("HEAD")) {
    const Outcome outcome = outcome_of(reply);
    ASSERT_TRUE(outcome.error);
    EXPECT_THAT(outcome.error->kind(), k_body_of_head);
  } else {
    expect_corrupt(reply, HasSubstr("is larger than 16 MiB"));
  }
}

TEST_P(EveryValue, IsCorruptIfNestedTooDeep) {
  for (const std::string& value : k_nested) {
    expect_corrupt(wire::whole(success(), value), HasSubstr(k_too_deep));
    expect_corrupt(wire::whole(success(), R"({"Id":"c","x":)" + value + "}"), HasSubstr(k_too_deep));
  }
}

TEST_P(EveryValue, IsCorruptIfAMemberIsNestedTooDeep) {
  const std::string& right = GetParam().right.pieces.front();
  const json value = json::parse(right.substr(right.find("\r\n\r\n")));
  const json& object = value.is_array() ? value.front() : value;
  for (const auto& [name, member] : object.items()) {
    for (const std::string& deep : k_nested) {
      const std::string text = R"({")" + name + R"(":)" + deep + "}";
      expect_corrupt(wire::whole(success(), value.is_array() ? "[" + text + "]" : text),
                     HasSubstr(k_too_deep));
    }
  }
}

TEST_P(EveryValue, IsCorruptIfEndless) {
  for (const Reply& reply : without_end(success(), "[\"", k_text))
    expect_corrupt(reply, HasSubstr("is larger than 16 MiB"));
}

TEST_P(EveryIgnoredBody, MayBeNestedButNotEndless) {
  for (const std::string& value : k_nested) EXPECT_FALSE(outcome_of(wire::whole(success(), value)).error);
  for (const Reply& reply : without_end(success(), "[\"", k_text))
    expect_corrupt(reply, HasSubstr("is larger than 16 MiB"));
}

TEST_P(EveryObject, IsCorruptIfNestedTooDeep) {
  for (const std::string& value : k_nested)
    expect_corrupt(wire::whole(200, R"({"Id":"c","x":)" + value + "}"), HasSubstr(k_too_deep));
}

TEST_P(EveryObject, IsCorruptIfEndless) {
  for (const Reply& reply : without_end(200, R"({"a":")", k_text))
    expect_corrupt(reply, HasSubstr("an object of the answer is larger than 16 MiB"));
}

TEST_P(EveryListing, IsCorruptIfEndless) {
  const std::string blanks(256 << 10, ' ');
  expect_corrupt(without_end(200, "[", blanks).back(), HasSubstr("the answer is larger than"));
}

TEST_P(EveryStream, IsEndedByAStopIfEndless) {
  const std::string piece = GetParam().name == "events" ? k_event
                            : GetParam().name == "pull" ? k_layer
                            : GetParam().name == "logs" ? k_frame
                                                        : "abc";
  const Outcome outcome =
      outcome_of(wire::endless("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", wire::chunk(piece)));
  ASSERT_TRUE(outcome.error);
  EXPECT_EQ(outcome.error->kind(), ErrorKind::cancelled);
}

// Returns copies of the answer `right`. In each copy, another one of its numbers is replaced by `number`.
std::vector<std::string> with_numbers(const std::string& right, const std::string& number) {
  std::vector<std::string> texts;
  const json value = json::parse(right).flatten();
  for (const auto& [path, member] : value.items()) {
    if (!member.is_number()) continue;
    json other = value;
    other[path] = "<number>";
    std::string text = other.unflatten().dump();
    texts.push_back(text.replace(text.find("\"<number>\""), 10, number));
  }
  return texts;
}

class EveryNumber : public EndpointTest {};
INSTANTIATE_TEST_SUITE_P(, EveryNumber, having({Body::value, Body::listing, Body::objects}), name_of);

TEST_P(EveryNumber, IsCorruptIfNotAValidWholeNumber) {
  const std::string& right = GetParam().right.pieces.back();
  const std::size_t from = GetParam().right.pieces.front().find("\r\n\r\n") + 4;
  const std::string body = GetParam().name == "containers"    ? k_container
                           : GetParam().name == "past_events" ? k_event
                           : GetParam().name == "events"      ? k_event
                           : GetParam().name == "pull"        ? k_layer
                                                              : right.substr(from);
  for (const char* const number : {"9223372036854775807", "18446744073709551615", "1e300", "-1e300", "0.5"})
    for (const std::string& text : with_numbers(body, number))
      expect_corrupt(wire::whole(success(), text), HasSubstr("must be a whole number"));
}

TEST(FindPath, AHeaderThatIsNestedTooDeepIsCorrupt) {
  ScriptedDaemon daemon([](const Asked& asked) {
    return asked.target == "/_ping" ? right_ping() : stat_header(nested(2000).front());
  });
  Connections engine(parse_address(daemon.address()), {Seconds{20}});
  try {
    (void)find_path(engine, "c", "/out", {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_THAT(error.message(), HasSubstr(k_too_deep));
  }
}

TEST(Pull, AnImageWithTooManyLayersIsCorrupt) {
  ScriptedDaemon daemon([](const Asked& asked) {
    if (asked.target == "/_ping") return right_ping();
    std::string lines;
    for (int i = 0; i < 5000; ++i)
      lines += json{{"id", std::to_string(i)},
                    {"status", "Downloading"},
                    {"progressDetail", {{"current", 1}, {"total", 2}}}}
                   .dump();
    return wire::whole(200, lines);
  });
  Connections engine(parse_address(daemon.address()), {Seconds{20}});
  try {
    pull_image(engine, {.image = "img", .platform = "", .registry_auth = ""}, [](Bytes, Bytes) {}, {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_EQ(error.message(), "the image has more than 4096 layers");
  }
}

}  // namespace
}  // namespace combu::docker
