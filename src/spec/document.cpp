#include "spec/document.hpp"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace combu::spec {

namespace {

// Maximum depth of nested arrays and objects, because the functions that print or free a value are recursive.
constexpr std::size_t k_depth_max = 256;
// The text has two more levels around each trial: the outer object and its array of trials.
static_assert(k_depth_max + 2 < k_json_depth_max);

// Number of fields for which the reader reserves memory in each trial. An ordered map copies its values when
// it grows, and most trials have few fields.
constexpr std::size_t k_fields_usual = 16;

class Splitter {
 public:
  using number_integer_t = Json::number_integer_t;
  using number_unsigned_t = Json::number_unsigned_t;
  using number_float_t = Json::number_float_t;
  using string_t = Json::string_t;
  using binary_t = Json::binary_t;

  explicit Splitter(DocumentSink& sink) : sink_(sink) {}

  bool null() { return scalar(Json(nullptr)); }
  bool boolean(bool value) { return scalar(Json(value)); }
  bool number_integer(number_integer_t value) { return scalar(Json(value)); }
  bool number_unsigned(number_unsigned_t value) { return scalar(Json(value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) {
    // Jsonnet has only one type of number, so 3.0 means the whole number 3. Whole numbers up to k_exact_max
    // are exact as a double.
    constexpr double k_exact_max = 9007199254740992.0;
    const bool integral = std::abs(value) <= k_exact_max && std::trunc(value) == value;
    return scalar(integral ? Json(static_cast<std::int64_t>(value)) : Json(value));
  }
  bool string(string_t& value) { return scalar(Json(std::move(value))); }
  bool binary(binary_t& /*value*/) { return false; }

  bool start_object(std::size_t /*elements*/) {
    if (form_ == DocumentForm::none) {
      form_ = DocumentForm::object;
      return true;
    }
    Json object = Json::object();
    object.get_ref<Json::object_t&>().reserve(k_fields_usual);
    return open(std::move(object));
  }
  bool start_array(std::size_t /*elements*/) {
    const bool whole = form_ == DocumentForm::none;
    if (whole) form_ = DocumentForm::array;
    if (whole || (stack_.empty() && !in_trials_ && top_key_ == "trials")) {
      in_trials_ = true;
      sink_.trials_begin(form_);
      return true;
    }
    return open(Json::array());
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(string_t& name) {
    if (stack_.empty()) {
      top_key_ = std::move(name);
    } else {
      // Appends the key directly, because operator[] would search all existing keys.
      stack_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr);
    }
    return true;
  }

  template <typename Exception>
  bool parse_error(std::size_t /*position*/, const std::string& /*token*/, const Exception& error) {
    const std::string_view what = error.what();
    const auto prefix = what.find("] ");
    fault_ = prefix == std::string_view::npos ? what : what.substr(prefix + 2);
    return false;
  }

  [[nodiscard]] DocumentEnd end() && { return {form_, std::move(fault_)}; }

 private:
  Json& place(Json&& value) {
    if (stack_.empty()) return value_ = std::move(value);
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return parent.back();
    }
    return parent.get_ref<Json::object_t&>().back().second = std::move(value);
  }
  bool scalar(Json&& value) {
    if (form_ == DocumentForm::none) {
      sink_.not_a_document(value);
      return true;
    }
    place(std::move(value));
    if (stack_.empty()) deliver();
    return true;
  }
  bool open(Json&& value) {
    if (stack_.size() == k_depth_max) {
      fault_ = "arrays and objects are nested too deep";
      return false;
    }
    stack_.push_back(&place(std::move(value)));
    return true;
  }
  bool close() {
    if (!stack_.empty()) {
      stack_.pop_back();
      if (stack_.empty()) deliver();
    } else {
      // Handles the end of the array of trials, or of the outer object.
      in_trials_ = false;
    }
    return true;
  }
  void deliver() {
    if (in_trials_) {
      sink_.trial(trials_++, value_);
    } else {
      sink_.top_field(top_key_, value_);
    }
    value_ = nullptr;
  }

  DocumentSink& sink_;
  DocumentForm form_ = DocumentForm::none;
  bool in_trials_ = false;
  std::size_t trials_ = 0;
  std::string top_key_;
  Json value_;                // the current trial or top-level field
  std::vector<Json*> stack_;  // the open arrays and objects of value_, outermost first
  std::string fault_;
};

}  // namespace

DocumentEnd read_document(std::string_view text, DocumentSink& sink) {
  Splitter splitter(sink);
  Json::sax_parse(text.begin(), text.end(), &splitter);
  return std::move(splitter).end();
}

}  // namespace combu::spec
