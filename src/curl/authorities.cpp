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
      "etc/ssl/certs",                                     // a folder of hashed names
  };
  for (const char* const place : k_places) {
    std::error_code unreadable;
    if (fs::exists(root / place, unreadable)) return root / place;
  }
  return "";
}

void trust(CURL* easy, const std::string& authorities) {
  std::string place = authorities;
  for (const char* const name : {"SSL_CERT_FILE", "SSL_CERT_DIR"}) {
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nothing here sets any
    if (place.empty() && value != nullptr) place = value;
  }
  if (place.empty() && !libcurl_knows()) place = find_authorities("/");
  if (place.empty()) return;
  std::error_code unreadable;
  curl_easy_setopt(easy, fs::is_directory(place, unreadable) ? CURLOPT_CAPATH : CURLOPT_CAINFO,
                   place.c_str());
}

}  // namespace combu::curl
