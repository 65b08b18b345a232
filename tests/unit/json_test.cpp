#include "combu/json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

namespace combu {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::SizeIs;

std::string nested(std::size_t depth, const std::string& open = "[", const std::string& close = "]") {
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (std::size_t i = 0; i < depth; ++i) text += close;
  return text;
}

std::string fault_of(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const json::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Json, AllKindsOfValuesAreRead) {
  const std::string text =
      R"({"null":null,"truth":[true,false],"numbers":[0,-1,18446744073709551615,1.5e300],)"
      R"("text":"\u00e4\n\"","empty":[{},[]],"a":{"b":{"c":1}}})";
  EXPECT_EQ(parse_json(text), json::parse(text));
  EXPECT_EQ(parse_ordered_json(text), nlohmann::ordered_json::parse(text));
  EXPECT_EQ(json_text(parse_ordered_json(R"({"b":1,"a":[2,{"d":3,"c":4}]})")),
            R"({"b":1,"a":[2,{"d":3,"c":4}]})");
  EXPECT_EQ(parse_json("7"), 7);
}

TEST(Json, TheLastOfSeveralEqualNamesWins) {
  EXPECT_EQ(json_text(parse_json(R"({"a":[1],"b":2,"a":{"c":3}})")), R"({"a":{"c":3},"b":2})");
  EXPECT_EQ(json_text(parse_ordered_json(R"({"b":1,"a":2,"b":3})")), R"({"b":3,"a":2})");
}

TEST(Json, TextThatIsNotJsonIsAnError) {
  for (const std::string text :
       {"", "{", "[1,]", "{\"a\"}", "1 2", "nul", "\"\xff\"", "[1e999]", "// no\n1"}) {
    EXPECT_THAT(fault_of([&] { (void)parse_json(text); }), HasSubstr("json.exception")) << text;
    EXPECT_THAT(fault_of([&] { (void)parse_ordered_json(text); }), HasSubstr("json.exception")) << text;
    EXPECT_TRUE(parse_json_or_discard(text).is_discarded()) << text;
  }
  EXPECT_EQ(parse_json_or_discard("[1]"), json::array({1}));
}

