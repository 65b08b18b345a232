#pragma once
// Requests to an MLflow server: https://mlflow.org/docs/latest/rest-api.html

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>

namespace combu {

// Thread-safe. Simultaneous requests use different connections, and later requests reuse the connections. All
// functions throw Error on failure. The text of an error never contains credentials.
class MlflowServer {
 public:
  // `uri`: "http://HOST:PORT" or "https://HOST/PATH". Credentials and trusted certificates are read from the
  // environment and ~/.mlflow/credentials, as by MLflow's own client.
  MlflowServer(const std::string& uri, std::stop_token stop);
  ~MlflowServer();
  MlflowServer(const MlflowServer&) = delete;
  MlflowServer& operator=(const MlflowServer&) = delete;

  // Returns `uri` without credentials.
  [[nodiscard]] const std::string& address() const;

  // If the server does not have the requested object, find() returns nullopt, and get() and post() throw
  // Error(not_found). `query` must be percent-encoded.
  [[nodiscard]] std::optional<nlohmann::json> find(const std::string& call, const std::string& query);
  [[nodiscard]] nlohmann::json get(const std::string& call, const std::string& query);
  nlohmann::json post(const std::string& call, const nlohmann::json& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace combu
