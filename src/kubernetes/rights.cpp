#include "kubernetes/rights.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <string_view>
#include <utility>

#include "combu/json.hpp"
#include "combu/text.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

// Simultaneous requests. More of them would only increase the latency.
constexpr std::size_t k_reviews_at_once = 8;

std::vector<Right> make_rights() {
  std::vector<Right> rights;
  const auto add = [&](const char* group, const char* resource, const char* subresource,
                       std::initializer_list<const char*> verbs, Need need = Need::runs) {
    for (const char* verb : verbs) rights.push_back({group, resource, subresource, verb, need});
  };
  add("", "pods", "", {"create", "get", "list", "watch", "patch", "delete", "deletecollection"});
  add("", "pods", "log", {"get"});
  add("", "pods", "exec", {"create", "get"}, Need::agent);
  add("", "configmaps", "", {"create", "get", "list", "patch", "delete"});
  add("", "services", "", {"create", "get", "list", "delete"});
  add("", "events", "", {"list"}, Need::reasons);
  add("networking.k8s.io", "networkpolicies", "", {"create", "get", "list", "delete"}, Need::isolation);
  add("", "persistentvolumeclaims", "", {"get"}, Need::volumes);
  add("", "secrets", "", {"create", "patch", "delete"}, Need::secrets);
  add("metrics.k8s.io", "pods", "", {"list"}, Need::usage);
  return rights;
}

bool is_same_resource(const Right& one, const Right& other) {
  return one.group == other.group && one.resource == other.resource && one.subresource == other.subresource;
}

// Returns a YAML string in double quotes. JSON strings are also YAML.
std::string yaml_string(const std::string& text) {
  return json_text(json(text));
}

bool is_allowed(ApiClient& client, const std::string& name_space, const Right& right,
                const std::stop_token& stop) {
  const json review = {{"apiVersion", "authorization.k8s.io/v1"},
                       {"kind", "SelfSubjectAccessReview"},
                       {"spec",
                        {{"resourceAttributes",
                          {{"namespace", name_space},
                           {"group", right.group},
                           {"resource", right.resource},
                           {"subresource", right.subresource},
                           {"verb", right.verb}}}}}};
  const ApiResponse response =
      client.send({.method = "POST",
                   .target = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                   .body = json_text(review)},
                  stop);
  const json answer = parse_json_or_discard(response.body);
  const json& allowed = member_of(answer, {"status", "allowed"});
  if (!allowed.is_boolean())
    throw Error(ErrorKind::corrupt, "SelfSubjectAccessReview",
                "the API server's answer has no status.allowed");
  return allowed.get<bool>();
}

}  // namespace

std::string Right::resource_text() const {
  return fmt::format("{}{}{}{}{}", resource, group.empty() ? "" : ".", group, subresource.empty() ? "" : "/",
                     subresource);
}

std::span<const Right> needed_rights() {
  static const std::vector<Right> k_rights = make_rights();
  return k_rights;
}

std::vector<Right> missing_rights(ApiClient& client, const std::string& name_space,
                                  const std::stop_token& stop) {
  const std::span<const Right> needed = needed_rights();
  std::vector<char> allowed(needed.size());  // not vector<bool>: several threads write at once
  in_parallel(needed.size(), k_reviews_at_once, [&](std::size_t i) {
    allowed[i] = static_cast<char>(is_allowed(client, name_space, needed[i], stop));
  });
  std::vector<Right> missing;
  for (std::size_t i = 0; i < needed.size(); ++i)
    if (allowed[i] == 0) missing.push_back(needed[i]);
  return missing;
}

std::string user_name_of(ApiClient& client, const std::stop_token& stop) {
  try {
    const ApiResponse response =
        client.send({.method = "POST",
                     .target = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                     .body = R"({"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"})"},
                    stop);
    const json answer = parse_json_or_discard(response.body);
    if (answer.is_object()) return answer.value("/status/userInfo/username"_json_pointer, "");
  } catch (const json::exception&) {
    return "";  // the name is no string
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::cancelled) throw;
  }
  return "";
}

std::string role_for(const std::string& name_space) {
  std::string yaml = fmt::format(
      "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata:\n  name: combu\n  namespace: "
      "{}\nrules:\n",
      yaml_string(name_space));
  const std::span<const Right> rights = needed_rights();
  for (auto first = rights.begin(); first != rights.end();) {
    const auto last = std::find_if_not(first, rights.end(),
                                       [&](const Right& right) { return is_same_resource(right, *first); });
    std::vector<std::string_view> verbs;
    std::ranges::transform(first, last, std::back_inserter(verbs), &Right::verb);
    yaml += fmt::format("- apiGroups: [{}]\n  resources: [{}{}{}]\n  verbs: [{}]\n",
                        yaml_string(first->group), first->resource, first->subresource.empty() ? "" : "/",
                        first->subresource, fmt::join(verbs, ", "));
    first = last;
  }
  return yaml;
}

std::string grant_commands(const std::string& name_space, const std::string& user) {
  constexpr std::string_view k_account = "system:serviceaccount:";
  const std::string known_user = user.empty() ? "USER" : user;
  const std::string subject = user.starts_with(k_account)
                                  ? "--serviceaccount=" + shell_word(user.substr(k_account.size()))
                                  : "--user=" + shell_word(known_user);
  // Each user gets a binding, so that the command does not fail because of another user's binding.
  std::string binding = "combu-" + known_user;
  std::ranges::replace_if(
      binding, [](char letter) { return letter == '/' || letter == '%'; }, '-');
  return fmt::format(
      "kubectl apply -f - <<'END'\n{}END\nkubectl create rolebinding {} --role=combu {} --namespace={}",
      role_for(name_space), shell_word(binding), subject, shell_word(name_space));
}

}  // namespace combu::kubernetes
