#include "combu/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace combu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Line, ControlCharactersAndEscapeSequencesAreRemoved) {
  EXPECT_EQ(clean_line("red\x1b[31;1m is\tnot\nred\x07\x7f"), "red is not red");
  EXPECT_EQ(clean_line("\x1b]0;title\x07shown"), "shown");
  EXPECT_EQ(clean_line("\xc2\x9b"
                       "2J"),
            "2J");                      // U+009B is the one-character form of ESC [
  EXPECT_EQ(clean_line("a\xe2\x80\xae"  // NOLINT(misc-misleading-bidirectional): right-to-left override
                       "b"),
            "ab");
  EXPECT_EQ(clean_line("\xd8\x9c"), "");  // Arabic letter mark, a bidirectional control
  EXPECT_EQ(clean_line("ends in \x1b["), "ends in ");
}

TEST(Line, InvalidUtf8BecomesQuestionMarks) {
  EXPECT_EQ(clean_line("\xff\xfe ok \xc3"), "?? ok ?");
  EXPECT_EQ(clean_line("\xed\xa0\x80"), "???");  // half a surrogate pair
  EXPECT_EQ(clean_line("größe 実験 🚀"), "größe 実験 🚀");
}

TEST(Line, ALongLineIsCutBetweenCharacters) {
  EXPECT_EQ(cut_line("solver", 6), "solver");
  EXPECT_EQ(cut_line("solver", 5), "solv…");
  EXPECT_EQ(cut_line("実験実験", 8), "実験実験");
  EXPECT_EQ(cut_line("実験実験", 6), "実験…");
  EXPECT_EQ(cut_line("größe", 3), "gr…");
  EXPECT_EQ(cut_line("solver", 1), "…");
  EXPECT_EQ(cut_line("solver", 0), "");
}

TEST(Line, ALineCanBeCutInItsMiddle) {
  EXPECT_EQ(cut_middle("a-quite-long-name-17", 8), "a-qu…-17");
  EXPECT_EQ(cut_middle("a-quite-long-name-17", 7), "a-q…-17");
  EXPECT_EQ(cut_middle("solver", 6), "solver");
  EXPECT_EQ(cut_middle("実験実験", 7), "実…験");
  EXPECT_EQ(cut_middle("größe", 4), "gr…e");
  EXPECT_EQ(cut_middle("solver", 1), "…");
  EXPECT_EQ(cut_middle("solver", 0), "");
}

// ---- Names

TEST(Names, NumbersAreOrderedByTheirValue) {
  EXPECT_TRUE(is_before("solver-2", "solver-10"));
  EXPECT_FALSE(is_before("solver-10", "solver-2"));
  EXPECT_TRUE(is_before("a-2-9", "a-10-1"));
  EXPECT_TRUE(is_before("a", "a1"));
  EXPECT_TRUE(is_before("a01", "a1"));
  EXPECT_FALSE(is_before("a1", "a01"));
  EXPECT_FALSE(is_before("same-1", "same-1"));
}

TEST(Names, ConsecutiveNamesBecomeRanges) {
  EXPECT_THAT(ranges({"solver-1", "solver-3", "loader", "solver-2", "solver-7"}),
              ElementsAre("solver-[1-3]", "solver-7", "loader"));
  EXPECT_THAT(ranges({"fold-1-rep-1", "fold-1-rep-2", "fold-2-rep-1"}),
              ElementsAre("fold-1-rep-[1-2]", "fold-2-rep-1"));
  EXPECT_THAT(ranges({"t08", "t09", "t10"}), ElementsAre("t[08-10]"));
  EXPECT_THAT(ranges({"t10", "t11", "t08", "t09"}), ElementsAre("t[08-11]"));
  EXPECT_THAT(ranges({"t8", "t9", "t10"}), ElementsAre("t[8-10]"));
  EXPECT_THAT(ranges({"t098", "t099", "t100", "t99", "t101x"}), ElementsAre("t[098-100]", "t99", "t101x"));
  EXPECT_THAT(ranges({"t9", "t09", "t10"}), ElementsAre("t9", "t[09-10]"));
  EXPECT_THAT(ranges({"x123456789012345678901", "x9"}), ElementsAre("x123456789012345678901", "x9"));
}

