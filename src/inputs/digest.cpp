#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <memory>

#include "combu/inputs.hpp"
#include "inputs/walk.hpp"

namespace combu {
namespace {

using inputs::Found;

class Sha256 {
 public:
  Sha256() { EVP_DigestInit_ex(digest_.get(), EVP_sha256(), nullptr); }
  void add(std::string_view bytes) { EVP_DigestUpdate(digest_.get(), bytes.data(), bytes.size()); }
  // Told apart from what follows, whatever they hold.
  void add_text(std::string_view text) { add(fmt::format("{}:{},", text.size(), text)); }
  [[nodiscard]] std::string text() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned size = 0;
    EVP_DigestFinal_ex(digest_.get(), bytes.data(), &size);
    std::string text;
    for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes.at(i));
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest_{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

}  // namespace

std::string content_digest(const std::string& path, const std::stop_token& stop) {
  Sha256 digest;
  const auto go_on = [&] {
    if (stop.stop_requested()) throw Error(ErrorKind::cancelled, path, "cancelled");
    return true;
  };
  inputs::walk(path, [&](const Found& found) {
    const auto mode = found.status.st_mode;
    digest.add_text(found.name);
    if (S_ISLNK(mode)) {
      digest.add("link ");
      digest.add_text(inputs::read_link(found));
    } else if (S_ISDIR(mode)) {
      digest.add("folder ");
    } else {
      digest.add(fmt::format("{} {} ", (mode & S_IXUSR) != 0 ? "program" : "file", found.status.st_size));
      inputs::read_file(found, [&](std::string_view bytes) {
        digest.add(bytes);
        return go_on();
      });
    }
    return go_on();
  });
  return "sha256:" + digest.text();
}

}  // namespace combu
