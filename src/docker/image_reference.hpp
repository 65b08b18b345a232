#pragma once
// The parts of an image's name, as Docker reads it.

#include <string>
#include <string_view>

namespace combu::docker {

struct ImageReference {
  std::string name;      // as written, without tag and digest: what a pull's fromImage takes
  std::string tag;       // or digest ("sha256:…"): what a pull's tag takes; "latest" when none is written
  std::string registry;  // the host part: "docker.io", "localhost:5000", "registry.example.com"
  // The key of its credentials in Docker's config.json.
  [[nodiscard]] std::string credentials_key() const;
};

// github.com/distribution/reference: the first part is a host when it holds a dot or a colon, or is
// "localhost".
[[nodiscard]] ImageReference parse_image_reference(std::string_view text);

}  // namespace combu::docker
