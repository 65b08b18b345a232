#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "combu/outputs.hpp"
#include "combu/spec.hpp"
#include "outputs/s3_account.hpp"
#include "outputs/s3_client.hpp"
#include "outputs/s3_place.hpp"

namespace combu {
namespace {

constexpr int k_marker_repeats_max = 2;
constexpr std::string_view k_done = ".combu/done/";
constexpr std::string_view k_telemetry = ".combu/told/";
// Maximum bytes of a marker, which has a path of at most 1024 bytes and an ETag.
constexpr std::size_t k_marker_size_max = 2048;
constexpr std::size_t k_version_size_max = 256;

// Parses "EXPERIMENT/RUN/TRIAL\nVERSION" into `mark`. Returns an error message; nullopt if the text is valid.
std::optional<std::string> read_marker(std::string_view text, SharedCacheIndex::Mark& mark) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos) return "the marker has no second line";
  const std::string_view path = text.substr(0, end);
  const std::string_view version = text.substr(end + 1);
  const std::size_t before_trial = path.rfind('/');
  const std::size_t before_run = path.substr(0, before_trial).rfind('/');
  if (before_run == std::string_view::npos)
    return fmt::format("\"{}\" is not EXPERIMENT/RUN/TRIAL", shortened(path));
  const std::string_view folder = path.substr(0, before_run);
  if (const auto fault = fault_of_experiment_name(folder)) return fault;
  if (folder.starts_with('.') || folder.find('/') != std::string_view::npos)
    return fmt::format("\"{}\" is not the folder of an experiment", shortened(folder));
  const std::string_view run = path.substr(before_run + 1, before_trial - before_run - 1);
  try {
    mark.run = RunId(std::string(run));
  } catch (const Error&) {
    return fmt::format("\"{}\" is not a run id", shortened(run));
  }
  mark.trial = path.substr(before_trial + 1);
  if (const auto fault = fault_of_trial_name(mark.trial)) return fault;
  const auto is_printable = [](char letter) { return letter > ' ' && letter <= '~'; };
  if (version.empty() || version.size() > k_version_size_max || !std::ranges::all_of(version, is_printable))
    return "the marker's second line is not the ETag of an object";
  mark.version = version;
  return std::nullopt;
}

class S3Markers final : public SharedCacheIndex {
 public:
  S3Markers(const std::string& place, const Caller& caller, Clock& clock)
      : root_(outputs::s3_place(place)),
        client_(root_.bucket, outputs::find_s3_account(caller), k_marker_repeats_max, clock) {}

  std::optional<Mark> find(const std::string& key, const std::stop_token& stop) override {
    const std::string marker_key = key_of(k_done, key);
    const std::string address = address_of(marker_key);
    std::string text;
    const auto add = outputs::append_up_to(text, k_marker_size_max, ErrorKind::corrupt, address);
    if (!client_.get(marker_key, add, stop)) return std::nullopt;
    Mark mark{.key = key};
    if (const auto fault = read_marker(text, mark))
      throw Error(ErrorKind::corrupt, address,
                  fmt::format("the marker of a cached trial is invalid: {}", *fault));
    mark.place = address_of(root_.prefix + text.substr(0, text.find('\n')));
    mark.telemetry_at = address_of(telemetry_key(mark));
    if (version_of(mark.place, stop) != mark.version) return std::nullopt;
    return mark;
  }

  std::optional<Bytes> telemetry_size(const Mark& mark, const std::stop_token& stop) override {
    const auto seen = client_.head(telemetry_key(mark), stop);
    return seen ? std::optional(Bytes{seen->size}) : std::nullopt;
  }

  std::optional<std::string> telemetry(const Mark& mark, Bytes size_max,
                                       const std::stop_token& stop) override {
    std::string telemetry;
    const auto most = static_cast<std::size_t>(std::max<std::int64_t>(size_max.count, 0));
    const auto add = outputs::append_up_to(telemetry, most, ErrorKind::corrupt, mark.telemetry_at);
    if (!client_.get(telemetry_key(mark), add, stop)) return std::nullopt;
    return telemetry;
  }

  void put(const std::string& key, const std::string& place, const std::function<std::string()>& telemetry,
           bool needs_telemetry, const std::stop_token& stop) override {
    const auto earlier = find_valid(key, stop);
    if (earlier && (!needs_telemetry || client_.head(telemetry_key(*earlier), stop))) return;
    const Mark mark{.key = key, .place = place, .version = version_of(place, stop)};
    if (mark.version.empty())
      throw Error(ErrorKind::not_found, place, "the outputs are not in the bucket any more");
    if (const std::string bytes = telemetry(); !bytes.empty())
      client_.put(telemetry_key(mark), bytes, {{"content-type", "application/octet-stream"}}, stop);
    const std::string text = fmt::format("{}\n{}", relative(place), mark.version);
    if (!earlier && client_.put_new(key_of(k_done, key), text, headers(), stop)) return;
    if (earlier || !find_valid(key, stop)) client_.put(key_of(k_done, key), text, headers(), stop);
  }

 private:
  // Like find(), but returns nullopt for an entry that combu cannot have written.
  std::optional<Mark> find_valid(const std::string& key, const std::stop_token& stop) {
    try {
      return find(key, stop);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt) throw;
      return std::nullopt;
    }
  }

  static outputs::S3Client::Headers headers() { return {{"content-type", "text/plain"}}; }

  [[nodiscard]] std::string key_of(std::string_view folder, const std::string& name) const {
    return fmt::format("{}{}{}", root_.prefix, folder, name);
  }
  [[nodiscard]] std::string address_of(const std::string& key) const {
    return fmt::format("s3://{}/{}", root_.bucket, key);
  }
  // Two processes may publish equal trials with different telemetry. A marker contains the result of
  // version_of() for the outputs, and the key of the telemetry contains the same version. So no reader
  // combines the marker of one process with the telemetry of another process.
  [[nodiscard]] std::string telemetry_key(const Mark& mark) const {
    return key_of(k_telemetry, fmt::format("{}-{}", mark.key, mark.version));
  }
  // Returns the path of `place` relative to root_, in the form EXPERIMENT/RUN/TRIAL.
  [[nodiscard]] std::string relative(const std::string& place) const {
    std::string path = outputs::s3_place(place).prefix.substr(root_.prefix.size());
    path.pop_back();  // the trailing `/`
    return path;
  }
  // Returns the ETag of the manifest, which contains the digests of all files. Returns an empty string if
  // there is no manifest.
  [[nodiscard]] std::string version_of(const std::string& place, const std::stop_token& stop) {
    const auto manifest = client_.head(outputs::s3_place(place).prefix + std::string(k_manifest_name), stop);
    if (!manifest) return "";
    std::string version = manifest->tag;
    std::erase(version, '"');
    return version.empty() ? "-" : version;
  }

  outputs::S3Place root_;
  outputs::S3Client client_;
};

}  // namespace

std::unique_ptr<SharedCacheIndex> open_s3_cache_index(const std::string& place, const Caller& caller,
                                                      Clock& clock) {
  return std::make_unique<S3Markers>(place, caller, clock);
}

}  // namespace combu
