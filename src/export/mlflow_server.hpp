#pragma once
// Requests to an MLflow server: https://mlflow.org/docs/latest/rest-api.html

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>

namespace combu {

// May be used from many threads: each request takes a connection of its own, and leaves it for the next.
// Everything throws Error; nothing of who asks is ever in it.
class MlflowServer {
 public:
  // `uri`: "http://HOST:PORT", "https://HOST/PATH". Who asks, and which certificates are trusted, is read
  // from the environment and ~/.mlflow/credentials, as MLflow's own client reads it.
  MlflowServer(const std::string& uri, std::stop_token stop);
  ~MlflowServer();
  MlflowServer(const MlflowServer&) = delete;
  MlflowServer& operator=(const MlflowServer&) = delete;

  // As `uri`, without who asks.
  [[nodiscard]] const std::string& address() const;

  // nullopt: what is asked for is not there. `query`: percent-encoded.
  [[nodiscard]] std::optional<nlohmann::json> find(const std::string& call, const std::string& query);
  [[nodiscard]] nlohmann::json get(const std::string& call, const std::string& query);
  nlohmann::json post(const std::string& call, const nlohmann::json& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
