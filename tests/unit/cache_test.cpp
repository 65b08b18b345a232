#include "combu/cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace combu {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const RunId k_run("abcdefghijkl");
constexpr std::string_view k_digest = "sha256:1111";

Trial trial() {
  Trial trial;
  trial.name = "solver";
  trial.image = "lab/solver";
  trial.process.cmd = {"solve", "--lr", "0.1"};
  trial.process.env = {{"COMBU_PARAM_LR", "0.1"}, {"SEED", "3"}};
  trial.params = R"({"lr":0.1})";
  trial.outputs = {{.path = "/out"}};
  return trial;
}

CacheKey key(const Trial& trial, const RunId& run = k_run, const std::vector<std::string>& inputs = {}) {
  return cache_key(trial, run, k_digest, inputs);
}

CacheKey changed(const std::function<void(Trial&)>& change) {
  Trial other = trial();
  change(other);
  return key(other);
}

TEST(CacheKey, FieldsThatDoNotAffectOutputsDoNotChangeTheKey) {
  const std::string hash = key(trial()).hash;
  EXPECT_EQ(hash.size(), 64U);
  const std::vector<std::function<void(Trial&)>> changes{
      [](Trial& it) { it.name = "another"; },
      [](Trial& it) { it.image = "lab/solver:tagged"; },
      [](Trial& it) {
        it.container.labels = {{"a", "b"}};
      },
      [](Trial& it) { it.container.ports = {{.host = 80, .container = 80}}; },
      [](Trial& it) { it.depends = {{.trial = "other"}}; },
      [](Trial& it) { it.slots.memory.count = 1 << 20; },
      [](Trial& it) { it.slots.cpus.nano = 1; },
      [](Trial& it) { it.timeout = Seconds(3); },
      [](Trial& it) { it.retries.max = 3; },
      [](Trial& it) { it.priority = 3; },
      [](Trial& it) { it.path = "[3]"; }};
  for (std::size_t i = 0; i < changes.size(); ++i) EXPECT_EQ(changed(changes[i]).hash, hash) << i;
}

TEST(CacheKey, APathInTheScratchFolderDiffersFromAnAbsolutePath) {
  Trial fed = trial();
  fed.inputs = {{.from = "/data", .to = "/in"}, {.from = "/other", .to = "/in", .in_scratch = true}};
  const std::string hash = key(fed, k_run, {"digest-1", "digest-2"}).hash;
  EXPECT_NE(key(fed, k_run, {"digest-1", "digest-3"}).hash, hash);
  EXPECT_NE(key(fed, k_run, {"digest-3", "digest-2"}).hash, hash);
  Trial in_scratch = trial();
  in_scratch.outputs[0].in_scratch = true;
  EXPECT_NE(key(in_scratch).hash, key(trial()).hash);
}

TEST(CacheKey, FieldsThatAffectOutputsChangeTheKey) {
  const std::string hash = key(trial()).hash;
  const std::vector<std::function<void(Trial&)>> changes{
      [](Trial& it) { it.process.cmd->back() = "0.2"; },
      [](Trial& it) { it.process.entrypoint = {"sh"}; },
      [](Trial& it) { it.process.env[1].second = "4"; },
      [](Trial& it) { it.process.env.emplace_back("MORE", ""); },
      [](Trial& it) { it.process.workdir = "/"; },
      [](Trial& it) { it.process.user = "1000"; },
      [](Trial& it) { it.params = R"({"lr":0.2})"; },
      [](Trial& it) { it.platform = "linux/arm64"; },
      [](Trial& it) { it.container.volumes = {{.source = "/data", .target = "/data"}}; },
      [](Trial& it) { it.container.networks = {"none"}; },
      [](Trial& it) { it.gpus = GpuRequest{.count = 2}; },
      [](Trial& it) { it.outputs[0].path = "/other"; },
      [](Trial& it) { it.outputs[0].required = false; },  // cached outputs may lack an optional output
      [](Trial& it) { it.outputs[0].size_max.count = 3; },
      [](Trial& it) { it.metrics = Metrics{.json = true}; },
      [](Trial& it) { it.metrics = Metrics{.step = "epoch"}; },
      [](Trial& it) { it.container.docker = R"({"HostConfig":{"CpusetCpus":"0"}})"; },
      [](Trial& it) { it.container.kubernetes = R"({"pod":{"nodeSelector":{"disk":"ssd"}}})"; }};
  for (std::size_t i = 0; i < changes.size(); ++i) EXPECT_NE(changed(changes[i]).hash, hash) << i;
  EXPECT_NE(cache_key(trial(), k_run, "sha256:2222", {}).hash, hash);
  Trial fed = trial();
  fed.inputs = {{.from = "/data", .to = "/in"}};
  const std::string one = key(fed, k_run, {"sha256:1234"}).hash;
  EXPECT_NE(one, hash);
  EXPECT_NE(key(fed, k_run, {"sha256:5678"}).hash, one);
  fed.inputs[0].from = "/data-elsewhere";
  EXPECT_EQ(key(fed, k_run, {"sha256:1234"}).hash, one) << "what is in it counts, not where it was";
}

