// KubernetesEngine: prepare() reads images from a scripted registry, with the credentials of Docker's
// configuration or of the cluster's Secrets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "unit/docker_fixture.hpp"
#include "unit/registry_fixture.hpp"
#include "wire/kubernetes_fixture.hpp"

namespace combu::wire {
namespace {

using docker::Folder;
using nlohmann::json;
using registry::FakeRegistry;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr const char* k_account = "u:p";

// A cluster, and a registry with an image for each of two platforms at the tag "1".
class KubernetesImages : public testing::Test {
 protected:
  KubernetesImages() {
    amd_ = registry_.put_image("amd64");
    arm_ = registry_.put_image("arm64");
    const auto entry = [](const std::string& digest, const char* machine) {
      return json{{"digest", digest}, {"platform", {{"os", "linux"}, {"architecture", machine}}}};
    };
    index_ = registry_.put_manifest(json{{"manifests", {entry(amd_, "amd64"), entry(arm_, "arm64")}}}.dump());
    registry_.tag(index_);
    registry_.tag(arm_, "arm");
  }

  // A trial with `worker`.
  [[nodiscard]] Trial trial(const std::string& name = "a", const std::string& tag = ":1") const {
    Trial trial;
    trial.name = name;
    trial.image = registry_.image(tag);
    trial.worker = WorkerSettings{.on = true};
    return trial;
  }
  [[nodiscard]] Trial cached(const std::string& name = "a", const std::string& tag = ":1") const {
    Trial trial;
    trial.name = name;
    trial.image = registry_.image(tag);
    trial.cache.on = true;
    return trial;
  }
  void requires_login() {
    answer_ = [](const Asked& asked) -> std::optional<Reply> {
      if (registry::has_header(asked, "Authorization: Basic " + encode_base64(k_account)))
        return std::nullopt;
      return whole(401, "{}", "WWW-Authenticate: Basic realm=\"x\"\r\n");
    };
  }
  void add_secret(const std::string& name, const std::string& account = k_account) {
    const json config = {{"auths", {{registry_.host(), {{"auth", encode_base64(account)}}}}}};
    objects_["secrets/" + name] =
        json{{"data", {{".dockerconfigjson", encode_base64(config.dump())}}}}.dump();
  }

  // Returns the texts of the errors.
  std::vector<std::string> prepare(std::vector<Trial> trials) {
    found_.clear();
    notes_.clear();
    combu::Run run = cluster_run({});
    run.experiment.trials = std::move(trials);
    const auto on_progress = [this](const Preparation& preparation) {
      if (preparation.kind == Preparation::Kind::found) found_.push_back(preparation);
      if (preparation.kind == Preparation::Kind::note) notes_.push_back(preparation.name);
    };
    std::vector<std::string> texts;
    for (const Error& error : cluster_.engine().prepare(run, on_progress, {}))
      texts.emplace_back(error.what());
    return texts;
  }
  [[nodiscard]] std::size_t requests(const std::string& part) {
    std::size_t count = 0;
    for (const std::string& line : cluster_.server().lines())
      count += line.find(part) != std::string::npos ? 1 : 0;
    return count;
  }
  // Returns Observation::digest of a Pod of this image that runs with this digest.
  std::string digest_of_pod(const std::string& image, const std::string& image_id) {
    json pod = stored_pod(running_status());
    pod["spec"]["containers"][0]["image"] = image;
    pod["status"]["containerStatuses"][0]["imageID"] = image_id;
    pods_ = pod_list({pod});
    return cluster_.engine().list({.run = RunId("run1")}, ListDetail::full, {}).at(0).digest;
  }

