#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/completion/completion_model.hpp"

namespace combu {
namespace {

using ValueKind = OptionModel::Value;

// Returns a command's own options and the program's options. Names of the program's options that the command
// uses for its own options, such as -f of `logs`, are left out.
std::vector<OptionModel> options_within(const CommandModel& command, const CompletionModel& model) {
  std::vector<OptionModel> options = command.options;
  std::set<std::string> own;
  for (const OptionModel& option : options) own.insert(option.names.begin(), option.names.end());
  for (OptionModel option : model.options) {
    std::erase_if(option.names, [&](const std::string& name) { return own.contains(name); });
    if (!option.names.empty()) options.push_back(option);
  }
  return options;
}

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

std::string joined(const std::vector<std::string>& words, std::string_view between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

// ---- bash

// Returns the case branch for one command or, if `name` is empty, for the words before the command.
std::string bash_case(std::string_view name, const std::vector<OptionModel>& options,
                      const std::vector<std::string>& arguments, const CommandModel* command) {
  std::vector<std::string> all = arguments;
  std::string cases;
  for (const OptionModel& option : options) {
    all.insert(all.end(), option.names.begin(), option.names.end());
    if (option.value == ValueKind::none) continue;
    std::string does = ":";
    if (option.value == ValueKind::file) does = "_combu_paths -f";
    if (option.value == ValueKind::folder) does = "_combu_paths -d";
    if (!option.choices.empty()) does = fmt::format("_combu_words '{}'", joined(option.choices));
    if (!option.kind.empty()) does = "_combu_ask " + option.kind;
    cases += fmt::format("        {}) {}; return ;;\n", joined(option.names, "|"), does);
  }
  std::string does;
  if (command != nullptr && !command->kind.empty()) {
    does = "_combu_ask " + command->kind;
    if (!command->choices.empty()) does += fmt::format(" '{}'", joined(command->choices));
  }
  if (command != nullptr && command->argument == ValueKind::file) does = "_combu_paths -f";
  if (command != nullptr && command->argument == ValueKind::folder) does = "_combu_paths -d";
  if (!does.empty()) cases += fmt::format("        *) [[ $cur == -* ]] || {{ {}; return; }} ;;\n", does);
  return fmt::format("    {})\n      case $prev in\n{}      esac\n      _combu_words '{}' ;;\n",
                     name.empty() ? "''" : name, cases, joined(all));
}

// In bash, `=` and `:` split words in COMP_WORDS. The script joins split words again. bash replaces only the
// part after the last split, so each reply contains only this part.
constexpr std::string_view k_bash_words = R"bash(_combu() {
  local words=() word cur prev head='' quote='' asked='' command='' file=() run=() i
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 1)) && [[ $word == [=:] || ${COMP_WORDS[i-1]} == [=:] ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
  done
  local last=$((${#words[@]} - 1))
  cur=${words[last]} prev=${words[last-1]}
  local cut=${cur%"${COMP_WORDS[COMP_CWORD]#[=:]}"}
  if [[ $cur == --*=* ]]; then
    head=${cur%%=*}= prev=${cur%%=*} cur=${cur#*=}
  fi
  case $cur in
    [\'\"]*) quote=${cur:0:1} cur=${cur:1} ;;
    *\\*) IFS= read cur <<<"$cur"; IFS= read cut <<<"$cut" ;;
  esac
  for ((i = 1; i < last; i++)); do
    case ${words[i]} in
      -f|--file) [[ $command == logs ]] || file=(-f "${words[i+1]/#\~/$HOME}") ;;
      --file=*) word=${words[i]#*=}; file=(-f "${word/#\~/$HOME}") ;;
      --run) run=(--run "${words[i+1]}") ;;
      --run=*) run=("${words[i]}") ;;
    esac
    [[ -z $command ]] || continue
    case ${words[i]} in
)bash";

// Quotes $word, which may be any text, so that the shell reads it as one word. The backslash that printf
// writes before commas is removed, because it is not needed.
constexpr std::string_view k_bash_quote = R"bash(_combu_quote() {
  case $quote in
    \') word=${word//\'/\'\\\'\'} ;;
    \") word=${word//\\/\\\\} word=${word//\"/\\\"} word=${word//\$/\\\$} word=${word//\`/\\\`} ;;
    *) printf -v word %q "$word"; word=${word//\\,/,} ;;
  esac
}
)bash";

}  // namespace

