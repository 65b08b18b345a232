#include <gtest/gtest.h>

#include <string>

#include "combu/jsonnet.hpp"

namespace combu {
namespace {

std::string put(const std::string& source) {
  return put_identifier(source, RunId("r1"));
}

TEST(PutIdentifier, AcceptsEitherQuoteAnySpacingAndAnyName) {
  EXPECT_EQ(put("local uuid = \"UUID\";"), "local uuid = \"r1\";");
  EXPECT_EQ(put("local uuid='UUID';"), "local uuid='r1';");
  EXPECT_EQ(put("local\n\t_Run2\n=\r\n \"UUID\" \n;"), "local\n\t_Run2\n=\r\n \"r1\" \n;");
  EXPECT_EQ(put("local /* why */ u // x\n = # y\n 'UUID' /**/ ;"),
            "local /* why */ u // x\n = # y\n 'r1' /**/ ;");
  EXPECT_EQ(put("local a = 'UUID'; local b = 'UUID'; a"), "local a = 'r1'; local b = 'r1'; a");
}

TEST(PutIdentifier, ReplacesInAListOfBinds) {
  EXPECT_EQ(put("local a = 1, u = 'UUID', c = 3; u"), "local a = 1, u = 'r1', c = 3; u");
  EXPECT_EQ(put("local f(x, y) = { z: [x, y] }, u = 'UUID'; u"),
            "local f(x, y) = { z: [x, y] }, u = 'r1'; u");
  EXPECT_EQ(put("local a = local b = 2; b, u = 'UUID'; u"), "local a = local b = 2; b, u = 'r1'; u");
  EXPECT_EQ(put("local a = assert true; 1, u = 'UUID'; u"), "local a = assert true; 1, u = 'r1'; u");
  EXPECT_EQ(put("{ local u = 'UUID', a: u }"), "{ local u = 'r1', a: u }");
  EXPECT_EQ(put("{ a: u, local u = 'UUID' }"), "{ a: u, local u = 'r1' }");
}

TEST(PutIdentifier, LeavesOtherTextUnchanged) {
  for (const std::string source : {
           "",
           "UUID",
           "\"UUID\"",
           "{ a: \"UUID\", b: 'UUID' }",
           "local u = 'UUID' + 'x'; u",
           "local u = ('UUID'); u",
           "local u == 'UUID'; u",
           "local f(x) = 'UUID'; f",
           "local u = 'uuid'; u",
           "local u = 'UUID ';",
           "f(a, u='UUID', b)",
           "local g(u='UUID', v=1) = u; g",
           "nonlocal u = 'UUID';",
           "// local u = 'UUID';",
           "# local u = 'UUID';",
           "/* local u = 'UUID'; */",
           "/* unterminated local u = 'UUID';",
           "'local u = \"UUID\";'",
           R"("a \" local u = 'UUID'; ")",
           "@'it''s local u = \"UUID\";'",
           "@\"local u = 'UUID';",
           "|||\n  local u = 'UUID';\n\n  local v = 'UUID';\n||| + 'a'",
           "local u = 'UUID",
           "local u = 'UUID'",
           "local u = 'UUID\\",
           "local",
           "local u",
           "local u =",
           "|||",
           "|||\n",
           "]})]; local",
       }) {
    EXPECT_EQ(put(source), source);
  }
}

TEST(PutIdentifier, ContinuesAfterStringsAndComments) {
  EXPECT_EQ(put("local t = |||\n  a\n|||; local u = 'UUID';"), "local t = |||\n  a\n|||; local u = 'r1';");
  EXPECT_EQ(put("local t = @'a\\', u = 'UUID';"), "local t = @'a\\', u = 'r1';");
  EXPECT_EQ(put("local t = 'a\\\\'; local u = 'UUID';"), "local t = 'a\\\\'; local u = 'r1';");
}

TEST(PutIdentifier, ReplacesAHundredThousandIdentifiers) {
  std::string source;
  std::string wanted;
  for (int i = 0; i < 100000; ++i) {
    source += "[local u='UUID';";
    wanted += "[local u='r1';";
  }
  EXPECT_EQ(put(source), wanted);
}

}  // namespace
}  // namespace combu
