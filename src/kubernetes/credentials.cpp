#include "kubernetes/credentials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

#include "kubernetes/exec_plugin.hpp"

namespace combu::kubernetes {
namespace {

constexpr Bytes k_credential_file_max{std::int64_t{1} << 20U};
constexpr std::chrono::minutes k_file_age_max{1};
constexpr Seconds k_plugin_time_max{60};

// Returns the content of a file. If the file cannot be read, returns `previous`, unless `previous` is empty.
std::string read_credential(const std::string& path, const std::string& previous) {
  try {
    if (auto content = read_regular_file(path, k_credential_file_max)) return *std::move(content);
    throw Error(ErrorKind::invalid, path,
                "the file with credentials does not exist; correct the kubeconfig file");
  } catch (const Error&) {
    if (previous.empty()) throw;
    return previous;
  }
}

// A token is sent in a header, so it must not contain line ends.
void check_token(const std::string& token, ErrorKind kind, const std::string& subject) {
  const auto is_bad = [](unsigned char letter) { return letter <= ' ' || letter >= 0x7F; };
  if (std::ranges::any_of(token, is_bad))
    throw Error(kind, subject, "the token must be one word of printable ASCII characters");
}

}  // namespace

Credentials::Credentials(Access access, Clock& clock) : access_(std::move(access)), clock_(clock) {
  check_token(access_.account.token, ErrorKind::invalid, access_.account.source);
}

bool Credentials::uses_plugin() const {
  const Account& account = access_.account;
  return account.exec && account.token.empty() && account.token_file.empty() && account.username.empty();
}

bool Credentials::uses_files() const {
  const Account& account = access_.account;
  return !account.token_file.empty() || !account.certificate.file.empty() || !account.key.file.empty();
}

Credentials::Renewed Credentials::renew(const Identity* previous, const std::stop_token& stop) const {
  const Account& account = access_.account;
  static const Identity k_none;
  const Identity& old = previous == nullptr ? k_none : *previous;
  Renewed renewed{.identity = {.token = account.token,
                               .username = account.username,
                               .password = account.password,
                               .certificate = account.certificate.text,
                               .key = account.key.text},
                  .valid_until = Instant::max()};
  Identity& identity = renewed.identity;
  if (uses_files()) renewed.valid_until = clock_.now() + k_file_age_max;
  if (!account.token_file.empty()) {
    identity.token =
        trimmed(read_credential(account.token_file, old.token.empty() ? account.token : old.token));
    if (identity.token.empty())
      throw Error(ErrorKind::invalid, account.token_file, "the file must contain a token, but is empty");
    check_token(identity.token, ErrorKind::invalid, account.token_file);
  }
  if (!account.certificate.file.empty())
    identity.certificate = read_credential(account.certificate.file, old.certificate);
  if (!account.key.file.empty()) identity.key = read_credential(account.key.file, old.key);
  if (uses_plugin()) {
    PluginCredentials printed = run_plugin(access_, k_plugin_time_max, stop);
    check_token(printed.token, ErrorKind::corrupt, access_.account.source);
    identity.token = std::move(printed.token);
    if (identity.certificate.empty()) {
      identity.certificate = std::move(printed.certificate);
      identity.key = std::move(printed.key);
    }
    renewed.valid_until = std::min(renewed.valid_until, printed.expires_at.value_or(Instant::max()));
  }
  return renewed;
}

std::shared_ptr<const Identity> Credentials::current(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait(lock, stop, [this] { return !is_renewing_; }))
    throw Error(ErrorKind::cancelled, access_.account.source, "cancelled");
  if (current_ && clock_.now() < valid_until_) return current_;
  is_renewing_ = true;
  const std::shared_ptr<const Identity> previous = current_;
  lock.unlock();
  std::optional<Renewed> renewed;
  std::exception_ptr fault;
  try {
    renewed = renew(previous.get(), stop);
  } catch (...) {
    fault = std::current_exception();
  }
  lock.lock();
  is_renewing_ = false;
  changed_.notify_all();
  if (fault) std::rethrow_exception(fault);
  current_ = std::make_shared<const Identity>(std::move(renewed->identity));
  valid_until_ = renewed->valid_until;
  return current_;
}

bool Credentials::discard(const std::shared_ptr<const Identity>& refused) {
  if (!uses_plugin() && !uses_files()) return false;
  const std::scoped_lock lock(mutex_);
  if (current_ == refused) current_.reset();
  return true;
}

}  // namespace combu::kubernetes
