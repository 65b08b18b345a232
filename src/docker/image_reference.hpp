#pragma once
// The parts of an image's name, as Docker parses it.

#include <string>
#include <string_view>

namespace combu::docker {

struct ImageReference {
  std::string name;  // the name as written, without tag and digest; the value of `fromImage` in a pull
  std::string tag;   // the tag or digest ("sha256:…"), "latest" by default; the value of `tag` in a pull
  std::string registry;  // the host part: "docker.io", "localhost:5000", "registry.example.com"
  // Returns the key of the registry's credentials in Docker's config.json.
  [[nodiscard]] std::string credentials_key() const;
};

// Parses the name of an image by the rule of github.com/distribution/reference. The first part of the name is
// a host if that part contains a dot or a colon, or is "localhost".
[[nodiscard]] ImageReference parse_image_reference(std::string_view text);

}  // namespace combu::docker
