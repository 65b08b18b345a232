#pragma once
// A temporary folder for a test's files, and functions that evaluate them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "combu/jsonnet.hpp"

namespace combu {

class Scratch {
 public:
  Scratch() : path_((std::filesystem::temp_directory_path() / "combu-jsonnet-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no folder can be made at " << path_;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }

  // NOLINTNEXTLINE(modernize-use-nodiscard): callers may ignore the path
  std::string write(const std::string& name, const std::string& text) const {
    std::string file = path(name);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

  [[nodiscard]] std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

 private:
  std::string path_;
};

inline Evaluation evaluation_of(const std::string& file) {
  Evaluation evaluation;
  evaluation.file = file;
  evaluation.run = RunId("0123456789ab");
  evaluation.memory_max = Bytes{512LL << 20};
  return evaluation;
}

// Returns the JSON without white space outside of strings.
inline std::string compact(const std::string& json) {
  std::string result;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"' && (i == 0 || json[i - 1] != '\\')) quoted = !quoted;
    if (quoted || (c != ' ' && c != '\n')) result += c;
  }
  return result;
}

inline std::string value_of(const Evaluation& evaluation) {
  try {
    return compact(evaluate(evaluation).json);
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

inline std::string value_of(const std::string& code) {
  const Scratch scratch;
  return value_of(evaluation_of(scratch.write("e.jsonnet", code)));
}

inline Error refusal_of(const Evaluation& evaluation) {
  try {
    return {ErrorKind::corrupt, "accepted", evaluate(evaluation).json};
  } catch (const Error& error) {
    return error;
  }
}

}  // namespace combu
