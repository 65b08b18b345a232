#include <openssl/evp.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

#include "combu/base.hpp"

namespace combu {

namespace {

// OpenSSL's functions use unsigned characters.
const unsigned char* unsigned_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}
unsigned char* unsigned_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
  // Base64 encodes three bytes as four characters. OpenSSL also writes a terminating zero byte, for which
  // std::string has space.
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  EVP_EncodeBlock(unsigned_of(text), unsigned_of(bytes), static_cast<int>(bytes.size()));
  return text;
}

std::string encode_base64url(std::string_view bytes) {
  std::string text = encode_base64(bytes);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  return text;
}

std::string decode_base64(std::string_view text) {
  std::string plain;
  for (const char letter : text) {
    const char standard = letter == '-' ? '+' : letter == '_' ? '/' : letter;
    if (standard == '+' || standard == '/' || std::isalnum(static_cast<unsigned char>(standard)) != 0)
      plain += standard;
  }
  if (plain.size() % 4 == 1)
    plain.pop_back();  // a single Base64 character at the end has only six bits, less than a byte
  const std::size_t size = plain.size() * 3 / 4;
  plain.resize((plain.size() + 3) / 4 * 4, '=');
  std::string bytes(plain.size() / 4 * 3, '\0');
  EVP_DecodeBlock(unsigned_of(bytes), unsigned_of(plain), static_cast<int>(plain.size()));
  bytes.resize(size);  // OpenSSL decodes each '=' to a zero byte
  return bytes;
}

}  // namespace combu
