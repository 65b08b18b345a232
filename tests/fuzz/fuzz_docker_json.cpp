// Answers one request to an engine with the input as JSON. The call must return a result or throw Error.

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "combu/json.hpp"
#include "docker/api.hpp"
#include "docker/api_json.hpp"
#include "fuzz/answering_server.hpp"

namespace {

using namespace combu::docker;

struct Endpoint {
  const char* target;  // a part of the request's target
  int status;
  void (*call)(Connections&);
  std::string_view others = {};  // the answer to all other requests of the call
};

constexpr const char* k_info = R"({"NCPU":2,"MemTotal":1024})";
constexpr const char* k_running = R"({"Id":"c","State":{"Status":"running"},"Config":{}})";

const Endpoint k_endpoints[] = {
    {"/version", 200, [](Connections& engine) { (void)get_system(engine, {}); }, k_info},
    {"/info", 200, [](Connections& engine) { (void)get_system(engine, {}); }, "{}"},
    {"/images/", 200, [](Connections& engine) { (void)inspect_image(engine, "img", {}); }},
    {"/images/create", 200,
     [](Connections& engine) {
       pull_image(engine, {.image = "img", .platform = "", .registry_auth = ""},
                  [](combu::Bytes, combu::Bytes) {}, {});
     }},
    {"/containers/json", 200,
     [](Connections& engine) { list_containers(engine, {}, [](ContainerSummary&&) {}, {}); }},
    {"/json", 200, [](Connections& engine) { (void)inspect_container(engine, "c", {}); }},
    {"/top", 200, [](Connections& engine) { (void)inspect_container(engine, "c", {}); }, k_running},
    {"/create", 201,
     [](Connections& engine) {
       const combu::HttpResponse created = create_container(engine, "a", "", nlohmann::json::object(), {});
       (void)reading(engine, [&] { return created_id(created); });
     }},
    {"/stats", 200, [](Connections& engine) { (void)container_usage(engine, "c", {}); }},
    {"/archive", 200, [](Connections& engine) { (void)find_path(engine, "c", "/out", {}); }},
    {"/networks", 200, [](Connections& engine) { (void)list_networks(engine, {}, {}); }},
    {"/networks/", 200, [](Connections& engine) { (void)network_created_at(engine, "net", {}); }},
    {"/networks/", 200, [](Connections& engine) { (void)network_users(engine, "net", {}); }},
    {"/events", 200,
     [](Connections& engine) { (void)past_events(engine, {}, {"die"}, combu::Seconds{9}, {}); }},
    {"/events", 200,
     [](Connections& engine) {
       read_events(
           engine, {}, [] {}, [](const ContainerEvent&) {}, {});
     }},
    {"/start", 500, [](Connections& engine) { start_container(engine, "c", "a", {}); }},
    {"/archive", 200, [](Connections& engine) { (void)file_size(engine, "c", "/out", {}); }},
    {"/exec", 201, [](Connections& engine) { (void)create_exec(engine, "c", "a", {}, {}); }},
    {"/exec/", 200, [](Connections& engine) { (void)inspect_exec(engine, "e", {}); }},
    {"/volumes", 200, [](Connections& engine) { (void)list_volumes(engine, "l", {}); }},
};

const Endpoint* endpoint = nullptr;
std::string_view input;

std::string answer(std::string_view head) {
  const std::string_view line = head.substr(0, head.find("\r\n"));
  if (line.find("/_ping") != std::string_view::npos)
    return combu::fuzz::answer_of(200, "OK", "Api-Version: 1.41\r\n");
  if (line.find(endpoint->target) == std::string_view::npos)
    return combu::fuzz::answer_of(200, endpoint->others);
  if (line.starts_with("HEAD"))
    return "HTTP/1.1 200 OK\r\nX-Docker-Container-Path-Stat: " + combu::encode_base64url(input) + "\r\n\r\n";
  return combu::fuzz::answer_of(endpoint->status, input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto* const server = new combu::fuzz::AnsweringServer(&answer);
  static auto* const engine =
      new Connections(combu::parse_address(server->address("tcp")), {combu::Seconds{10}});
  if (size == 0) return 0;
  endpoint = &k_endpoints[data[0] % std::size(k_endpoints)];
  input = std::string_view(reinterpret_cast<const char*>(data), size).substr(1);
  try {
    endpoint->call(*engine);
  } catch (const combu::Error& error) {
    if (error.kind() == combu::ErrorKind::timeout) throw;
  }
  return 0;
}
