#include <fmt/core.h>

#include <map>

#include "combu/registry.hpp"
#include "docker/api.hpp"
#include "docker/api_json.hpp"
#include "docker/json_pieces.hpp"

namespace combu::docker {
namespace {

using nlohmann::json;

// Longest pause that combu allows between two messages of a pull, because the engine may be unpacking one
// large layer.
constexpr Seconds k_pull_silence_max{1800};
// Maximum number of layers of an image. An image of Docker has 127 layers at most (moby:
// layer/layer_store.go).
constexpr std::size_t k_layers_max = 4096;

// Sums the progress of the layers of one pull.
class PullProgress {
 public:
  // Returns false if the line contains no byte counts.
  bool take(const json& line) {
    const auto detail = line.find("progressDetail");
    if (detail == line.end() || !detail->is_object() || !detail->contains("total")) return false;
    // Ignore other states, because the byte count starts at zero again while the engine unpacks a layer.
    if (text_at(line, "status") != "Downloading") return false;
    Layer& layer = layers_[text_at(line, "id")];
    if (layers_.size() > k_layers_max)
      throw Error(ErrorKind::corrupt, "", fmt::format("the image has more than {} layers", k_layers_max));
    layer = {integer_at(*detail, "current", -k_bytes_max, k_bytes_max),
             integer_at(*detail, "total", -k_bytes_max, k_bytes_max)};
    return true;
  }

  [[nodiscard]] std::pair<Bytes, Bytes> sum() const {
    std::pair<Bytes, Bytes> sum;
    for (const auto& [id, layer] : layers_) {
      sum.first.count += layer.current;
      sum.second.count += layer.total;
    }
    return sum;
  }

 private:
  struct Layer {
    std::int64_t current = 0;
    std::int64_t total = 0;
  };
  std::map<std::string, Layer> layers_;
};

bool has_healthcheck(const json& image) {
  const json& test = json_at(json_at(json_at(image, "Config"), "Healthcheck"), "Test");
  return test.is_array() && !test.empty() && test.front() != "NONE";
}

// Returns ImageFacts::digest. If the image was pulled from several repositories, prefers the digest of
// `repository`.
std::string reference_of(const json& image, const std::string& repository) {
  std::string reference;
  for (const json& one : json_at(image, "RepoDigests")) {
    if (!one.is_string()) continue;
    const std::string text = one.get<std::string>();
    const std::size_t at = text.find('@');
    if (at == std::string::npos) continue;
    if (reference.empty() || text.substr(0, at) == repository) reference = text;
  }
  return reference.empty() ? text_at(image, "Id") : reference;
}

std::vector<std::string> texts_at(const json& object, const char* name) {
  const json& texts = json_at(object, name);
  return texts.is_null() ? std::vector<std::string>() : texts.get<std::vector<std::string>>();
}

ImageProgram program_of(const json& image) {
  const json& config = json_at(image, "Config");
  ImageProgram program;
  if (config.is_object()) {
    program.entrypoint = texts_at(config, "Entrypoint");
    program.cmd = texts_at(config, "Cmd");
    program.stop_signal = text_at(config, "StopSignal");
  }
  const std::string system = text_at(image, "Os");
  const std::string architecture = text_at(image, "Architecture");
  if (!system.empty() && !architecture.empty()) program.platform = system + "/" + architecture;
  return program;
}

}  // namespace

std::optional<ImageFacts> inspect_image(Connections& engine, const std::string& image,
                                        const std::stop_token& stop) {
  HttpRequest request;
  request.target = "/images/" + percent_encode(image) + "/json";
  request.silence_max = engine.options().silence_max;
  const HttpResponse response = engine.send(request, stop);
  if (response.status == 404) return std::nullopt;
  if (response.status != 200) throw error_of(response, image);
  return reading(engine, [&] {
    const json body = parse_json(response.body);
    ImageFacts facts;
    facts.platform = text_at(body, "Os") + "/" + text_at(body, "Architecture");
    facts.has_healthcheck = has_healthcheck(body);
    facts.id = text_at(body, "Id");
    facts.program = program_of(body);
    facts.digest = reference_of(body, registry::parse_image_reference(image).name);
    return facts;
  });
}

void pull_image(Connections& engine, const PullOptions& options,
                const std::function<void(Bytes, Bytes)>& on_progress, const std::stop_token& stop) {
  const registry::ImageReference reference = registry::parse_image_reference(options.image);
  HttpRequest request;
  request.method = "POST";
  request.target = fmt::format("/images/create?fromImage={}&tag={}", percent_encode(reference.name),
                               percent_encode(reference.tag));
  if (!options.platform.empty()) request.target += "&platform=" + percent_encode(options.platform);
  if (!options.registry_auth.empty()) request.headers.emplace_back("X-Registry-Auth", options.registry_auth);
  request.silence_max = k_pull_silence_max;
  request.answer_max = std::nullopt;
  PullProgress progress;
  std::string failure;
  JsonPieces lines([&](std::string_view text) {
    const json line = parse_json(text);
    // The answer to a failed pull may have status 200 and report the error in the stream (Engine 29, Podman).
    if (line.contains("error")) failure = text_at(line, "error");
    if (progress.take(line)) std::apply(on_progress, progress.sum());
  });
  request.sink = [&](std::string_view bytes) {
    lines.feed(bytes);
    return true;
  };
  reading(engine, [&] {
    engine.send_checked(request, options.image, stop);
    lines.finish();
  });
  if (!failure.empty()) throw Error(ErrorKind::refused, options.image, one_line(failure));
}

}  // namespace combu::docker
