#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <utility>

#include "combu/outputs.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_place.hpp"

namespace combu {
namespace {

constexpr int k_repeats_max = 2;
constexpr std::string_view k_done = ".combu/done/";
constexpr std::string_view k_told = ".combu/told/";

class S3Markers final : public Markers {
 public:
  S3Markers(const std::string& place, const Caller& caller, Clock& clock)
      : root_(outputs::s3_place(place)),
        client_(root_.bucket, outputs::find_s3_account(caller), k_repeats_max, clock) {}

  std::optional<std::string> find(const std::string& key, const std::stop_token& stop) override {
    std::string place;
    const auto marker = client_.get(
        key_of(k_done, key), [&](std::string_view bytes) { place += bytes; }, stop);
    if (!marker || !is_whole(place, stop)) return std::nullopt;
    return fmt::format("s3://{}/{}{}", root_.bucket, root_.prefix, place);
  }

  std::string told(const std::string& place, const std::stop_token& stop) override {
    std::string told;
    (void)client_.get(
        key_of(k_told, relative(place)), [&](std::string_view bytes) { told += bytes; }, stop);
    return told;
  }

  void put(const std::string& key, const std::string& place, const std::string& told,
           const std::stop_token& stop) override {
    if (find(key, stop)) return;
    const std::string text = relative(place);
    if (!told.empty())
      client_.put(key_of(k_told, text), told, {{"content-type", "application/octet-stream"}}, stop);
    if (client_.put_new(key_of(k_done, key), text, k_headers, stop) || find(key, stop)) return;
    client_.put(key_of(k_done, key), text, k_headers, stop);
  }

 private:
  inline static const outputs::S3Client::Headers k_headers{{"content-type", "text/plain"}};

  [[nodiscard]] std::string key_of(std::string_view folder, const std::string& name) const {
    return fmt::format("{}{}{}", root_.prefix, folder, name);
  }
  // Below root_: RUN/TRIAL.
  [[nodiscard]] std::string relative(const std::string& place) const {
    std::string path = outputs::s3_place(place).prefix.substr(root_.prefix.size());
    path.pop_back();  // its `/`
    return path;
  }
  [[nodiscard]] bool is_whole(const std::string& place, const std::stop_token& stop) {
    return client_.head(fmt::format("{}{}/{}", root_.prefix, place, k_manifest_name), stop).has_value();
  }

  outputs::S3Place root_;
  outputs::S3Client client_;
};

}  // namespace

std::unique_ptr<Markers> open_s3_markers(const std::string& place, const Caller& caller, Clock& clock) {
  return std::make_unique<S3Markers>(place, caller, clock);
}

}  // namespace combu
