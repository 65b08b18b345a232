#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/words.hpp"

namespace combu {

void add_completion(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("completion", "Print a shell's completion for combu");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "Whose completion")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("SHELL");
  command->footer("Example:\n  source <(combu completion bash)");
  command->callback([&app, &action, shell] {
    action = [&app, shell] {
      const Words words = words_of(app);
      if (*shell == "bash") (void)put_out(bash_completion(words));
      if (*shell == "zsh") (void)put_out(zsh_completion(words));
      if (*shell == "fish") (void)put_out(fish_completion(words));
      return 0;
    };
  });
}

}  // namespace combu
