#pragma once
// Refusals because of a ResourceQuota: https://kubernetes.io/docs/concepts/policy/resource-quotas/

#include <optional>
#include <string>
#include <string_view>

namespace combu::kubernetes {

enum class QuotaRefusal {
  none,     // the message does not say that a quota is exceeded
  used_up,  // the object fits as soon as others are gone
  never,    // the object alone requests more than the quota's limit
};
// Reads the server's message for a refused object ("… exceeded quota: Q, requested: cpu=2, used: cpu=3,
// limited: cpu=4").
[[nodiscard]] QuotaRefusal quota_refusal(std::string_view message);

// Returns the part of such a message that names the quota and its limits ("exceeded quota: Q, limited:
// cpu=4"). This part is equal for all objects. Returns the whole message if it has another form.
[[nodiscard]] std::string exceeded_quota(std::string_view message);

// Returns the value of a quantity such as "500m", "2", "1.5Gi" or "1e3"; nullopt if `text` is no quantity:
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
[[nodiscard]] std::optional<double> parse_quantity(std::string_view text);

}  // namespace combu::kubernetes
