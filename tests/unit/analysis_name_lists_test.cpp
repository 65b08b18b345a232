#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "combu/analysis.hpp"
#include "error_of.hpp"

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(NamesIn, NamesAreSeparatedByCommasOrQuoted) {
  EXPECT_THAT(names_in({"loss,acc", R"("a,b",'c"d')"}, "--metric"),
              ElementsAre("loss", "acc", "a,b", "c\"d"));
  const auto fault = [](const std::vector<std::string>& lists) {
    const auto error = test::error_of([&] { (void)names_in(lists, "--metric"); });
    EXPECT_EQ(error->kind(), ErrorKind::invalid);
    EXPECT_EQ(error->subject(), "--metric");
    return error->message();
  };
  EXPECT_THAT(fault({"loss,,acc"}), HasSubstr("one name is empty"));
  EXPECT_THAT(fault({"loss", "acc,loss"}), HasSubstr("`loss` is named twice"));
  EXPECT_THAT(fault({"\"loss"}), HasSubstr("begins with a quote"));
  EXPECT_THAT(fault({"\"loss\"x"}), HasSubstr("begins with a quote"));
}

}  // namespace
}  // namespace combu