std::string bash_completion(const CompletionModel& model) {
  std::vector<std::string> commands;
  std::vector<std::string> with_value;
  commands.reserve(model.commands.size());
  for (const CommandModel& command : model.commands) commands.push_back(command.name);
  for (const OptionModel& option : model.options)
    if (option.value != ValueKind::none)
      with_value.insert(with_value.end(), option.names.begin(), option.names.end());

  std::string cases = bash_case("", model.options, commands, nullptr);
  for (const CommandModel& command : model.commands)
    cases += bash_case(command.name, options_within(command, model), command.choices, &command);

  return fmt::format(
      "# combu's completion for bash: source <(combu completion bash)\n"
      "_combu_words() {{ mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\"); }}\n"
      "_combu_paths() {{ compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen \"$1\" -- "
      "\"$cur\"); }}\n"
      "_combu_ask() {{\n"
      "  mapfile -t COMPREPLY < <([[ -z $2 ]] || compgen -W \"$2\" -- \"$cur\"\n"
      "    combu \"${{file[@]}}\" complete \"${{run[@]}}\" \"$1\" -- \"$cur\" </dev/null 2>/dev/null)\n"
      "  asked=yes\n"
      "  [[ ${{COMPREPLY[0]}} != *= || ${{#COMPREPLY[@]}} != 1 ]] || compopt -o nospace 2>/dev/null\n"
      "}}\n"
      "{}"
      "      {}) i=$((i + 1)) ;;\n"
      "      -*) ;;\n"
      "      *) command=${{words[i]}} ;;\n"
      "    esac\n"
      "  done\n"
      "  _combu_choose\n"
      "  for ((i = 0; i < ${{#COMPREPLY[@]}}; i++)); do\n"
      "    word=$head${{COMPREPLY[i]}}\n"
      "    word=${{word#\"$cut\"}}\n"
      "    [[ -z $asked || -z $word ]] || _combu_quote\n"
      "    COMPREPLY[i]=$word\n"
      "  done\n"
      "}}\n"
      "{}"
      "_combu_choose() {{\n"
      "  case $command in\n{}"
      "  esac\n"
      "}}\n"
      "complete -F _combu combu\n",
      k_bash_words, joined(with_value, "|"), k_bash_quote, cases);
}

// ---- zsh

namespace {

// Returns the text that describes one name of an option to zsh's _arguments, such as
// '-f[description]:file:_files'.
std::string zsh_option(const OptionModel& option, const std::string& name) {
  std::string text = replaced(option.description, "'", "'\\''");
  for (const char* special : {"[", "]", ":"}) text = replaced(text, special, std::string("\\") + special);
  std::string value;
  if (option.value == ValueKind::text) value = ":value: ";
  if (option.value == ValueKind::file) value = ":file:_files";
  if (option.value == ValueKind::folder) value = ":folder:_files -/";
  if (!option.choices.empty()) value = fmt::format(":value:({})", joined(option.choices));
  if (!option.kind.empty()) value = ":value: _combu_ask " + option.kind;
  // The option's value may follow `=`, or be the next word.
  const char* const equals = name.starts_with("--") && option.value != ValueKind::none ? "=" : "";
  return fmt::format("'*{}{}[{}]{}'", name, equals, text, value);
}

std::string zsh_options(const std::vector<OptionModel>& options) {
  std::vector<std::string> all;
  for (const OptionModel& option : options)
    for (const std::string& name : option.names) all.push_back(zsh_option(option, name));
  return joined(all, " \\\n        ");
}

}  // namespace

std::string zsh_completion(const CompletionModel& model) {
  std::string commands;
  std::string cases;
  for (const CommandModel& command : model.commands) {
    const std::string description = replaced(command.description, "'", "'\\''");
    commands += fmt::format("    '{}:{}'\n", command.name, replaced(description, ":", "\\:"));
    std::string argument;
    if (!command.choices.empty()) argument = fmt::format(" '*:value:({})'", joined(command.choices));
    if (!command.kind.empty())
      argument = fmt::format(" '*:value: _combu_ask {}{}{}'", command.kind,
                             command.choices.empty() ? "" : " ", joined(command.choices));
    if (command.argument == ValueKind::file) argument = " '*:file:_files'";
    if (command.argument == ValueKind::folder) argument = " '*:folder:_files -/'";
    cases += fmt::format("        {}) _arguments {}{} ;;\n", command.name,
                         zsh_options(options_within(command, model)), argument);
  }
  return fmt::format(
      "#compdef combu\n"
      "# combu's completion for zsh: source <(combu completion zsh), or a file _combu in a folder of $fpath\n"
      "_combu_ask() {{\n"
      "  local -a found\n"
      "  found=(${{(f)\"$(combu $file complete $run $1 -- ${{(Q)PREFIX}} </dev/null 2>/dev/null)\"}} "
      "${{@[2,-1]}})\n"
      "  compadd -S '' -- ${{(M)found:#*=}}\n"
      "  compadd -- ${{found:#*=}}\n"
      "}}\n"
      "_combu() {{\n"
      "  local state line i follows\n"
      "  local -a commands file run\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case $words[i] in\n"
      "      -f|--file) [[ -n $follows ]] || file=(-f ${{words[i+1]/#\\~/$HOME}}) ;;\n"
      "      --file=*) file=(-f ${{${{words[i]#*=}}/#\\~/$HOME}}) ;;\n"
      "      --run) ((i + 1 == CURRENT)) || run=(--run $words[i+1]) ;;\n"
      "      --run=*) run=($words[i]) ;;\n"
      "      logs) follows=yes ;;\n"
      "    esac\n"
      "  done\n"
      "  commands=(\n{}  )\n"
      "  _arguments -C -A '-*' {} \\\n        '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n"
      "    command) _describe command commands ;;\n"
      "    argument)\n"
      "      case $line[1] in\n{}"
      "      esac ;;\n"
      "  esac\n"
      "}}\n"
      "if [ \"$funcstack[1]\" = _combu ]; then _combu \"$@\"; else compdef _combu combu; fi\n",
      commands, zsh_options(model.options), cases);
}

