#include "kubernetes/objects.hpp"

#include <fmt/format.h>

#include <utility>

#include "combu/http.hpp"
#include "combu/json.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

constexpr std::size_t k_page = 500;
constexpr int k_gone = 410;
constexpr int k_restarts_max = 5;  // of a list whose next page the server has forgotten

std::string query_of(const ObjectFilter& filter) {
  return query_part("labelSelector", filter.labels) + query_part("fieldSelector", filter.fields);
}

json read_answer(const ApiResponse& response) {
  json answer = parse_json_or_discard(response.body, k_unread);
  if (!answer.is_object())
    throw Error(ErrorKind::corrupt, "", "the answer of the API server is not a JSON object");
  return answer;
}

json delete_options(std::optional<int> grace, const Precondition& precondition) {
  json options = {{"kind", "DeleteOptions"}, {"apiVersion", "v1"}, {"propagationPolicy", "Background"}};
  if (grace) options["gracePeriodSeconds"] = *grace;
  if (!precondition.uid.empty()) options["preconditions"]["uid"] = precondition.uid;
  if (!precondition.version.empty()) options["preconditions"]["resourceVersion"] = precondition.version;
  return options;
}

}  // namespace

std::string query_part(std::string_view name, std::string_view value) {
  return value.empty() ? "" : fmt::format("&{}={}", name, percent_encode(value));
}

std::string Objects::path(const Kind& kind, const std::string& name) const {
  return fmt::format("{}/namespaces/{}/{}{}{}", kind.group, name_space_, kind.resource,
                     name.empty() ? "" : "/", name);
}

std::optional<json> Objects::find(const Kind& kind, const std::string& name, const std::stop_token& stop,
                                  std::optional<Seconds> answer_max) {
  try {
    return read_answer(api_.send({.target = path(kind, name), .answer_max = answer_max}, stop));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::not_found) return std::nullopt;
    throw;
  }
}

bool Objects::exists(const Kind& kind, const std::string& name, const std::stop_token& stop) {
  try {
    (void)api_.send({.target = path(kind, name),
                     .accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"},
                    stop);
    return true;
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::not_found) return false;
    throw;
  }
}

ApiResponse Objects::post(const Kind& kind, std::string_view options, const json& object,
                          const std::stop_token& stop) {
  return api_.send(
      {.method = "POST", .target = fmt::format("{}?{}", path(kind), options), .body = json_text(object)},
      stop);
}

json Objects::create(const Kind& kind, const json& object, const std::stop_token& stop) {
  return read_answer(post(kind, "fieldValidation=Ignore", object, stop));
}

void Objects::create_pod(const json& pod, const std::stop_token& stop) {
  (void)post(k_pods, "fieldValidation=Ignore", pod, stop);
}

json Objects::try_create(const Kind& kind, const json& object,
                         const std::function<void(const std::string&)>& on_warning,
                         const std::stop_token& stop) {
  const ApiResponse response = post(kind, "dryRun=All&fieldValidation=Strict", object, stop);
  for (const std::string& warning : response.warnings) on_warning(warning);
  return read_answer(response);
}

json Objects::patch(const Kind& kind, const std::string& name, const json& patch,
                    const std::stop_token& stop) {
  return read_answer(api_.send({.method = "PATCH",
                                .target = path(kind, name),
                                .body = json_text(patch),
                                .content_type = "application/merge-patch+json"},
                               stop));
}

bool Objects::remove(const Kind& kind, const std::string& name, std::optional<int> grace,
                     const Precondition& precondition, const std::stop_token& stop) {
  try {
    (void)api_.send({.method = "DELETE",
                     .target = path(kind, name),
                     .body = json_text(delete_options(grace, precondition))},
                    stop);
    return true;
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::not_found) return false;
    throw;
  }
}

void Objects::remove_selected(const Kind& kind, const ObjectFilter& filter, const std::stop_token& stop) {
  (void)api_.send({.method = "DELETE",
                   .target = path(kind) + "?" + query_of(filter).substr(1),
                   .body = json_text(delete_options(std::nullopt, {}))},
                  stop);
}

void Objects::for_each_page(ApiRequest request, const Kind& kind, const ObjectFilter& filter,
                            const std::function<void(json& page)>& on_page,
                            const std::function<void()>& on_restart, const std::stop_token& stop) {
  std::string next;
  for (int restarts = 0;;) {
    try {
      request.target =
          fmt::format("{}?limit={}{}{}", path(kind), k_page, query_of(filter), query_part("continue", next));
      json page = read_answer(api_.send(request, stop));
      on_page(page);
      next = text_of(page, {"metadata", "continue"});
      if (next.empty()) return;
    } catch (const ApiError& error) {
      // The answer contains another token, which would continue with the objects of another moment.
      if (error.status() != k_gone || restarts == k_restarts_max) throw;
      ++restarts;
      next.clear();
      on_restart();
    }
  }
}

void Objects::remove_pages(const Kind& kind, const ObjectFilter& filter, std::optional<int> grace,
                           const std::function<void(std::size_t)>& on_page, const std::stop_token& stop) {
  for_each_page(
      {.method = "DELETE", .target = {}, .body = json_text(delete_options(grace, {}))}, kind, filter,
      [&](json& /*page*/) { on_page(k_page); }, [] {}, stop);
}

std::string Objects::list(const Kind& kind, const ObjectFilter& filter,
                          const std::function<void(json& object)>& on_object,
                          const std::function<void()>& on_restart, const std::stop_token& stop,
                          std::optional<Seconds> answer_max) {
  std::string version;
  const auto take = [&](json& page) {
    if (const auto items = page.find("items"); items != page.end() && items->is_array())
      for (json& object : *items) on_object(object);
    version = text_of(page, {"metadata", "resourceVersion"});
  };
  for_each_page({.answer_max = answer_max}, kind, filter, take, on_restart, stop);
  return version;
}

bool Objects::is_any(const Kind& kind, const ObjectFilter& filter, const std::stop_token& stop) {
  const json page =
      read_answer(api_.send({.target = fmt::format("{}?limit=1{}", path(kind), query_of(filter))}, stop));
  const auto items = page.find("items");
  return items != page.end() && items->is_array() && !items->empty();
}

}  // namespace combu::kubernetes
