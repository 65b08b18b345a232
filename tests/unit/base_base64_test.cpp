#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "combu/base.hpp"

namespace combu {
namespace {

TEST(Base64, EncodesAndDecodes) {
  EXPECT_EQ(encode_base64url(""), "");
  EXPECT_EQ(encode_base64url("a"), "YQ==");
  EXPECT_EQ(encode_base64url("ab"), "YWI=");
  EXPECT_EQ(encode_base64url("\xfb\xff\xfe"), "-__-");
  EXPECT_EQ(decode_base64("+//+"), "\xfb\xff\xfe");
  EXPECT_EQ(decode_base64("dXNlcjpwYXNz"), "user:pass");
  EXPECT_EQ(decode_base64("YQ=="), "a");
}

TEST(Base64, DecodesWhatItEncodedForAnyLength) {
  std::string bytes;
  for (std::size_t size = 0; size <= 256; ++size) {
    const std::string text = encode_base64url(bytes);
    EXPECT_EQ(text.size(), (size + 2) / 3 * 4);
    EXPECT_EQ(decode_base64(text), bytes);
    bytes += static_cast<char>(size);
  }
}

TEST(Base64, DecodesBothAlphabetsWithoutPaddingAndSkipsOtherCharacters) {
  EXPECT_EQ(decode_base64("-__-+//+"), "\xfb\xff\xfe\xfb\xff\xfe");
  EXPECT_EQ(decode_base64("YQ"), "a");
  EXPECT_EQ(decode_base64("YWI"), "ab");
  EXPECT_EQ(decode_base64(" dXNl\ncjpw\tYXNz\n"), "user:pass");
  EXPECT_EQ(decode_base64("YQ==YQ=="), "a\x06\x10") << "the bits of both";
  EXPECT_EQ(decode_base64("YWJjZ"), "abc") << "six bits are no byte";
  EXPECT_EQ(decode_base64("Z"), "");
  EXPECT_EQ(decode_base64("=?\xff"), "");
}

}  // namespace
}  // namespace combu
