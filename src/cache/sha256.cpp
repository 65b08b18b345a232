#include "cache/sha256.hpp"

#include <array>

namespace combu::cache {

Sha256::Sha256() : digest_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr);
}

void Sha256::add(std::string_view bytes) {
  EVP_DigestUpdate(digest_.get(), bytes.data(), bytes.size());
}

std::string Sha256::text() {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(digest_.get(), bytes.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += k_digits[bytes.at(i) >> 4U];
    text += k_digits[bytes.at(i) & 15U];
  }
  return text;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.text();
}

}  // namespace combu::cache
