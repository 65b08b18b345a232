#include <limits>
#include <utility>

#include "docker/api.hpp"
#include "docker/api_json.hpp"

namespace combu::docker {

using nlohmann::json;

std::string create_exec(Connections& engine, const std::string& container, const std::string& subject,
                        const std::vector<std::string>& argv, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "POST", "/containers/" + container + "/exec");
  request.body = json_text(json{
      {"AttachStdin", true}, {"AttachStdout", true}, {"AttachStderr", true}, {"Tty", false}, {"Cmd", argv}});
  const HttpResponse response = engine.send_checked(std::move(request), subject, stop);
  return reading(engine, [&] { return parse_json(response.body).at("Id").get<std::string>(); });
}

std::unique_ptr<RawConnection> start_exec(Connections& engine, const std::string& id,
                                          const std::string& subject, const std::stop_token& stop) {
  HttpRequest request = request_of(engine, "POST", "/exec/" + id + "/start");
  request.body = json_text(json{{"Detach", false}, {"Tty", false}});
  Upgraded upgraded = engine.upgrade(std::move(request), stop);
  if (!upgraded.connection) throw error_of(upgraded.response, subject);
  return std::move(upgraded.connection);
}

std::optional<ExecFacts> inspect_exec(Connections& engine, const std::string& id,
                                      const std::stop_token& stop) {
  constexpr std::int64_t k_number_max = std::numeric_limits<int>::max();
  const HttpResponse response = engine.send(request_of(engine, "GET", "/exec/" + id + "/json"), stop);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) throw error_of(response, id);
  return reading(engine, [&] {
    const json body = parse_json(response.body);
    ExecFacts facts;
    facts.has_begun = integer_at(body, "Pid", 0, k_number_max) > 0;
    if (!body.at("Running").get<bool>() && !json_at(body, "ExitCode").is_null())
      facts.exit_code = static_cast<int>(integer_at(body, "ExitCode", -k_number_max, k_number_max));
    return facts;
  });
}

}  // namespace combu::docker