TEST(NumberOf, TheNounAgreesWithTheCount) {
  EXPECT_EQ(number_of(1, "run"), "1 run");
  EXPECT_EQ(number_of(0, "run"), "0 runs");
  EXPECT_EQ(number_of(3, "old container"), "3 old containers");
  EXPECT_EQ(number_of(1, "dependency", "dependencies"), "1 dependency");
  EXPECT_EQ(number_of(2, "dependency", "dependencies"), "2 dependencies");
}

TEST(ShellWord, AWordIsQuotedIfNeeded) {
  EXPECT_EQ(shell_word("/lab/experiment.jsonnet"), "/lab/experiment.jsonnet");
  EXPECT_EQ(shell_word("my file's"), "'my file'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(ShellWord, HiddenBytesAreWrittenAsOctalNumbers) {
  EXPECT_EQ(shell_word("a\x1b[2Jb"), R"sh('a'"$(printf '\033')"'[2Jb')sh");
  EXPECT_EQ(shell_word("\xc2\x9b"), R"sh(''"$(printf '\302\233')"'')sh");
  EXPECT_EQ(shell_word("\x1b\r"), R"sh(''"$(printf '\033\015')"'')sh");
  EXPECT_EQ(shell_word("\x9b"), R"sh(''"$(printf '\233')"'')sh");
  EXPECT_EQ(shell_word("größe\n"), "'größe\n'");
}

// ---- Text with colours

TEST(ColouredText, ColoursAndReturnsStayAndTheRestIsEscaped) {
  ColouredText text;
  EXPECT_EQ(text.add("\x1b[1;31mred\x1b[m\t1%\r2%\n"), "\x1b[1;31mred\x1b[m\t1%\r2%\x1b[0m\n");
  EXPECT_EQ(text.add("\x1b[2J\x1b]0;title\a\xc2\x9b"
                     "31m\xff\xe2\x80\xae\n"),
            "\\u001b[2J\\u001b]0;title\\u0007\\u009b31m\\xff\\u202e\n");
  EXPECT_EQ(text.end(), "");
}

TEST(ColouredText, ColoursAreResetAtTheEndOfALineAndOfTheText) {
  ColouredText text;
  EXPECT_EQ(text.add("\x1b[31mone\ntwo\n"), "\x1b[31mone\x1b[0m\ntwo\n");
  EXPECT_EQ(text.add("\x1b[31mthree"), "\x1b[31mthree");
  EXPECT_EQ(text.end(), "\x1b[0m");
}

TEST(ColouredText, IncompleteSequencesAndCharactersAreBuffered) {
  ColouredText text;
  EXPECT_EQ(text.add("a\x1b"), "a");
  EXPECT_EQ(text.add("["), "");
  EXPECT_EQ(text.add("3"), "");
  EXPECT_EQ(text.add("1m\xc3"), "\x1b[31m");
  EXPECT_EQ(text.add("\xb6"), "ö");
  EXPECT_EQ(text.add("\x1b["), "");
  EXPECT_EQ(text.end(), "\\u001b[\x1b[0m");
  EXPECT_EQ(ColouredText().add("\x1b[" + std::string(100, '1')), "\\u001b[" + std::string(100, '1'));
}

TEST(ColouredText, AnOverwrittenLineKeepsItsPrefix) {
  ColouredText text("a | ");
  EXPECT_EQ(text.add("a | 1%\r2%\r\r\n"), "a | 1%\ra | 2%\r\r\n");
  EXPECT_EQ(text.add("a | 3%\r"), "a | 3%");
  EXPECT_EQ(text.add("b | \n"), "\ra | b | \n");
}

}  // namespace
}  // namespace combu