TEST(Json, MembersThatAreSkippedAreNull) {
  constexpr std::array<std::string_view, 2> k_names{"no", "none"};
  const auto read = [&](const std::string& text) { return json_text(parse_json_or_discard(text, k_names)); };
  EXPECT_EQ(read(R"([{"a":1,"no":{"a":[1,{"no":2}]},"b":{"no":[[]],"c":2}},{"no":1,"d":3}])"),
            R"([{"a":1,"b":{"c":2,"no":null},"no":null},{"d":3,"no":1}])");
  EXPECT_EQ(read(R"({"no":["]","\"]",{"}":"{"}],"a":"\"no\":[1]","b":{"no":{}}})"),
            R"({"a":"\"no\":[1]","b":{"no":null},"no":null})")
      << "texts have brackets and quotation marks";
  for (const std::string same :
       {R"({"a\"no":[1]})", R"({"also_no":[1]})", R"({"a":",no\":[1]"})", R"(["no","no"])", R"({"no":"no"})"})
    EXPECT_EQ(read(same), same);
  EXPECT_EQ(read(R"({"none":[{"no":[1]}],"a":{"none":{}},"ninone":[1],"no":[2]})"),
            R"({"a":{"none":null},"ninone":[1],"no":null,"none":null})");
  EXPECT_EQ(read(R"({"no": [1]})"), R"({"no":[1]})") << "with a blank, the member is parsed";
  for (const std::string text :
       {R"({"no":[1})", R"({"no":["]})", R"({"no":[)", R"({"no":)", R"({"no":[]]})", R"({"a":"x,"no":[]})"})
    EXPECT_TRUE(parse_json_or_discard(text, k_names).is_discarded()) << text;
  EXPECT_EQ(read(R"({"no":)" + nested(500'000, "[", "]") + "}"), R"({"no":null})");
  EXPECT_EQ(read(R"({"no":[x}})"), R"({"no":null})") << "errors in the skipped text are not found";
}

TEST(Json, CommentsAreIgnoredWhereTheyAreAllowed) {
  EXPECT_EQ(parse_json_with_comments("// one\n{\"a\": /* two */ 1}"), json({{"a", 1}}));
}

TEST(Json, ATextNestedTooDeepIsAnError) {
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    const std::string deepest = nested(k_json_depth_max, open, close);
    EXPECT_EQ(json_text(parse_json(deepest)), deepest);
    EXPECT_EQ(json_text(parse_ordered_json(deepest)), deepest);
    for (const std::size_t depth : {k_json_depth_max + 1, std::size_t{500'000}}) {
      const std::string deeper = nested(depth, open, close);
      const std::string fault = "nested deeper than 512 levels";
      EXPECT_EQ(fault_of([&] { (void)parse_json(deeper); }), fault);
      EXPECT_EQ(fault_of([&] { (void)parse_json_with_comments(deeper); }), fault);
      EXPECT_EQ(fault_of([&] { (void)parse_ordered_json(deeper); }), fault);
      EXPECT_TRUE(parse_json_or_discard(deeper).is_discarded());
    }
  }
}

TEST(Json, AnErrorsMessageIsShortForALongToken) {
  const std::string text = "[\"" + std::string(1'000'000, 'a') + "\xc3\xa4";
  EXPECT_THAT(fault_of([&] { (void)parse_json(text); }), SizeIs(testing::Le(310)));
  for (std::size_t length = 290; length < 300; ++length) {
    const std::string fault = fault_of([&] {
      std::string umlauts(length, 'a');
      for (int i = 0; i < 100; ++i) umlauts += "ä";
      (void)parse_json("\"" + umlauts);
    });
    EXPECT_EQ(json::parse(json(fault).dump()), fault) << "it must be UTF-8";
  }
}

TEST(Json, AMemberThatIsAbsentIsNull) {
  const json object = {{"a", {{"b", 1}}}};
  EXPECT_EQ(json_at(json_at(object, "a"), "b"), 1);
  EXPECT_TRUE(json_at(json_at(object, "x"), "b").is_null());
  EXPECT_THROW((void)json_at(json::array({1}), "a"), json::exception);
}

TEST(Json, AMemberIsFoundWhateverTheTypeOfTheValue) {
  const json value = {{"a", {{"b", {{"c", 1}}}}}, {"list", {1}}};
  EXPECT_EQ(member_of(value, "list"), json::array({1}));
  EXPECT_EQ(member_of(value, {"a", "b", "c"}), 1);
  EXPECT_EQ(member_of(value, {}), value);
  EXPECT_TRUE(member_of(value, "x").is_null());
  EXPECT_TRUE(member_of(value, {"x", "b", "c"}).is_null());
  EXPECT_TRUE(member_of(value, {"a", "b", "c", "d"}).is_null());
  for (const json& other : {json(), json(1), json("a"), json::array({value}), json(json::value_t::discarded)})
    EXPECT_TRUE(member_of(other, "a").is_null()) << other.type_name();
}

TEST(Json, ATextIsEmptyIfTheMemberIsNoString) {
  const json value = {{"a", "text"},      {"b", {{"c", "inner"}, {"d", 1}}},
                      {"list", {"text"}}, {"none", nullptr},
                      {"flag", true},     {"empty", ""}};
  EXPECT_EQ(text_of(value, "a"), "text");
  EXPECT_EQ(text_of(value, {"b", "c"}), "inner");
  for (const char* const name : {"b", "list", "none", "flag", "empty", "absent"})
    EXPECT_EQ(text_of(value, name), "") << name;
  EXPECT_EQ(text_of(value, {"b", "d"}), "");
  EXPECT_EQ(text_of(value, {"a", "c"}), "");
  for (const json& other : {json(), json(1), json("a"), json::array({"a"})})
    EXPECT_EQ(text_of(other, "a"), "") << other.type_name();
}

TEST(Json, AnElementIsFoundByTheTextOfAMember) {
  const json list = {1, {{"type", 2}}, {{"type", "a"}, {"n", 1}}, {{"type", "a"}, {"n", 2}}};
  EXPECT_EQ(member_of(element_of(list, "type", "a"), "n"), 1);
  EXPECT_TRUE(element_of(list, "type", "b").is_null());
  EXPECT_TRUE(element_of(json::array(), "type", "a").is_null());
  for (const json& other : {json(), json("a"), json({{"type", "a"}}), json({{"x", {{"type", "a"}}}})})
    EXPECT_TRUE(element_of(other, "type", "a").is_null()) << other.type_name();
}

TEST(Json, AnIntegerMustBeWholeAndInRange) {
  EXPECT_EQ(integer_of(json(7), 0, 10), 7);
  EXPECT_EQ(integer_of(json(-7), -10, 10), -7);
  EXPECT_EQ(integer_of(json(7.0), 0, 10), 7);
  for (const char* const text :
       {"11", "-1", "7.5", "1e300", "-1e300", "9223372036854775808", "18446744073709551615", "\"7\"", "null"})
    EXPECT_EQ(fault_of([&] { (void)integer_of(parse_json(text), 0, 10); }),
              "a value must be a whole number from 0 to 10")
        << text;
  const json object = {{"a", 7}, {"b", nullptr}};
  EXPECT_EQ(integer_at(object, "a", 0, 10), 7);
  EXPECT_EQ(integer_at(object, "b", 0, 10), 0);
  EXPECT_EQ(integer_at(object, "c", 0, 10), 0);
}

}  // namespace
}  // namespace combu
