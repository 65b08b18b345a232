#pragma once
// Requests for the objects in one namespace.

#include <array>
#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kubernetes/api_client.hpp"

namespace combu::kubernetes {

// A kind of objects.
struct Kind {
  const char* group;     // path of the API group, such as "/api/v1"
  const char* resource;  // such as "pods"
};
inline constexpr Kind k_pods{"/api/v1", "pods"};
inline constexpr Kind k_config_maps{"/api/v1", "configmaps"};
inline constexpr Kind k_services{"/api/v1", "services"};
inline constexpr Kind k_claims{"/api/v1", "persistentvolumeclaims"};
inline constexpr Kind k_secrets{"/api/v1", "secrets"};
inline constexpr Kind k_service_accounts{"/api/v1", "serviceaccounts"};
inline constexpr Kind k_events{"/api/v1", "events"};
inline constexpr Kind k_network_policies{"/apis/networking.k8s.io/v1", "networkpolicies"};
inline constexpr Kind k_pod_metrics{"/apis/metrics.k8s.io/v1beta1", "pods"};

// Selects objects by their labels and fields. Empty members select all objects.
struct ObjectFilter {
  std::string labels;  // a labelSelector
  std::string fields;  // a fieldSelector
};

// The object that a request is meant for. Empty members permit all objects.
struct Precondition {
  std::string uid;
  std::string version;  // changes with each change of the object
};

// All functions throw the errors of ApiClient::send(). Safe for many threads.
class Objects {
 public:
  // `api` must outlive this object.
  Objects(ApiClient& api, std::string name_space) : api_(api), name_space_(std::move(name_space)) {}

  [[nodiscard]] const std::string& name_space() const { return name_space_; }

  // Returns nullopt if the object does not exist. `answer_max`: see ApiRequest.
  [[nodiscard]] std::optional<nlohmann::json> find(const Kind& kind, const std::string& name,
                                                   const std::stop_token& stop,
                                                   std::optional<Seconds> answer_max = {});

  // True if the object exists. The server sends only the object's metadata, and not its content.
  [[nodiscard]] bool exists(const Kind& kind, const std::string& name, const std::stop_token& stop);

  // Returns the created object as the server has completed it.
  nlohmann::json create(const Kind& kind, const nlohmann::json& object, const std::stop_token& stop);

  // Creates a Pod without reading the server's answer.
  void create_pod(const nlohmann::json& pod, const std::stop_token& stop);

  // Makes all checks of create(), but creates nothing. Unknown fields are errors. Returns the object as the
  // server would complete it, and passes each warning of the server to `on_warning`.
  [[nodiscard]] nlohmann::json try_create(const Kind& kind, const nlohmann::json& object,
                                          const std::function<void(const std::string&)>& on_warning,
                                          const std::stop_token& stop);

  // Changes an object by a merge patch, and returns the changed object. If the patch has a uid or a
  // resourceVersion, and the object has another one, throws ApiError with status 409 or 422.
  nlohmann::json patch(const Kind& kind, const std::string& name, const nlohmann::json& patch,
                       const std::stop_token& stop);

  // Deletes an object; returns false if it does not exist. `grace`: the Pod's grace period in seconds;
  // nullopt: the Pod's own. Throws ApiError(conflict) if the object does not meet the precondition.
  bool remove(const Kind& kind, const std::string& name, std::optional<int> grace,
              const Precondition& precondition, const std::stop_token& stop);
  // Deletes the selected objects. Pods get their own grace periods.
  void remove_selected(const Kind& kind, const ObjectFilter& filter, const std::stop_token& stop);
  // Deletes the selected objects with one request for each 500 of them, and calls `on_page` after each
  // request with the maximum number of objects that it has deleted. Objects that are being deleted already
  // count, too.
  void remove_pages(const Kind& kind, const ObjectFilter& filter, std::optional<int> grace,
                    const std::function<void(std::size_t)>& on_page, const std::stop_token& stop);

  // Calls `on_object` for each selected object. Reads the list in pages, which together show one moment. If
  // the server forgets the list in the meantime, calls `on_restart`, and begins again. `answer_max`: of each
  // page; see ApiRequest. Returns the version of the listed moment, from which a watch can continue.
  std::string list(const Kind& kind, const ObjectFilter& filter,
                   const std::function<void(nlohmann::json& object)>& on_object,
                   const std::function<void()>& on_restart, const std::stop_token& stop,
                   std::optional<Seconds> answer_max = {});
  // True if the filter selects an object.
  [[nodiscard]] bool is_any(const Kind& kind, const ObjectFilter& filter, const std::stop_token& stop);

  // Returns the path of the objects of a kind, or of one object.
  [[nodiscard]] std::string path(const Kind& kind, const std::string& name = {}) const;

 private:
  [[nodiscard]] ApiResponse post(const Kind& kind, std::string_view options, const nlohmann::json& object,
                                 const std::stop_token& stop);
  // Sends `request`, with the target set, for each page of the selected objects. If the server forgets the
  // next page in the meantime, calls `on_restart`, and begins again, at most five times.
  void for_each_page(ApiRequest request, const Kind& kind, const ObjectFilter& filter,
                     const std::function<void(nlohmann::json& page)>& on_page,
                     const std::function<void()>& on_restart, const std::stop_token& stop);

  ApiClient& api_;
  std::string name_space_;
};

// Members of an object that combu does not read: `managedFields` records which client has set which field. It
// is about half of a Pod's text.
inline constexpr std::array<std::string_view, 1> k_unread{"managedFields"};

// Returns the query part "&NAME=VALUE" with the value percent-encoded, or an empty string if `value` is
// empty.
[[nodiscard]] std::string query_part(std::string_view name, std::string_view value);

}  // namespace combu::kubernetes
