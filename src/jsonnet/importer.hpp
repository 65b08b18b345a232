#pragma once
// Finds what an `import` names.

#include <map>
#include <string>
#include <vector>

namespace combu {

// Where the embedded library is said to be: in no folder, so that no file on disk can be taken for it.
inline constexpr const char* k_embedded_path = "<combu.libsonnet>";

class Importer {
 public:
  // `folders` in the order in which they are searched, after the importing file's own.
  explicit Importer(std::vector<std::string> folders);

  struct Found {
    std::string path;  // names it in messages, and its own imports are relative to this path's folder
    std::string content;
  };
  // `base` is the importing file's folder, with a slash at its end or empty. Throws Error; the message alone
  // says all, since the evaluator puts the import's place before it.
  [[nodiscard]] Found find(const std::string& base, const std::string& wanted);

  // The files that have been found, by path, each with the SHA-256 of its bytes.
  [[nodiscard]] const std::map<std::string, std::string>& found() const { return found_; }

 private:
  [[nodiscard]] Found find_file(const std::string& base, const std::string& wanted) const;

  std::vector<std::string> folders_;
  std::map<std::string, std::string> found_;
};

}  // namespace combu
