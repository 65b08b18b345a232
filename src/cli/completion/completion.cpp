#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/completion/candidates.hpp"
#include "cli/completion/completion_model.hpp"
#include "cli/output.hpp"

namespace combu {

namespace {

struct Asked {
  std::string kind;
  std::string word;
  std::string run;
};

// True if a shell can show the text on one line.
bool is_plain(const std::string& text) {
  return text.find_first_of("\n\t") == std::string::npos && escape_controls(text) == text;
}

// Adds the hidden command that the completion scripts call. The command never fails, because an error message
// would disturb the user's typing.
void add_complete(CommandLine& line, const Invocation& invocation, Action& action) {
  CliCommand command = line.add_command("complete", "Print the completions of a word, one per line");
  command.hide();
  const auto asked = std::make_shared<Asked>();
  command.add_option("--run", asked->run);
  command.add_option("KIND", asked->kind).required();
  command.add_option("WORD", asked->word);
  command.callback([&invocation, &action, asked] {
    action = [&invocation, asked] {
      try {
        std::string lines;
        for (const std::string& one : candidates_of(asked->kind, asked->word, invocation, asked->run))
          if (is_plain(one)) lines += one + '\n';
        (void)put_out(lines);
      } catch (const Error&) {
        return 1;
      }
      return 0;
    };
  });
}

}  // namespace

void add_completion(CommandLine& line, const Invocation& invocation, Action& action) {
  add_complete(line, invocation, action);
  CliCommand command = line.add_command("completion", "Print the completion script of a shell");
  const auto shell = std::make_shared<std::string>();
  command.add_option("SHELL", *shell, "The shell")
      .required()
      .one_of({"bash", "zsh", "fish"})
      .type_name("SHELL");
  command.footer("Example:\n  source <(combu completion bash)");
  command.callback([&line, &action, shell] {
    action = [&line, shell] {
      const CompletionModel model = completion_model_of(line);
      if (*shell == "bash") (void)put_out(bash_completion(model));
      if (*shell == "zsh") (void)put_out(zsh_completion(model));
      if (*shell == "fish") (void)put_out(fish_completion(model));
      return 0;
    };
  });
}

}  // namespace combu
