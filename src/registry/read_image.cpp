#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "combu/registry.hpp"
#include "registry/client.hpp"
#include "registry/platform.hpp"

namespace combu::registry {
namespace {

using nlohmann::json;

constexpr int k_nested_indexes_max = 3;
constexpr std::string_view k_algorithm = "sha256:";
constexpr std::string_view k_accept =
    "Accept: application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json";

bool is_digest(std::string_view text) {
  constexpr std::size_t k_digits = 64;
  return text.starts_with(k_algorithm) && text.size() == k_algorithm.size() + k_digits &&
         text.find_first_not_of("0123456789abcdef", k_algorithm.size()) == std::string_view::npos;
}

struct Document {
  std::string digest;
  json content;
};

std::string platforms_text(const json& manifests) {
  constexpr std::size_t k_named = 5;
  std::vector<std::string> names;
  for (const json& one : manifests)
    if (std::string name = platform_of(member_of(one, "platform")); !name.empty())
      names.push_back(shortened(name));
  return names.empty() ? "no platform" : list_text(names, k_named);
}

// Reads the documents of one image.
class ImageReader {
 public:
  ImageReader(const ImageRequest& request, const ImageReference& reference, const Limits& limits,
              const std::stop_token& stop)
      : request_(request),
        reference_(reference),
        limits_(limits),
        wanted_(usual_platform(request.platform)),
        client_(reference, request.login, limits, stop) {}

  Image read() {
    Document document = read_manifest(reference_.tag);
    image_.digest = document.digest;
    for (int depth = 0; document.content.contains("manifests"); ++depth) {
      image_.all_digests.insert(document.digest);
      if (depth == k_nested_indexes_max) fail("has too many nested indexes");
      document = read_manifest(choose(document.content["manifests"]));
    }
    image_.all_digests.insert(document.digest);
    read_config(digest_in_descriptor(member_of(document.content, "config")));
    return std::move(image_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::corrupt, "",
                fmt::format("the image in {} {}; push it again", client_.name(), what));
  }

  // `reference`: a tag or a digest.
  Document read_manifest(const std::string& reference) {
    Document document = read("manifests", reference, {std::string(k_accept)}, limits_.manifest_max);
    const bool is_index = member_of(document.content, "manifests").is_array();
    const bool is_manifest = member_of(document.content, "config").is_object();
    if (is_index == is_manifest) fail("has no manifest of the version 2 of Docker or of OCI");
    return document;
  }

  // Reads a JSON document and verifies its digest.
  Document read(std::string_view folder, const std::string& reference,
                const std::vector<std::string>& headers, std::size_t size_max) {
    const WebAnswer answer = client_.get(fmt::format("{}/{}", folder, reference), headers, size_max);
    Document document{.digest = std::string(k_algorithm) + sha256_of(answer.body),
                      .content = parse_json_or_discard(answer.body)};
    const bool is_by_digest = reference.find(':') != std::string::npos;
    std::string expected = is_by_digest ? reference : answer.content_digest;
    if (!is_by_digest && !expected.starts_with(k_algorithm)) expected = document.digest;
    if (document.digest != expected)
      throw Error(
          ErrorKind::corrupt, "",
          fmt::format("{} has sent content with the digest {} instead of {}; check the registry, and proxies "
                      "on the way to it",
                      client_.name(), document.digest, shortened(expected)));
    if (!document.content.is_object()) fail("has a document that is not a JSON object");
    return document;
  }

  // Returns the digest of the manifest for the platform.
  std::string choose(const json& manifests) {
    const json* chosen = nullptr;
    if (!wanted_.empty()) {
      chosen = find(manifests, wanted_);
    } else {
      chosen = find(manifests, usual_platform(request_.own_platform));
      if (chosen == nullptr) chosen = find(manifests, "linux");
    }
    if (chosen == nullptr) {  // the platform of an entry without one is in its configuration
      const auto has_none = [](const json& one) { return member_of(one, "platform").is_null(); };
      if (const auto found = std::ranges::find_if(manifests, has_none); found != manifests.end())
        chosen = &*found;
    }
    if (chosen == nullptr) refuse_platform(platforms_text(manifests));
    return digest_in_descriptor(*chosen);
  }

  static const json* find(const json& manifests, std::string_view wanted) {
    if (wanted.empty()) return nullptr;
    const auto found = std::ranges::find_if(manifests, [&](const json& one) {
      const std::string platform = platform_of(member_of(one, "platform"));
      return !platform.empty() && is_for(platform, wanted);
    });
    return found == manifests.end() ? nullptr : &*found;
  }

  [[noreturn]] void refuse_platform(const std::string& available) const {
    throw Error(
        ErrorKind::invalid, "",
        fmt::format(
            "the image is not for {}, but for {}; {}", wanted_.empty() ? "Linux" : wanted_, available,
            wanted_.empty() ? "choose another image" : "correct `platform`, or choose another image"));
  }

  [[nodiscard]] std::string digest_in_descriptor(const json& descriptor) const {
    std::string digest(text_of(descriptor, "digest"));
    if (!is_digest(digest)) fail("names content by something else than a SHA-256 digest");
    return digest;
  }

  void read_config(const std::string& digest) {
    const json config = read("blobs", digest, {}, limits_.config_max).content;
    image_.all_digests.insert(digest);
    image_.platform = platform_of(config);
    if (image_.platform.empty()) fail("is no container image, since its configuration names no platform");
    if (!wanted_.empty() && !is_for(image_.platform, wanted_)) refuse_platform(shortened(image_.platform));
    const json& program = member_of(config, "config");
    image_.entrypoint = words_in(program, "Entrypoint");
    image_.cmd = words_in(program, "Cmd");
    image_.stop_signal = text_of(program, "StopSignal");
  }

  [[nodiscard]] std::vector<std::string> words_in(const json& program, std::string_view name) const {
    std::vector<std::string> words;
    const json& array = member_of(program, name);
    if (array.is_null()) return words;
    if (!array.is_array()) fail("has a malformed configuration");
    for (const json& word : array) {
      if (!word.is_string()) fail("has a malformed configuration");
      words.push_back(word.get<std::string>());
    }
    return words;
  }

  const ImageRequest& request_;
  const ImageReference& reference_;
  const Limits& limits_;
  const std::string wanted_;
  Client client_;
  Image image_;
};

}  // namespace

Image read_image(const ImageRequest& request, const std::stop_token& stop, const Limits& limits) {
  try {
    const ImageReference reference = parse_image_reference(request.image);
    if (reference.tag.find(':') != std::string::npos && !is_digest(reference.tag))
      throw Error(ErrorKind::invalid, "", "the digest in the image's name must have the form sha256:HEX");
    return ImageReader(request, reference, limits, stop).read();
  } catch (const Error& error) {
    throw Error(error.kind(), request.image, error.message());
  }
}

}  // namespace combu::registry
