#include <openssl/evp.h>

#include <array>

#include "combu/base.hpp"

namespace combu {

struct Sha256::Impl {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  EVP_DigestInit_ex(impl_->digest.get(), EVP_sha256(), nullptr);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::string_view bytes) {
  EVP_DigestUpdate(impl_->digest.get(), bytes.data(), bytes.size());
}

std::string Sha256::text() {
  constexpr std::string_view k_digits = "0123456789abcdef";
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  EVP_DigestFinal_ex(impl_->digest.get(), bytes.data(), &size);
  std::string text;
  for (unsigned i = 0; i < size; ++i) {
    text += k_digits[bytes.at(i) >> 4U];
    text += k_digits[bytes.at(i) & 15U];
  }
  return text;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.text();
}

}  // namespace combu