  std::function<std::optional<Reply>(const Asked&)> answer_ = [](const Asked&) { return std::nullopt; };
  std::map<std::string, std::string> objects_;  // by the end of the path
  std::string pods_;
  FakeRegistry registry_{[this](const Asked& asked) { return answer_(asked); }};
  std::string amd_, arm_, index_;
  Folder docker_;
  ScriptedCluster cluster_{[this](const Asked& asked) {
                             const std::string begin = "/api/v1/namespaces/ns/";
                             if (asked.target.starts_with(begin + "pods")) return whole(200, pods_);
                             const auto found = objects_.find(asked.target.substr(begin.size()));
                             return found == objects_.end() ? failure(403, "forbidden")
                                                            : whole(200, found->second);
                           },
                           {},
                           k_anchor,
                           {},
                           docker_.path()};
  std::vector<Preparation> found_;
  std::vector<std::string> notes_;
};

TEST_F(KubernetesImages, TheProgramOfAnImageIsReadOnceForAllTrials) {
  EXPECT_THAT(prepare({trial("a"), trial("b"), cached("c")}), IsEmpty());
  ASSERT_THAT(found_, SizeIs(1));
  EXPECT_EQ(found_[0].name, registry_.image());
  EXPECT_EQ(found_[0].digest, registry_.image("@" + index_));
  EXPECT_EQ(
      found_[0].program,
      (ImageProgram{
          .entrypoint = {"/run", "-x"}, .cmd = {"arg"}, .stop_signal = "SIGINT", .platform = "linux/amd64"}));
  EXPECT_THAT(registry_.server().asked(), SizeIs(3)) << "index, manifest and configuration";
  EXPECT_EQ(requests("/secrets/"), 0U) << "only if the registry refuses";
}

TEST_F(KubernetesImages, ThePlatformIsThatOfTheTrialOrElseOfTheImage) {
  Trial arm = trial();
  arm.platform = "linux/arm64";
  EXPECT_THAT(prepare({arm, trial("b", ":arm")}), IsEmpty());
  ASSERT_THAT(found_, SizeIs(2));
  for (const Preparation& found : found_) EXPECT_EQ(found.program.platform, "linux/arm64");
  arm.platform = "linux/s390x";
  EXPECT_THAT(prepare({arm}),
              ElementsAre(AllOf(HasSubstr("the image is not for linux/s390x, but for linux/amd64"),
                                HasSubstr("(needed by a)"))));
}

TEST_F(KubernetesImages, AnImageThatNoTrialNeedsToKnowIsNotRead) {
  Trial plain = cached();
  plain.cache.on = false;
  Trial known = trial("b");
  known.process.entrypoint = std::vector<std::string>{};
  EXPECT_THAT(prepare({plain, known}), IsEmpty());
  EXPECT_THAT(registry_.server().asked(), IsEmpty());
  ASSERT_THAT(found_, SizeIs(1)) << "for the workers";
  EXPECT_EQ(found_[0].digest, "");
}

TEST_F(KubernetesImages, AnUnreadableImageIsRefusedIfItsEntrypointIsNeeded) {
  requires_login();
  EXPECT_THAT(
      prepare({trial("a"), trial("b"), cached("c")}),
      ElementsAre(registry_.image() + ": combu cannot read the entrypoint of the image: the registry " +
                  registry_.host() +
                  " requires a login (status 401), or it has no such image; check `image`, and log in with "
                  "`docker login " +
                  registry_.host() +
                  "`. Or write `entrypoint`: the program and its first arguments, or `[]` if `cmd` begins "
                  "with the program (needed by a, b)"));
  EXPECT_THAT(requests("configmaps"), 0U) << "the run creates nothing";
}

TEST_F(KubernetesImages, AnUnreadableImageOfATrialWithCacheIsOnlyNoted) {
  EXPECT_THAT(prepare({cached("a", ":absent")}), IsEmpty());
  EXPECT_THAT(found_, IsEmpty());
  EXPECT_THAT(notes_,
              ElementsAre(AllOf(HasSubstr("cannot read the digest of the image"), HasSubstr("status 404"),
                                HasSubstr("run without a lookup (needed by a)"))));
}

// ---- Credentials

TEST_F(KubernetesImages, TheCredentialsOfDockersConfigurationAreUsed) {
  requires_login();
  docker_.write("config.json",
                json{{"auths", {{registry_.host(), {{"auth", encode_base64(k_account)}}}}}}.dump());
  EXPECT_THAT(prepare({trial()}), IsEmpty());
  EXPECT_EQ(requests("/secrets/"), 0U);
}

TEST_F(KubernetesImages, TheSecretsOfThePodAreUsedIfDockersCredentialsAreRefused) {
  requires_login();
  docker_.write("config.json", json{{"auths", {{registry_.host(), {{"auth", "dTpvbGQ="}}}}}}.dump());
  add_secret("old", "u:older");
  add_secret("valid");
  Trial one = trial();
  one.container.kubernetes =
      R"({"pod": {"imagePullSecrets": [{"name": "absent"}, {"name": "old"}, {"name": "valid"}]}})";
  EXPECT_THAT(prepare({one}), IsEmpty());
  EXPECT_EQ(requests("/serviceaccounts/"), 0U) << "the Pod names Secrets itself";
}

TEST_F(KubernetesImages, TheSecretsOfTheServiceAccountAreUsed) {
  requires_login();
  add_secret("valid");
  objects_["serviceaccounts/default"] = R"({"imagePullSecrets": [{"name": "valid"}]})";
  EXPECT_THAT(prepare({trial()}), IsEmpty());
  objects_.erase("serviceaccounts/default");
  objects_["serviceaccounts/lab"] = R"({"imagePullSecrets": [{"name": "valid"}]})";
  EXPECT_THAT(prepare({trial()}), SizeIs(1));
  Trial one = trial();
  one.container.kubernetes = R"({"pod": {"serviceAccountName": "lab"}})";
  EXPECT_THAT(prepare({one}), IsEmpty());
}

TEST_F(KubernetesImages, NoMessageContainsCredentials) {
  requires_login();
  docker_.write("config.json",
                json{{"auths", {{registry_.host(), {{"auth", "dXNlcjp0b3BzZWNyZXQ="}}}}}}.dump());
  add_secret("wrong", "other:alsosecret");
  objects_["serviceaccounts/default"] = R"({"imagePullSecrets": [{"name": "wrong"}]})";
  EXPECT_THAT(prepare({trial()}),
              ElementsAre(AllOf(HasSubstr("refuses the credentials"), Not(HasSubstr("secret")),
                                Not(HasSubstr("dXNlcjp0b3BzZWNyZXQ=")))));
}

TEST_F(KubernetesImages, AMissingCredentialProgramIsNamedIfTheRegistryRefuses) {
  docker_.write("config.json", R"({"credsStore": "combu-absent"})");
  EXPECT_THAT(prepare({trial()}), IsEmpty()) << "as for Docker, there are no credentials";
  requires_login();
  EXPECT_THAT(prepare({trial()}),
              ElementsAre(HasSubstr("also, docker-credential-combu-absent cannot be run")));
}

// ---- Digests of Pods

TEST_F(KubernetesImages, TheDigestOfAPodIsThatOfPrepareIfTheImageIsTheSame) {
  EXPECT_THAT(prepare({cached()}), IsEmpty());
  const std::string image = registry_.image();
  const std::string name = registry_.image("@");
  for (const std::string& digest : {name + index_, name + amd_, amd_})
    EXPECT_EQ(digest_of_pod(image, digest), index_) << digest;
  const std::string other = name + "sha256:" + std::string(64, '1');
  EXPECT_EQ(digest_of_pod(image, other), other) << "the tag has moved";
  EXPECT_EQ(digest_of_pod(image, name + arm_), name + arm_);
  EXPECT_EQ(digest_of_pod("another", amd_), amd_);
}

}  // namespace
}  // namespace combu::wire
