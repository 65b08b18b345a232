#include "combu/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

template nlohmann::basic_json<>::basic_json(const nlohmann::json&);
template nlohmann::basic_json<>::basic_json(std::initializer_list<nlohmann::detail::json_ref<nlohmann::json>>,
                                            bool, nlohmann::json::value_t);
template nlohmann::basic_json<nlohmann::ordered_map>::basic_json(const nlohmann::ordered_json&);
template nlohmann::basic_json<nlohmann::ordered_map>::basic_json(
    std::initializer_list<nlohmann::detail::json_ref<nlohmann::ordered_json>>, bool,
    nlohmann::ordered_json::value_t);

namespace combu {
namespace {

class JsonFault final : public nlohmann::json::exception {
 public:
  explicit JsonFault(const std::string& what) : exception(k_id, what.c_str()) {}

 private:
  static constexpr int k_id = 501;  // the id of "other errors" in nlohmann's documentation of exceptions
};

// Builds the value of a JSON text. Replaces nlohmann's builder, which has no depth limit.
template <class Json>
class Builder {
 public:
  // NOLINTBEGIN(readability-redundant-typename): Clang before 16 needs it
  using number_integer_t = typename Json::number_integer_t;
  using number_unsigned_t = typename Json::number_unsigned_t;
  using number_float_t = typename Json::number_float_t;
  using string_t = typename Json::string_t;
  using binary_t = typename Json::binary_t;
  // NOLINTEND(readability-redundant-typename)

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(number_integer_t value) { return put(value); }
  bool number_unsigned(number_unsigned_t value) { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) { return put(value); }
  bool string(string_t& value) { return put(std::move(value)); }
  bool binary(binary_t& /*value*/) { return false; }  // JSON has no binary values

  bool start_object(std::size_t /*elements*/) { return open(Json::object()); }
  bool start_array(std::size_t /*elements*/) { return open(Json::array()); }
  bool key(string_t& name) {
    member_ = &(*open_.back())[std::move(name)];
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  template <typename Exception>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Exception& error) {
    // nlohmann's message contains the invalid token, which may be as long as the text.
    constexpr std::size_t k_message_max = 300;
    const std::string what = error.what();
    if (what.size() <= k_message_max) throw error;
    std::size_t end = k_message_max;
    while ((static_cast<unsigned char>(what[end]) & 0xC0U) == 0x80U)
      --end;  // do not cut within a UTF-8 character
    throw JsonFault(what.substr(0, end) + "…");
  }

  [[nodiscard]] Json value() && { return std::move(root_); }

 private:
  Json& place(Json&& value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_object()) return *member_ = std::move(value);
    auto& elements = parent.template get_ref<typename Json::array_t&>();
    return elements.emplace_back(std::move(value));
  }
  bool put(Json&& value) {
    place(std::move(value));
    return true;
  }
  bool open(Json&& value) {
    if (open_.size() == k_json_depth_max)
      throw JsonFault("nested deeper than " + std::to_string(k_json_depth_max) + " levels");
    open_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json root_;
  std::vector<Json*> open_;  // open arrays and objects, outermost first
  Json* member_ = nullptr;   // member of the innermost object to which the next value belongs
};

enum class Comments { refused, ignored };

template <class Json>
Json parse(std::string_view text, Comments comments = Comments::refused) {
  Builder<Json> builder;
  Json::sax_parse(text.begin(), text.end(), &builder, Json::input_format_t::json, /*strict=*/true,
                  comments == Comments::ignored);
  return std::move(builder).value();
}

// Returns the size of the array or object with which the text begins; npos if it has no end.
std::size_t size_of_value(std::string_view text) {
  std::size_t depth = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char byte = text[at];
    if (byte == '[' || byte == '{') {
      ++depth;
    } else if (byte == ']' || byte == '}') {
      if (--depth == 0) return at + 1;
    } else if (byte == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
    }
  }
  return std::string_view::npos;
}

// Replaces each array and object that directly follows `{"NAME":` or `,"NAME":` by null, for each name. In
// valid JSON, no letter follows the closing quotation mark of a string, so the quotation mark before the name
// opens a string.
std::string with_nulls(std::string_view text, std::span<const std::string_view> names) {
  constexpr std::string_view k_end = "\":";
  const auto is_skipped = [&](std::string_view before) {
    return std::ranges::any_of(names, [&](std::string_view name) {
      if (!before.ends_with(name)) return false;
      const std::string_view opening = before.substr(0, before.size() - name.size());
      return opening.ends_with(R"({")") || opening.ends_with(R"(,")");
    });
  };
  std::string shorter;
  shorter.reserve(text.size());
  std::size_t from = 0;
  for (std::size_t at = text.find(k_end); at != std::string_view::npos; at = text.find(k_end, at)) {
    const std::size_t name_end = at;
    at += k_end.size();
    if (at == text.size()) break;
    if ((text[at] != '[' && text[at] != '{') || !is_skipped(text.substr(0, name_end))) continue;
    const std::size_t size = size_of_value(text.substr(at));
    if (size == std::string_view::npos) break;
    shorter.append(text, from, at - from).append("null");
    from = at += size;
  }
  return shorter.append(text, from);
}

const nlohmann::json& absent() {
  static const nlohmann::json k_absent;
  return k_absent;
}

}  // namespace

