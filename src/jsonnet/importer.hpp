#pragma once
// Finds the file that an `import` names.

#include <map>
#include <string>
#include <vector>

namespace combu {

// Messages show this path for the library that is embedded in combu. No file on disk has this path.
inline constexpr const char* k_embedded_path = "<combu.libsonnet>";

class Importer {
 public:
  // `folders` is in search order. The folder of the importing file is searched first, before `folders`.
  explicit Importer(std::vector<std::string> folders);

  struct Found {
    std::string path;  // path for messages; imports in this file are relative to the folder of this path
    std::string content;
  };
  // Returns the path and the content of the file `wanted`. `base` is the folder of the importing file, either
  // empty or with a final slash. Throws Error(not_found) or Error(invalid). The evaluator adds the location
  // of the import to the text of the Error.
  [[nodiscard]] Found find(const std::string& base, const std::string& wanted);

  // Returns the SHA-256 of each file found so far, by path.
  [[nodiscard]] const std::map<std::string, std::string>& found() const { return found_; }

 private:
  [[nodiscard]] Found find_file(const std::string& base, const std::string& wanted) const;

  std::vector<std::string> folders_;
  std::map<std::string, std::string> found_;
};

}  // namespace combu
