#include "docker/image_reference.hpp"

namespace combu::docker {

std::string ImageReference::credentials_key() const {
  return registry == "docker.io" ? "https://index.docker.io/v1/" : registry;
}

ImageReference parse_image_reference(std::string_view text) {
  ImageReference reference;
  const std::size_t digest = text.find('@');
  std::string_view name = text.substr(0, digest);
  const std::size_t slash = name.rfind('/');
  const std::size_t colon = name.rfind(':');
  const bool tagged = colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash);
  reference.tag = tagged ? name.substr(colon + 1) : "latest";
  if (tagged) name = name.substr(0, colon);
  if (digest != std::string_view::npos) reference.tag = text.substr(digest + 1);
  reference.name = name;

  const std::string_view host = name.substr(0, name.find('/'));
  const bool is_host =
      host.size() < name.size() && (host.find('.') != std::string_view::npos ||
                                    host.find(':') != std::string_view::npos || host == "localhost");
  reference.registry = is_host && host != "index.docker.io" ? host : "docker.io";
  return reference;
}

}  // namespace combu::docker