nlohmann::json parse_json(std::string_view text) {
  return parse<nlohmann::json>(text);
}

nlohmann::json parse_json_with_comments(std::string_view text) {
  return parse<nlohmann::json>(text, Comments::ignored);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text) {
  return parse<nlohmann::ordered_json>(text);
}

nlohmann::json parse_json_or_discard(std::string_view text, std::span<const std::string_view> skipped) {
  try {
    return skipped.empty() ? parse<nlohmann::json>(text) : parse<nlohmann::json>(with_nulls(text, skipped));
  } catch (const nlohmann::json::exception&) {
    nlohmann::json discarded(nlohmann::json::value_t::discarded);
    return discarded;
  }
}

const nlohmann::json& json_at(const nlohmann::json& object, const char* name) {
  if (object.is_null()) return absent();
  const auto& members = object.get_ref<const nlohmann::json::object_t&>();
  const auto found = members.find(name);
  return found == members.end() ? absent() : found->second;
}

std::int64_t integer_of(const nlohmann::json& value, std::int64_t least, std::int64_t most) {
  constexpr double k_beyond = 9223372036854775808.0;  // 2^63
  std::optional<std::int64_t> number;
  if (value.is_number_unsigned()) {
    if (const auto it = value.get<std::uint64_t>(); std::in_range<std::int64_t>(it))
      number = static_cast<std::int64_t>(it);
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const auto it = value.get<double>();
    if (it >= -k_beyond && it < k_beyond && it == std::trunc(it)) number = static_cast<std::int64_t>(it);
  }
  if (number && *number >= least && *number <= most) return *number;
  throw JsonFault("a value must be a whole number from " + std::to_string(least) + " to " +
                  std::to_string(most));
}

std::int64_t integer_at(const nlohmann::json& object, const char* name, std::int64_t least,
                        std::int64_t most) {
  const nlohmann::json& value = json_at(object, name);
  return value.is_null() ? 0 : integer_of(value, least, most);
}

const nlohmann::json& member_of(const nlohmann::json& value, std::string_view name) {
  const auto* const members = value.get_ptr<const nlohmann::json::object_t*>();
  if (members == nullptr) return absent();
  const auto found = members->find(name);
  return found == members->end() ? absent() : found->second;
}

const nlohmann::json& member_of(const nlohmann::json& value, std::initializer_list<std::string_view> names) {
  const nlohmann::json* at = &value;
  for (const std::string_view name : names) at = &member_of(*at, name);
  return *at;
}

std::string_view text_of(const nlohmann::json& value, std::string_view name) {
  return text_of(value, {name});
}

std::string_view text_of(const nlohmann::json& value, std::initializer_list<std::string_view> names) {
  const auto* const text = member_of(value, names).get_ptr<const std::string*>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

const nlohmann::json& element_of(const nlohmann::json& list, std::string_view name, std::string_view text) {
  if (!list.is_array()) return absent();
  const auto found = std::ranges::find_if(
      list, [&](const nlohmann::json& element) { return text_of(element, name) == text; });
  return found == list.end() ? absent() : *found;
}

std::string json_text(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_text(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string indented_json(const nlohmann::json& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace combu
