// Event objects as reasons of Pods that do not start.

#include <gtest/gtest.h>

#include <string>

#include "combu/json.hpp"
#include "kubernetes/pod_report.hpp"

namespace combu::kubernetes {
namespace {

using nlohmann::json;

json event_of(const std::string& changes) {
  json event = parse_json(R"({"kind": "Event", "type": "Warning", "reason": "FailedMount",
    "message": "MountVolume.SetUp failed for volume \"v\" : configmap \"nosuch\" not found",
    "involvedObject": {"kind": "Pod", "namespace": "lab", "name": "a-r1-1", "uid": "u1"}})");
  event.merge_patch(parse_json(changes));
  return event;
}

// Returns "UID: TEXT".
std::string warning_in(const json& event) {
  std::string uid = "old";
  const std::string text = read_warning(event, uid);
  return uid + ": " + text;
}

TEST(PodWarningTest, AWarningSaysWhyAPodDoesNotStart) {
  EXPECT_EQ(warning_in(event_of("{}")),
            "u1: FailedMount: MountVolume.SetUp failed for volume \"v\" : configmap \"nosuch\" not found");
  EXPECT_EQ(warning_in(event_of(
                R"({"reason": "FailedCreatePodSandBox", "message": "Failed to create pod\nsandbox"})")),
            "u1: FailedCreatePodSandBox: Failed to create pod sandbox");
  EXPECT_EQ(warning_in(event_of(R"({"reason": "Failed", "message":
      "Failed to pull image \"img:1\": rpc error: code = NotFound desc = no such image"})")),
            "u1: Failed: Failed to pull image \"img:1\": no such image");
}

TEST(PodWarningTest, OtherEventsAreIgnored) {
  for (const std::string changes :
       {R"({"type": "Normal"})", R"({"reason": "Unhealthy"})", R"({"reason": null})",
        R"({"involvedObject": null})", R"({"involvedObject": {"kind": "Job"}})",
        R"({"involvedObject": {"uid": 7}})"})
    EXPECT_EQ(warning_in(event_of(changes)), ": ") << changes;
  EXPECT_EQ(warning_in(json("x")), ": ");
}

}  // namespace
}  // namespace combu::kubernetes
