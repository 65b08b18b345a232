// check() and prepare().

#include <vector>

#include "conformance/engine_suite.hpp"

namespace combu::conformance {
namespace {

TEST_P(ContainerSuite, CheckReportsNothingForARunThatCanStart) {
  Trial trial = subject().runs_until_stopped("check-a");
  trial.container.ports = {Port{.host_ip = "", .host = 38471, .container = 80}};
  const Run run = described("check", {trial});
  EXPECT_THAT(words(engine().check(run, {})), testing::IsEmpty());
}

TEST_P(ContainerSuite, CheckReportsNamesAndPortsOfOtherContainers) {
  subject().make_stranger("check-stranger", 38472);
  Trial same_name = subject().runs_until_stopped("check-stranger");
  Trial same_port = subject().runs_until_stopped("check-port");
  same_port.container.ports = {Port{.host_ip = "", .host = 38472, .container = 80}};
  const Run run =
      described("check-taken", {same_name, subject().runs_until_stopped("check-fine"), same_port});
  const std::vector<Error> errors = engine().check(run, {});
  ASSERT_EQ(errors.size(), 2U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::conflict);
  EXPECT_EQ(errors[0].subject(), "check-stranger");
  EXPECT_EQ(errors[1].kind(), ErrorKind::conflict);
  EXPECT_EQ(errors[1].subject(), "check-port");
  EXPECT_THAT(errors[1].message(),
              testing::AllOf(testing::HasSubstr("38472"), testing::HasSubstr("check-stranger")));
}

TEST_P(EngineSuite, PrepareCanBeRepeated) {
  Trial trial = subject().runs_until_stopped("again-a");
  trial.container.networks = {"combu-net-again"};
  const Run run = ready("again", {trial});
  EXPECT_THAT(words(engine().prepare(run, [](const Preparation&) {}, {})), testing::IsEmpty());
}

TEST_P(HostSuite, PrepareReportsEachMissingImageOnce) {
  Trial first = subject().runs_until_stopped("missing-a");
  first.image = "combu-test-absent:never";
  first.pull = Pull::never;
  Trial second = first;
  second.name = "missing-b";
  const Run run = described("missing", {first, second, subject().runs_until_stopped("missing-c")});
  const std::vector<Error> errors = engine().prepare(run, [](const Preparation&) {}, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::not_found);
  EXPECT_THAT(errors[0].what(),
              testing::AllOf(testing::HasSubstr("combu-test-absent:never"), testing::HasSubstr("missing-a"),
                             testing::HasSubstr("missing-b")));
}

TEST_P(HostSuite, PrepareReportsADependencyOnHealthWithoutAHealthcheck) {
  Trial service = subject().runs_until_stopped("healthless");
  Trial client = subject().exits_with("healthless-client", 0);
  client.depends = {{.trial = "healthless", .condition = Condition::healthy, .path = "[1].depends[0]"}};
  const Run run = described("healthless", {service, client});
  const std::vector<Error> errors = engine().prepare(run, [](const Preparation&) {}, {});
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].kind(), ErrorKind::invalid);
  EXPECT_THAT(errors[0].what(), testing::HasSubstr("healthless"));
}

}  // namespace
}  // namespace combu::conformance
