#include "script.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace combu {

namespace {

// Splits a command line into commands, for example "a; b && c" into a, b and c. Ignores quotes, because
// commands of the simulation contain no quotes.
std::vector<std::string> commands_of(const std::vector<std::string>& words) {
  const bool in_shell = words.size() == 3 && words[0].ends_with("sh") && words[1] == "-c";
  std::string text;
  if (in_shell) {
    text = words[2];
  } else {
    for (const std::string& word : words) text += word + ' ';
  }
  std::vector<std::string> commands(1);
  bool after_redirection = false;
  for (const char c : text) {
    if (c == ';' || c == '\n' || (c == '&' && !after_redirection)) {
      commands.emplace_back();
    } else {
      commands.back() += c;
    }
    after_redirection = c == '>';
  }
  return commands;
}

// Returns -1 if the text is not a number.
double number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0 || value > 1e9) return -1;
  return value;
}

// Simulates the command "cat FILE… > FILE". If `> FILE` is missing, writes the contents to the log. Returns
// false if a file does not exist.
bool cat(const std::vector<std::string>& words, Script& script) {
  std::string content;
  std::string to;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == ">" && i + 1 < words.size()) {
      to = words[++i];
      continue;
    }
    const auto found = script.files.find(words[i]);
    if (found == script.files.end()) {
      script.output.push_back(
          {.stream = LogStream::err, .text = "cat: " + words[i] + ": No such file or directory\n"});
      return false;
    }
    content += found->second;
  }
  if (!to.empty()) {
    script.files[to] = std::move(content);
    return true;
  }
  while (!content.empty()) {
    const std::size_t end = std::min(content.find('\n'), content.size() - 1);
    script.output.push_back({.stream = LogStream::out, .text = content.substr(0, end + 1)});
    content.erase(0, end + 1);
  }
  return true;
}

void echo(const std::vector<std::string>& words, Script& script) {
  World::LogLine line{.stream = LogStream::out, .text = ""};
  std::string file;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == ">&2") {
      line.stream = LogStream::err;
    } else if (words[i] == ">" && i + 1 < words.size()) {
      file = words[++i];
    } else {
      line.text += (line.text.empty() ? "" : " ") + words[i];
    }
  }
  line.text += '\n';
  if (file.empty()) {
    script.output.push_back(std::move(line));
  } else {
    script.files[file] = std::move(line.text);
  }
}

}  // namespace

Script read_script(const Trial& trial, Seconds unknown_takes, std::map<std::string, std::string> files) {
  Script script{.files = std::move(files)};
  if (!trial.process.cmd || trial.process.cmd->empty()) {
    script.takes = unknown_takes;
    return script;
  }
  script.cannot_start = trial.process.cmd->front().starts_with("/no/");
  for (const std::string& command : commands_of(*trial.process.cmd)) {
    std::vector<std::string> words;
    try {
      words = split_words(command);
    } catch (const Error&) {
      words = {command};
    }
    if (words.empty()) continue;
    const double argument = words.size() == 2 ? number(words[1]) : -1;
    if (words[0] == "sleep" && argument >= 0) {
      script.takes += Seconds(argument);
    } else if (words[0] == "exit" && argument >= 0) {
      script.exit_code = static_cast<int>(argument);
      break;
    } else if (words[0] == "eat" && words.size() == 2) {
      script.eats = parse_bytes(words[1]);
    } else if (words[0] == "echo") {
      echo(words, script);
    } else if (words[0] == "cat") {
      script.exit_code = cat(words, script) ? 0 : 1;
    } else if (words[0] == "true" || words[0] == "false") {
      script.exit_code = words[0] == "true" ? 0 : 1;
    } else {
      script.takes += unknown_takes;
    }
  }
  return script;
}

std::map<std::string, std::string> files_below(const std::map<std::string, std::string>& files,
                                               const std::string& path) {
  const std::size_t above = path.rfind('/') + 1;
  std::map<std::string, std::string> below;
  for (const auto& [file, content] : files)
    if (file == path || file.starts_with(path + "/")) below.emplace(file.substr(above), content);
  return below;
}

}  // namespace combu
