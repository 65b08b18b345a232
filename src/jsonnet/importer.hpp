#pragma once
// Finds the file that an `import` names.

#include <map>
#include <string>
#include <vector>

namespace combu {

// The path of the embedded library in messages. No file on disk has this path.
inline constexpr const char* k_embedded_path = "<combu.libsonnet>";

class Importer {
 public:
  // `folders` is in search order. The importing file's own folder comes before them.
  explicit Importer(std::vector<std::string> folders);

  struct Found {
    std::string path;  // for messages; imports of this file are relative to the path's folder
    std::string content;
  };
  // Returns the file `wanted`. `base` is the importing file's folder, empty or with a final slash. Throws
  // Error(not_found) or Error(invalid). The evaluator adds the place of the import to the error's text.
  [[nodiscard]] Found find(const std::string& base, const std::string& wanted);

  // Returns the SHA-256 of each file found so far, by path.
  [[nodiscard]] const std::map<std::string, std::string>& found() const { return found_; }

 private:
  [[nodiscard]] Found find_file(const std::string& base, const std::string& wanted) const;

  std::vector<std::string> folders_;
  std::map<std::string, std::string> found_;
};

}  // namespace combu