// ---- fish

namespace {

std::string fish_text(const std::string& text) {
  return fmt::format("'{}'", replaced(replaced(text, "\\", "\\\\"), "'", "\\'"));
}

std::string fish_option(const OptionModel& option, const std::string& condition) {
  std::string line = fmt::format("complete -c combu{}", condition);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (option.value == ValueKind::text) line += " -x";
  if (option.value == ValueKind::file) line += " -r -F";
  if (option.value == ValueKind::folder) line += " -x -a '(__fish_complete_directories)'";
  if (!option.choices.empty()) line += fmt::format(" -a '{}'", joined(option.choices));
  if (!option.kind.empty()) line += fmt::format(" -a '(__combu_ask {})'", option.kind);
  return fmt::format("{} -d {}\n", line, fish_text(option.description));
}

// Returns the condition under which fish offers the program's option `option`: the user has not typed a
// command with an option of the same name, such as -f of `logs`.
std::string outside_of_hiders(const OptionModel& option, const CompletionModel& model) {
  std::vector<std::string> hiders;
  for (const CommandModel& command : model.commands)
    for (const OptionModel& own : command.options)
      if (std::ranges::find_first_of(own.names, option.names) != own.names.end())
        hiders.push_back(command.name);
  return hiders.empty() ? "" : fmt::format(" -n 'not __fish_seen_subcommand_from {}'", joined(hiders));
}

}  // namespace

std::string fish_completion(const CompletionModel& model) {
  std::string text =
      "# combu's completion for fish: combu completion fish | source\n"
      "function __combu_ask\n"
      "  set -l words (commandline -opc)\n"
      "  set -l file\n"
      "  set -l run\n"
      "  set -l follows no\n"
      "  for i in (seq (count $words))\n"
      "    set -l next $words[(math $i + 1)]\n"
      "    string match -q -- '--run=*' $words[$i]; and set run $words[$i]\n"
      "    string match -q -- '--file=*' $words[$i]; and set file -f (string replace -r '^--file=' '' -- "
      "$words[$i] | string replace -r '^~' $HOME)\n"
      "    test $words[$i] = logs; and set follows yes\n"
      "    set -q next[1]; or break\n"
      "    test $follows = no; and contains -- $words[$i] -f --file; and set file -f (string replace -r '^~' "
      "$HOME -- $next)\n"
      "    test $words[$i] = --run; and set run --run $next\n"
      "  end\n"
      "  set -l word (string replace -r '^--[a-z-]+=' '' -- (commandline -ct))\n"
      "  combu $file complete $run $argv[1] -- (string replace -r '^[\\'\"]' '' -- $word) </dev/null "
      "2>/dev/null\n"
      "end\n"
      "complete -c combu -f\n";
  for (const OptionModel& option : model.options)
    text += fish_option(option, outside_of_hiders(option, model));
  for (const CommandModel& command : model.commands) {
    text += fmt::format("complete -c combu -n __fish_use_subcommand -a {} -d {}\n", command.name,
                        fish_text(command.description));
    const std::string within = fmt::format(" -n '__fish_seen_subcommand_from {}'", command.name);
    for (const OptionModel& option : command.options) text += fish_option(option, within);
    if (!command.kind.empty())
      text += fmt::format("complete -c combu{} -a '(__combu_ask {})'\n", within, command.kind);
    if (command.argument == ValueKind::file) text += fmt::format("complete -c combu{} -F\n", within);
    if (command.argument == ValueKind::folder)
      text += fmt::format("complete -c combu{} -a '(__fish_complete_directories)'\n", within);
    if (!command.choices.empty())
      text += fmt::format("complete -c combu{} -a '{}'\n", within, joined(command.choices));
  }
  return text;
}

}  // namespace combu
