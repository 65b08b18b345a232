#pragma once
// Reads the evaluated text piece by piece, so that no more than one trial is held as JSON at any time.

#include <cstddef>
#include <string>
#include <string_view>

#include "spec/json.hpp"

namespace combu::spec {

enum class DocumentForm { none, array, object };

class DocumentSink {
 public:
  virtual ~DocumentSink() = default;
  // A field beside `trials` of the object form (also `trials`, when it is no array).
  virtual void top_field(const std::string& name, const Json& value) = 0;
  // The array of the trials begins: the file itself, or its field `trials`.
  virtual void trials_begin(DocumentForm form) = 0;
  virtual void trial(std::size_t index, Json& value) = 0;
  // The file is neither an array nor an object, and nothing else is told of it.
  virtual void not_a_document(const Json& value) = 0;
};

struct DocumentEnd {
  DocumentForm form = DocumentForm::none;
  std::string fault;  // why the text could not be read to its end, or empty
};

[[nodiscard]] DocumentEnd read_document(std::string_view text, DocumentSink& sink);

}  // namespace combu::spec
