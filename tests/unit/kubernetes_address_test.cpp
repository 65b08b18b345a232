// Addresses of API servers, and the choice of a proxy.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kubernetes/server_address.hpp"
#include "kubernetes_fixture.hpp"

namespace combu::kubernetes {
namespace {

std::string parts_of(const std::string& url) {
  const auto address = parse_server_address(url);
  if (!address) return "none";
  return address->scheme + " " + address->host + " " + std::to_string(address->port) + " " + address->path;
}

TEST(ServerAddressTest, HasTheDefaultPortOfItsScheme) {
  EXPECT_EQ(parts_of("https://Api.Example:6443"), "https api.example 6443 ");
  EXPECT_EQ(parts_of("https://api.example/k8s/clusters/c-1/"), "https api.example 443 /k8s/clusters/c-1");
  EXPECT_EQ(parts_of("http://10.0.0.1"), "http 10.0.0.1 80 ");
  EXPECT_EQ(parts_of("https://[fd00::1]:6443/"), "https fd00::1 6443 ");
  EXPECT_EQ(parse_server_address("https://[fd00::1]:6443")->authority(), "[fd00::1]:6443");
  EXPECT_EQ(parse_server_address("https://api.example")->authority(), "api.example:443");
}

TEST(ServerAddressTest, OtherUrlsAreRefused) {
  for (const std::string url :
       {"", "api.example:6443", "ftp://api.example", "https://", "https://me:secret@api.example",
        "https://api.example/?a=b", "https://api.example/#a", "unix:///run/x"})
    EXPECT_EQ(parts_of(url), "none") << url;
}

std::string proxy_with(const std::string& server, const std::map<std::string, std::string>& variables) {
  return proxy_for(parse_server_address(server).value(), environment_of(variables));
}

TEST(ProxyTest, IsThatOfTheScheme) {
  const std::map<std::string, std::string> both{{"HTTPS_PROXY", "http://s:1"}, {"HTTP_PROXY", "http://p:2"}};
  EXPECT_EQ(proxy_with("https://api.example", both), "http://s:1");
  EXPECT_EQ(proxy_with("http://api.example", both), "http://p:2");
  EXPECT_EQ(proxy_with("https://api.example", {}), "");
  EXPECT_EQ(proxy_with("https://api.example", {{"https_proxy", "http://s:1"}}), "http://s:1");
  EXPECT_EQ(proxy_with("https://api.example", {{"HTTPS_PROXY", "a:1"}, {"https_proxy", "b:1"}}), "a:1");
  EXPECT_EQ(proxy_with("https://api.example", {{"ALL_PROXY", "a:1"}}), "") << "Go does not read ALL_PROXY";
}

TEST(ProxyTest, ServersOnThisMachineHaveNone) {
  for (const std::string server :
       {"https://localhost:6443", "https://127.0.0.1:6443", "https://127.9.9.9", "https://[::1]"})
    EXPECT_EQ(proxy_with(server, {{"HTTPS_PROXY", "p:1"}}), "") << server;
  EXPECT_EQ(proxy_with("https://128.0.0.1", {{"HTTPS_PROXY", "p:1"}}), "p:1");
}

TEST(ProxyTest, NoProxyHasTheRulesOfGo) {
  struct Case {
    std::string server;
    std::string no_proxy;
    bool is_direct;
  };
  for (const Case& each : std::vector<Case>{
           {"https://api.example", "*", true},
           {"https://api.example", "api.example", true},
           {"https://api.example", "API.example", true},
           {"https://api.example", "other, api.example ,", true},
           {"https://api.example", "example", true},
           {"https://api.example", ".example", true},
           {"https://api.example", "*.example", true},
           {"https://example", ".example", false},
           {"https://api.example", "pi.example", false},
           {"https://api.example", "", false},
           {"https://api.example:6443", "api.example:6443", true},
           {"https://api.example:6443", "api.example:443", false},
           {"https://10.1.2.3", "10.1.2.3", true},
           {"https://10.1.2.3", "10.1.2.30", false},
           {"https://10.1.2.3:6443", "10.1.2.3:6443", true},
           {"https://10.1.2.3", "10.1.0.0/16", true},
           {"https://10.2.2.3", "10.1.0.0/16", false},
           {"https://10.1.130.3", "10.1.128.0/17", true},
           {"https://10.1.2.3", "10.1.128.0/17", false},
           {"https://10.1.2.3", "0.0.0.0/0", true},
           {"https://10.1.2.3", "10.1.0.0/33", false},
           {"https://10.1.2.3", "10.1.0.0/x", false},
           {"https://api.example", "10.0.0.0/8", false},
           {"https://[fd00::1]", "fd00::/8", true},
           {"https://[fd00::1]", "fd00::1", true},
           {"https://[fd00::1]:6443", "[fd00::1]:6443", true},
           {"https://[fd00::1]:6443", "[fd00::1]:1", false},
           {"https://[fd00::1]", "10.0.0.0/8", false},
       })
    EXPECT_EQ(proxy_with(each.server, {{"HTTPS_PROXY", "p:1"}, {"NO_PROXY", each.no_proxy}}),
              each.is_direct ? "" : "p:1")
        << each.server << " " << each.no_proxy;
}

}  // namespace
}  // namespace combu::kubernetes
