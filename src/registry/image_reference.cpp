#include "combu/registry.hpp"

namespace combu::registry {
namespace {

constexpr std::string_view k_hub = "docker.io";
constexpr std::string_view k_old_hub = "index.docker.io";

}  // namespace

std::string ImageReference::credentials_key() const {
  return registry == k_hub ? "https://index.docker.io/v1/" : registry;
}

std::string ImageReference::repository() const {
  std::string_view path = name;
  for (const std::string_view host : {std::string_view(registry), k_old_hub})
    if (path.starts_with(host) && path.substr(host.size()).starts_with('/'))
      path.remove_prefix(host.size() + 1);
  const bool is_official = registry == k_hub && path.find('/') == std::string_view::npos;
  return (is_official ? "library/" : "") + std::string(path);
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
  reference.registry = is_host && host != k_old_hub ? host : k_hub;
  return reference;
}

}  // namespace combu::registry
