#include <array>
#include <cstdlib>
#include <system_error>

#include "combu/curl.hpp"

namespace combu::curl {

namespace fs = std::filesystem;

namespace {

bool libcurl_knows() {
  const curl_version_info_data* const info = curl_version_info(CURLVERSION_NOW);
  return info->cainfo != nullptr || info->capath != nullptr;
}

}  // namespace

std::string find_authorities(const fs::path& root) {
  constexpr std::array<const char*, 6> k_places = {
      "etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
      "etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
      "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL
      "etc/ssl/ca-bundle.pem",                             // openSUSE
      "etc/ssl/cert.pem",                                  // Alpine
      "etc/ssl/certs",  // a folder of certificates whose files are named by hashes
  };
  for (const char* const place : k_places) {
    std::error_code unreadable;
    if (fs::exists(root / place, unreadable)) return root / place;
  }
  return "";
}

Authorities authorities_of(const std::string& place) {
  std::error_code unreadable;
  if (!place.empty())
    return fs::is_directory(place, unreadable) ? Authorities{.folder = place} : Authorities{.file = place};
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): combu sets none
    return std::string(value == nullptr ? "" : value);
  };
  Authorities named{.file = variable("SSL_CERT_FILE"), .folder = variable("SSL_CERT_DIR")};
  if (!named.file.empty() || !named.folder.empty() || libcurl_knows()) return named;
  const std::string found = find_authorities("/");
  return found.empty() ? Authorities{} : authorities_of(found);
}

void trust(CURL* easy, const std::string& place) {
  const auto [file, folder] = authorities_of(place);
  if (!file.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, file.c_str());
  if (!folder.empty()) curl_easy_setopt(easy, CURLOPT_CAPATH, folder.c_str());
}

}  // namespace combu::curl
