// Tests of where the keys, the region and the endpoint of S3 come from.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "outputs/s3_account.hpp"
#include "s3_bucket.hpp"

namespace combu {
namespace {

namespace fs = std::filesystem;

using test::S3;
using testing::HasSubstr;

class S3Account : public S3 {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories(folder_.path() + "/.aws");
    std::ofstream(folder_.path() + "/.aws/" + name) << text;
  }
  [[nodiscard]] outputs::S3Account find() const { return outputs::find_s3_account(caller_); }
  std::string refusal() {
    const auto fault = fault_of([&] { (void)find(); });
    return fault ? fault->what() : "";
  }
};

TEST_F(S3Account, TheEnvironmentComesFirst) {
  write("credentials", "[default]\naws_access_key_id = of-file\naws_secret_access_key = of-file\n");
  variables_["AWS_SESSION_TOKEN"] = "token";
  variables_["AWS_DEFAULT_REGION"] = "eu-west-3";
  EXPECT_EQ(find().key, "the-key");
  EXPECT_EQ(find().token, "token");
  EXPECT_EQ(find().region, "eu-west-3");
  variables_["AWS_REGION"] = "eu-west-1";
  EXPECT_EQ(find().region, "eu-west-1");
  variables_.erase("AWS_SECRET_ACCESS_KEY");
  EXPECT_EQ(refusal(), "AWS_SECRET_ACCESS_KEY: must be set, because AWS_ACCESS_KEY_ID is set");
}

TEST_F(S3Account, AProfileIsFoundInBothFiles) {
  write("credentials",
        "# keys\n[default]\naws_access_key_id=of-default\naws_secret_access_key=secret\n"
        "[lab]\naws_access_key_id = of-lab\naws_secret_access_key = a=b\naws_session_token = t\n");
  write("config",
        "[default]\nregion = eu-central-1\n[profile lab]\nregion = eu-north-1\nservices = own\n"
        "endpoint_url = http://all:1\n[services own]\ndynamodb =\n  endpoint_url = http://other:3\n"
        "s3 =\n  endpoint_url = http://s3:2/\n[profile sso]\nsso_session = x\n");
  variables_.clear();
  EXPECT_EQ(find().key, "of-default");
  EXPECT_EQ(find().region, "eu-central-1");
  EXPECT_EQ(find().endpoint, "");
  variables_["AWS_PROFILE"] = "lab";
  EXPECT_EQ(find().key, "of-lab");
  EXPECT_EQ(find().secret, "a=b");
  EXPECT_EQ(find().token, "t");
  EXPECT_EQ(find().region, "eu-north-1");
  EXPECT_EQ(find().endpoint, "http://s3:2");
  EXPECT_EQ(find().source, "the AWS profile `lab`");
  variables_["AWS_ENDPOINT_URL"] = "http://env:4";
  EXPECT_EQ(find().endpoint, "http://env:4");
  variables_["AWS_ENDPOINT_URL_S3"] = "http://env:5";
  EXPECT_EQ(find().endpoint, "http://env:5");
  variables_["AWS_PROFILE"] = "nobody";
  EXPECT_EQ(refusal(), "the AWS profile `nobody`: is neither in ~/.aws/credentials nor in ~/.aws/config");
  variables_["AWS_PROFILE"] = "sso";
  EXPECT_THAT(refusal(), HasSubstr("aws configure export-credentials"));
}

TEST_F(S3Account, TheErrorForMissingKeysSaysHowToSetThem) {
  variables_.clear();
  EXPECT_EQ(refusal(),
            "S3: no keys are given: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in "
            "~/.aws/credentials");
}

TEST_F(S3Account, AnEndpointMustBeAnAddress) {
  for (const std::string endpoint :
       {"127.0.0.1:9000", "ftp://x", "http://me:pass@x", "http://x?y", "http://x y"}) {
    variables_["S3_ENDPOINT_URL"] = endpoint;
    EXPECT_EQ(refusal(),
              "the S3 endpoint: must be an address such as https://s3.example.com or http://127.0.0.1:9000");
  }
}

TEST_F(S3Account, AnEndpointMayHaveEitherScheme) {
  for (const std::string endpoint : {"http://127.0.0.1:9000", "https://s3.example.com/path"}) {
    variables_["S3_ENDPOINT_URL"] = endpoint + "//";
    EXPECT_EQ(find().endpoint, endpoint);
  }
}

TEST_F(S3Account, AnEmptyVariableCountsAsUnset) {
  write("credentials", "[default]\naws_access_key_id = k\naws_secret_access_key = s\nregion = eu-west-2\n");
  for (const std::string name : {"AWS_ACCESS_KEY_ID", "AWS_REGION", "S3_ENDPOINT_URL", "AWS_PROFILE"})
    variables_[name] = "";
  EXPECT_EQ(find().key, "k");
  EXPECT_EQ(find().region, "eu-west-2");
  EXPECT_EQ(find().endpoint, "");
}

TEST_F(S3Account, TheDefaultRegionIsUsEast1) {
  EXPECT_EQ(find().region, "us-east-1");
}

TEST_F(S3Account, AFileIsParsedAsAmazonsToolsParseIt) {
  write("credentials",
        "  \n; a comment\n#[default]\n[ lab ]\nno value\n;aws_access_key_id = commented\n"
        "; above =\n  aws_access_key_id = k\n# above =\n  aws_secret_access_key = indented\n");
  variables_ = {{"AWS_DEFAULT_PROFILE", "lab"}};
  EXPECT_EQ(find().key, "k");
  EXPECT_EQ(find().secret, "indented");
  variables_["AWS_PROFILE"] = "default";
  EXPECT_THAT(refusal(), HasSubstr("is neither in")) << "it is a comment";
}

TEST_F(S3Account, NestedValuesBelongToTheirKey) {
  write("config",
        "[default]\naws_access_key_id = k\naws_secret_access_key = s\ns3 =\n  region = nested\n"
        "services = own\nendpoint_url = http://all:1\n[services own]\ndynamodb =\n"
        "  endpoint_url = http://other:2\n");
  variables_.clear();
  EXPECT_EQ(find().region, "us-east-1");
  EXPECT_EQ(find().endpoint, "http://all:1") << "of a service that is not named";
}

TEST_F(S3Account, AProfileMustHaveBothKeys) {
  variables_.clear();
  for (const std::string half : {"aws_access_key_id = k", "aws_secret_access_key = s", ""}) {
    write("credentials", "[default]\n" + half + "\n");
    EXPECT_THAT(refusal(), HasSubstr("must contain aws_access_key_id and aws_secret_access_key")) << half;
  }
  write("credentials", "");
  write("config", "[default]\n");
  EXPECT_THAT(refusal(), HasSubstr("must contain aws_access_key_id and aws_secret_access_key"));
}

TEST_F(S3Account, VariablesCanSetThePathsOfTheFiles) {
  write("keys", "[default]\naws_access_key_id = k\naws_secret_access_key = s\n");
  write("settings", "[default]\nregion = eu-south-1\nca_bundle = /of/profile\n");
  variables_ = {{"AWS_SHARED_CREDENTIALS_FILE", folder_.path() + "/.aws/keys"},
                {"AWS_CONFIG_FILE", folder_.path() + "/.aws/settings"}};
  EXPECT_EQ(find().key, "k");
  EXPECT_EQ(find().region, "eu-south-1");
  EXPECT_EQ(find().authorities, "/of/profile");
  variables_["AWS_CA_BUNDLE"] = "/of/environment";
  EXPECT_EQ(find().authorities, "/of/environment");
}

}  // namespace
}  // namespace combu
