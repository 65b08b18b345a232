// Names, labels and selectors of objects in a cluster.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "kubernetes/names.hpp"

namespace combu::kubernetes {
namespace {

using testing::EndsWith;
using testing::MatchesRegex;
using testing::StartsWith;

std::string name_of(const std::string& trial, const std::string& run = "k3x9", int attempt = 1) {
  return pod_name({RunId(run), trial, attempt});
}

TEST(KubernetesNames, APodIsNamedAfterTrialRunAndAttempt) {
  EXPECT_EQ(name_of("loader"), "loader-k3x9-1");
  EXPECT_EQ(name_of("solver-10", "abcdefghij12", 3), "solver-10-abcdefghij12-3");
}

TEST(KubernetesNames, AChangedTrialNameInAPodNameHasAHash) {
  EXPECT_THAT(name_of("Solver_1.x"), MatchesRegex("solver-1-x--[0-9a-f]{12}-k3x9-1"));
  EXPECT_THAT(name_of(std::string(200, 'a'), "abcdefghij12", 1000000),
              MatchesRegex("a+--[0-9a-f]{12}-abcdefghij12-1000000"));
}

TEST(KubernetesNames, DifferentKeysHaveDifferentPodNamesThatAreDnsLabels) {
  const std::string word(200, 'a');
  const std::vector<Key> keys = {{RunId("c"), "a-b", 1},
                                 {RunId("b-c"), "a", 1},
                                 {RunId("c"), "a", 1},
                                 {RunId("C"), "a", 1},
                                 {RunId("c"), "a", 11},
                                 {RunId("1"), "a", 1},
                                 {RunId("c"), "a-1", 1},
                                 {RunId("c"), "A", 1},
                                 {RunId("c"), "a_b", 1},
                                 {RunId("c"), "a.b", 1},
                                 {RunId("c"), "a--b", 1},
                                 {RunId("c"), "a-", 1},
                                 {RunId("c"), word, 1},
                                 {RunId("c"), word + "b", 1},
                                 {RunId("c"), word, 2},
                                 {RunId(std::string(64, 'x')), word, 1},
                                 {RunId("c"), name_of("A", "c").substr(0, 16), 1}};
  std::set<std::string> names;
  for (const Key& key : keys) {
    const std::string name = pod_name(key);
    EXPECT_TRUE(is_dns_label(name)) << name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(pod_name(key), name);
  }
}

TEST(KubernetesNames, TheAnchorHasTheNameOfTheRun) {
  EXPECT_EQ(anchor_name(RunId("k3x9")), "combu-k3x9");
  EXPECT_EQ(anchor_name(RunId("nightly-7")), "combu-nightly-7");
  EXPECT_THAT(anchor_name(RunId("Nightly_7.")), MatchesRegex("combu-nightly-7--[0-9a-f]{12}"));
  const std::string name = anchor_name(RunId(std::string(64, 'x')));
  EXPECT_TRUE(is_dns_label(name)) << name;
}

TEST(KubernetesNames, ALabelHasTheTextIfTheTextIsValid) {
  for (const std::string text : {"", "a", "Solver_1.x-2", "0"}) EXPECT_EQ(label_value(text), text);
  EXPECT_EQ(label_value(std::string(63, 'a')), std::string(63, 'a'));
}

TEST(KubernetesNames, AnotherTextIsAHashWithTheEndOfTheText) {
  EXPECT_THAT(label_value("/home/ada/routing.jsonnet"),
              MatchesRegex("home_ada_routing.jsonnet-[0-9a-f]{12}"));
  EXPECT_THAT(label_value("μ"), MatchesRegex("[0-9a-f]{12}"));
  EXPECT_NE(label_value("a b"), label_value("a/b"));
  const std::string head(100, 'h');
  EXPECT_THAT(label_value(head + "/routing.jsonnet"), StartsWith("hhh"));
  for (const std::string& text : {head + "/_", head + "a", "-" + head, std::string("a-"), std::string("__")})
    EXPECT_TRUE(is_label_value(label_value(text))) << label_value(text);
}

TEST(KubernetesNames, ANetworkHasALabelAndAPolicy) {
  EXPECT_EQ(network_label("lab"), "combu.network.lab");
  const std::string label = network_label(std::string(100, 'n') + ".");
  EXPECT_THAT(label, StartsWith("combu.network.nnn"));
  EXPECT_TRUE(is_label_key(label)) << label;
  EXPECT_EQ(network_policy_name(RunId("k3x9"), "lab"), "combu-k3x9-network-lab");
  EXPECT_EQ(port_policy_name(RunId("k3x9"), "loader"), "combu-k3x9-ports-loader");
  const std::string policy = network_policy_name(RunId("k3x9"), "Lab_" + std::string(100, 'n'));
  EXPECT_TRUE(is_dns_subdomain(policy)) << policy;
}

TEST(KubernetesNames, ASelectorNamesEachPart) {
  EXPECT_EQ(label_selector({}), "combu.experiment");
  EXPECT_EQ(label_selector({"routing", "", RunId("k3x9"), {}}), "combu.experiment=routing,combu.run=k3x9");
  EXPECT_EQ(label_selector({"", "/a b", {}, {}}), "combu.file=" + label_value("/a b"));
  EXPECT_EQ(label_selector({"", "", RunId("k3x9"), {"a", "b c"}}),
            "combu.run=k3x9,combu.trial in (a," + label_value("b c") + ")");
  EXPECT_EQ(label_selector({"", "", {}, {"a"}}), "combu.experiment,combu.trial in (a)");
  EXPECT_EQ(label_selector(RunId("k3x9"), {"a", "b"}, 2),
            "combu.run=k3x9,combu.attempt=2,combu.trial in (a,b)");
}

TEST(KubernetesNames, ASelectorOfManyTrialsSelectsAllTrials) {
  EXPECT_THAT(label_selector({"routing", "", {}, std::vector<std::string>(20, "a")}), EndsWith(")"));
  EXPECT_EQ(label_selector({"routing", "", {}, std::vector<std::string>(21, "a")}),
            "combu.experiment=routing");
}

TEST(KubernetesNames, DnsNamesFollowTheRules) {
  for (const std::string text : {"a", "0", "a-b", "a--b"}) EXPECT_TRUE(is_dns_label(text)) << text;
  for (const std::string text : {"", "-a", "a-", "A", "a.b", "a_b", "ä"})
    EXPECT_FALSE(is_dns_label(text)) << text;
  EXPECT_TRUE(is_dns_label(std::string(63, 'a')));
  EXPECT_FALSE(is_dns_label(std::string(64, 'a')));
  for (const std::string text : {"a", "a.b", "0.1-2.c"}) EXPECT_TRUE(is_dns_subdomain(text)) << text;
  for (const std::string text : {"", ".", "a.", ".a", "a..b", "a.-b", "a-.b", "a.B"})
    EXPECT_FALSE(is_dns_subdomain(text)) << text;
  EXPECT_TRUE(is_dns_subdomain(std::string(253, 'a')));
  EXPECT_FALSE(is_dns_subdomain(std::string(254, 'a')));
}

TEST(KubernetesNames, LabelsFollowTheRules) {
  for (const std::string text : {"a", "A.b-c_d", "example.com/team", "0"})
    EXPECT_TRUE(is_label_key(text)) << text;
  for (const std::string text : {"", "a b", "-a", "/a", "a/", "a/b/c", "Example.com/team", "a/-b"})
    EXPECT_FALSE(is_label_key(text)) << text;
  EXPECT_FALSE(is_label_key(std::string(64, 'a')));
  for (const std::string text : {"a b", "-a", "a.", "a/b"}) EXPECT_FALSE(is_label_value(text)) << text;
  EXPECT_FALSE(is_label_value(std::string(64, 'a')));
}

}  // namespace
}  // namespace combu::kubernetes
