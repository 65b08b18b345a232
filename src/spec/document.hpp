#pragma once
// Reads the evaluated text incrementally, so that memory holds at most one trial as JSON.

#include <cstddef>
#include <string>
#include <string_view>

#include "spec/json.hpp"

namespace combu::spec {

enum class DocumentForm { none, array, object };

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  // If the file is an object, called for each of its fields, except for a field `trials` that is an array.
  // Also called for a field `trials` that is not an array.
  virtual void top_field(const std::string& name, const Json& value) = 0;
  // Called at the beginning of the array of trials, which is the whole file or its field `trials`.
  virtual void trials_begin(DocumentForm form) = 0;
  virtual void trial(std::size_t index, Json& value) = 0;
  // Called if the file is neither an array nor an object. In this case no other function is called.
  virtual void not_a_document(const Json& value) = 0;
};

struct DocumentEnd {
  DocumentForm form = DocumentForm::none;
  std::string fault;  // why the text could not be read completely, or empty if it could
};

[[nodiscard]] DocumentEnd read_document(std::string_view text, DocumentSink& sink);

}  // namespace combu::spec
