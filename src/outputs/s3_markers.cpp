#include <fmt/format.h>

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "combu/outputs.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_place.hpp"

namespace combu {
namespace {

constexpr int k_marker_repeats_max = 2;
constexpr std::string_view k_done = ".combu/done/";
constexpr std::string_view k_told = ".combu/told/";

class S3Markers final : public Markers {
 public:
  S3Markers(const std::string& place, const Caller& caller, Clock& clock)
      : root_(outputs::s3_place(place)),
        client_(root_.bucket, outputs::find_s3_account(caller), k_marker_repeats_max, clock) {}

  std::optional<Mark> find(const std::string& key, const std::stop_token& stop) override {
    std::string text;
    const auto marker = client_.get(
        key_of(k_done, key), [&](std::string_view bytes) { text += bytes; }, stop);
    const std::size_t end = text.find('\n');
    if (!marker || end == std::string::npos) return std::nullopt;
    Mark mark{.key = key,
              .place = fmt::format("s3://{}/{}{}", root_.bucket, root_.prefix, text.substr(0, end)),
              .version = text.substr(end + 1)};
    if (version_of(mark.place, stop) != mark.version) return std::nullopt;
    return mark;
  }

  std::optional<std::string> told(const Mark& mark, std::size_t size_max,
                                  const std::stop_token& stop) override {
    const std::string key = told_key(mark);
    const auto seen = client_.head(key, stop);
    if (!seen || std::cmp_greater(seen->size, size_max)) return std::nullopt;
    std::string told;
    if (!client_.get(
            key, [&](std::string_view bytes) { told += bytes; }, stop))
      return std::nullopt;
    return told;
  }

  void put(const std::string& key, const std::string& place, const std::function<std::string()>& told,
           bool has_to_tell, const std::stop_token& stop) override {
    const auto earlier = find(key, stop);
    if (earlier && (!has_to_tell || client_.head(told_key(*earlier), stop))) return;
    const Mark mark{.key = key, .place = place, .version = version_of(place, stop)};
    if (mark.version.empty())
      throw Error(ErrorKind::not_found, place, "what it has left is not there any more");
    if (const std::string bytes = told(); !bytes.empty())
      client_.put(told_key(mark), bytes, {{"content-type", "application/octet-stream"}}, stop);
    const std::string text = fmt::format("{}\n{}", relative(place), mark.version);
    if (!earlier && client_.put_new(key_of(k_done, key), text, headers(), stop)) return;
    if (earlier || !find(key, stop)) client_.put(key_of(k_done, key), text, headers(), stop);
  }

 private:
  static outputs::S3Client::Headers headers() { return {{"content-type", "text/plain"}}; }

  [[nodiscard]] std::string key_of(std::string_view folder, const std::string& name) const {
    return fmt::format("{}{}{}", root_.prefix, folder, name);
  }
  // Of whom has written the marker, and no one else: equal trials need not tell the same.
  [[nodiscard]] std::string told_key(const Mark& mark) const {
    return key_of(k_told, fmt::format("{}-{}", mark.key, mark.version));
  }
  // Below root_: RUN/TRIAL.
  [[nodiscard]] std::string relative(const std::string& place) const {
    std::string path = outputs::s3_place(place).prefix.substr(root_.prefix.size());
    path.pop_back();  // its `/`
    return path;
  }
  // Empty: nothing is there. The manifest has the sums of all that is.
  [[nodiscard]] std::string version_of(const std::string& place, const std::stop_token& stop) {
    const auto manifest = client_.head(outputs::s3_place(place).prefix + std::string(k_manifest_name), stop);
    if (!manifest) return "";
    std::string version = manifest->tag;
    std::erase_if(version, [](char letter) { return letter == '"' || letter == '\n'; });
    return version.empty() ? "-" : version;
  }

  outputs::S3Place root_;
  outputs::S3Client client_;
};

}  // namespace

std::unique_ptr<Markers> open_s3_markers(const std::string& place, const Caller& caller, Clock& clock) {
  return std::make_unique<S3Markers>(place, caller, clock);
}

}  // namespace combu
