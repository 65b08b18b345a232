#pragma once

#include <openssl/evp.h>

#include <memory>
#include <string>
#include <string_view>

namespace combu::cache {

class Sha256 {
 public:
  Sha256();
  void add(std::string_view bytes);
  // In hexadecimal digits. Nothing is added after it.
  [[nodiscard]] std::string text();

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest_;
};

[[nodiscard]] std::string sha256_of(std::string_view bytes);

}  // namespace combu::cache