TEST(CacheKey, TheRunIdDoesNotChangeTheKey) {
  Trial one = trial();
  one.process.cmd->push_back("UUID=" + k_run.text());
  one.process.env[1].second = k_run.text() + "/x";
  const RunId other_run("zzzzzzzzzzzz");
  Trial other = trial();
  other.process.cmd->push_back("UUID=" + other_run.text());
  other.process.env[1].second = other_run.text() + "/x";
  EXPECT_EQ(key(one).hash, key(other, other_run).hash);
}

TEST(CacheKey, AShortRunIdIsNotReplaced) {
  Trial one = trial();
  one.process.cmd = {"solve", "1"};
  Trial other = trial();
  other.process.cmd = {"solve", "2"};
  EXPECT_NE(key(one, RunId("1")).hash, key(other, RunId("2")).hash);
}

TEST(CacheKey, OnlyTheNamedFieldsChangeTheKey) {
  Trial one = trial();
  one.cache = {.on = true, .key = {"params.lr"}};
  Trial other = one;
  other.process.cmd = {"something", "else"};
  EXPECT_EQ(key(one).hash, key(other).hash);
  other.params = R"({"lr":0.2})";
  EXPECT_NE(key(one).hash, key(other).hash);
  other = one;
  other.outputs[0].path = "/other";
  EXPECT_NE(key(one).hash, key(other).hash);
  one.cache.key = {"name"};
  other = one;
  other.name = "another";
  EXPECT_NE(key(one).hash, key(other).hash);
}

TEST(CacheKey, ThePartsDoNotRevealEnvironmentValues) {
  Trial secret = trial();
  secret.process.env[1].second = "hunter2";
  EXPECT_EQ(key(secret).parts.find("hunter2"), std::string::npos);
  secret.cache.key = {"env.SEED"};
  EXPECT_EQ(key(secret).parts.find("hunter2"), std::string::npos);
}

TEST(CacheKey, ASecretCountsByItsName) {
  Trial one = trial();
  one.container.secrets = std::vector<Secret>{{.source = "token", .target = "/run/secrets/token"},
                                              {.source = "token", .variable = "TOKEN"}};
  EXPECT_NE(key(one).hash, key(trial()).hash);
  Trial moved = one;
  moved.container.secrets =
      std::vector<Secret>{{.source = "token", .target = "/run/secrets/token", .path = "p"},
                          {.source = "token", .variable = "TOKEN", .path = "q"}};
  EXPECT_EQ(key(one).hash, key(moved).hash);
  Trial other = one;
  other.container.secrets = std::vector<Secret>{{.source = "key", .target = "/run/secrets/token"},
                                                {.source = "token", .variable = "TOKEN"}};
  EXPECT_THAT(differences(key(other).parts, key(one).parts),
              ElementsAre("secrets./run/secrets/token is key, but was token"));
  one.cache.key = {"secrets"};
  other.cache.key = {"secrets"};
  EXPECT_NE(key(one).hash, key(other).hash);
}

TEST(CacheKey, DifferencesNameTheFieldsAsInTheFile) {
  const CacheKey before = key(trial());
  EXPECT_THAT(differences(before.parts, before.parts), IsEmpty());
  const CacheKey now = changed([](Trial& it) {
    it.process.cmd->back() = "0.2";
    it.params = R"({"lr":0.2})";
    it.process.env[1].second = "4";
    it.process.user = "1000";
  });
  EXPECT_THAT(differences(now.parts, before.parts),
              ElementsAre("cmd is solve --lr 0.2, but was solve --lr 0.1", "env.SEED differs",
                          "params.lr is 0.2, but was 0.1", "user is 1000, but was not given"));
}

}  // namespace
}  // namespace combu
