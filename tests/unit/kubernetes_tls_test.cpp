// Connections by HTTPS: the server's certificate and the client's certificate.

#include "kubernetes_tls.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "kubernetes/api_client.hpp"
#include "kubernetes_fixture.hpp"

namespace combu::kubernetes {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

class TlsTest : public testing::Test {
 protected:
  [[nodiscard]] std::string url(const std::string& host = "127.0.0.1") const {
    return "https://" + host + ":" + std::to_string(server_.port());
  }
  // Returns settings that trust the server's authority.
  [[nodiscard]] Access trusting() const {
    Access access = access_to(url());
    access.cluster.authorities.text = authority_.pem();
    return access;
  }
  static std::string get(const Access& access) { return ApiClient(access).send({.target = "/x"}, {}).body; }
  static Error error_with(const Access& access) {
    return error_in([&] { (void)get(access); });
  }

  std::function<wire::Reply(const wire::Asked&)> answer_ = [](const wire::Asked&) {
    return wire::whole(200, "{}");
  };
  TestFolder folder_;
  Authority authority_;
  Certified client_ = authority_.issue("me");
  wire::ScriptedDaemon daemon_{[this](const wire::Asked& asked) { return answer_(asked); },
                               wire::ScriptedDaemon::Kind::tcp};
  TlsServer server_{daemon_, authority_.issue("server", "IP:127.0.0.1,DNS:kubernetes"), authority_};
};

TEST_F(TlsTest, TheAuthorityMayBeDataOrAFile) {
  EXPECT_EQ(get(trusting()), "{}");
  Access access = trusting();
  access.cluster.authorities = {.text = "", .file = folder_.write("ca.pem", authority_.pem())};
  EXPECT_EQ(get(access), "{}");
}

TEST_F(TlsTest, AServerOfAnotherAuthorityIsRefused) {
  Access access = trusting();
  access.account.token = "my-secret";
  access.cluster.authorities.text = Authority().pem();
  const Error error = error_with(access);
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.message(), HasSubstr("the certificate of the API server is not trusted: "));
  EXPECT_THAT(error.message(),
              HasSubstr("; correct certificate-authority or tls-server-name in the kubeconfig file"));
  access.cluster.authorities = {};
  EXPECT_EQ(error_with(access).kind(), ErrorKind::refused) << "the system trusts no authority of a test";
  EXPECT_THAT(daemon_.asked(), ElementsAre());
}

TEST_F(TlsTest, VerificationCanBeSkipped) {
  Access access = access_to(url("localhost"));
  access.cluster.skips_tls_verify = true;
  EXPECT_EQ(get(access), "{}");
}

TEST_F(TlsTest, AMissingAuthorityFileIsRefused) {
  Access access = trusting();
  access.cluster.authorities = {.text = "", .file = folder_.path("absent")};
  const Error error = error_with(access);
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_THAT(error.message(), HasSubstr(folder_.path("absent")));
}

TEST_F(TlsTest, TheCertificateMayHaveTheNameInTheSettings) {
  Access access = trusting();
  access.cluster.server = url("localhost");
  access.cluster.address = *parse_server_address(access.cluster.server);
  EXPECT_EQ(error_with(access).kind(), ErrorKind::refused) << "the certificate does not have this name";
  access.cluster.tls_server_name = "other";
  EXPECT_EQ(error_with(access).kind(), ErrorKind::refused);
  access.cluster.tls_server_name = "kubernetes";
  EXPECT_EQ(get(access), "{}");
  EXPECT_EQ(server_.clients().back().second, "kubernetes");
  EXPECT_THAT(daemon_.asked().at(0).head,
              HasSubstr("\r\nHost: localhost:" + std::to_string(server_.port()) + "\r\n"));
}

TEST_F(TlsTest, AClientCertificateMayBeDataOrAFile) {
  Access access = trusting();
  EXPECT_EQ(get(access), "{}");
  access.account.certificate.text = client_.certificate;
  access.account.key.text = client_.key;
  EXPECT_EQ(get(access), "{}");
  access.account.certificate = {.text = "", .file = folder_.write("me.pem", client_.certificate)};
  access.account.key = {.text = "", .file = folder_.write("key.pem", client_.key)};
  EXPECT_EQ(get(access), "{}");
  EXPECT_THAT(server_.clients(), ElementsAre(Pair("", ""), Pair("me", ""), Pair("me", "")));
}

TEST_F(TlsTest, AClientCertificateThatCannotBeUsedIsRefused) {
  const std::string junk = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n";
  for (const auto& [certificate, key] :
       {std::pair(client_.certificate, authority_.issue("other").key),
        std::pair(client_.certificate, client_.encrypted_key), std::pair(client_.certificate, junk),
        std::pair(junk, client_.key)}) {
    Access access = trusting();
    access.account.certificate.text = certificate;
    access.account.key.text = key;
    const Error error = error_with(access);
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_THAT(error.message(), HasSubstr("the client certificate of user lab of config cannot be used: "));
    EXPECT_THAT(error.message(), Not(HasSubstr("BEGIN")));
  }
}

TEST_F(TlsTest, ARenewedClientCertificateNeedsANewConnection) {
  const Certified second = authority_.issue("renewed");
  for (const auto& [number, certified] : {std::pair("1", client_), std::pair("2", second)}) {
    std::string status =
        R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{)";
    for (const auto& [name, pem] : {std::pair("clientCertificateData", certified.certificate),
                                    std::pair("clientKeyData", certified.key)}) {
      std::string escaped;
      for (const char letter : pem) escaped += letter == '\n' ? std::string("\\n") : std::string(1, letter);
      status += "\"" + std::string(name) + "\":\"" + escaped + "\",";
    }
    status.back() = '}';
    folder_.write(std::string(number) + ".json", status + "}");
  }
  // The plugin prints the second certificate after the first.
  Access access = trusting();
  access.account.exec =
      ExecPlugin{.command = folder_.program(
                     "login", "cd " + folder_.path("") + "; cat 1.json; [ ! -e 2.json ] || mv 2.json 1.json"),
                 .api_version = "client.authentication.k8s.io/v1"};
  answer_ = [this](const wire::Asked&) {
    return server_.clients().back().first == "renewed" ? wire::whole(200, "{}") : wire::whole(401, "");
  };
  ApiClient client(access);
  EXPECT_EQ(client.send({.target = "/x"}, {}).body, "{}");
  EXPECT_EQ(client.send({.target = "/y"}, {}).body, "{}");
  EXPECT_THAT(server_.clients(), ElementsAre(Pair("me", ""), Pair("renewed", "")));
}

TEST_F(TlsTest, AStreamByTlsEndsWithItsLastLine) {
  answer_ = [](const wire::Asked&) {
    return wire::ended(wire::stream({std::string(100'000, 'a') + "\n", "b\n"}, wire::Reply::Then::keep));
  };
  std::vector<std::size_t> sizes;
  ApiClient(trusting())
      .read("/w",
            {.on_line = [&](std::string_view line) { sizes.push_back(line.size()); },
             .silence_max = Seconds{600}},
            {});
  EXPECT_THAT(sizes, ElementsAre(100'000U, 1U));
}

}  // namespace
}  // namespace combu::kubernetes
