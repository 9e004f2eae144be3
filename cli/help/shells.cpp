#include "cli/help/shells.h"

namespace meshbus::cli {
namespace {

constexpr std::string_view kBash = R"(# bash completion of meshbus: source it, or put it into
# ~/.local/share/bash-completion/completions/meshbus
_meshbus() {
  local lines
  mapfile -t lines < <("${1/#\~/$HOME}" complete bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
  COMPREPLY=("${lines[@]:1}")
  case ${lines[0]} in
    files)
      compopt -o filenames
      mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$2")
      ;;
    command*)
      if declare -F _command_offset >/dev/null; then
        _command_offset $((${lines[0]#command } + 1))
      else
        mapfile -t COMPREPLY < <(compgen -c -- "$2")
      fi
      ;;
  esac
  case ${COMPREPLY[0]} in *[=,[:]) compopt -o nospace ;; esac
}
complete -F _meshbus meshbus
)";

constexpr std::string_view kZsh = R"(#compdef meshbus
# zsh completion of meshbus: put it into a folder of $fpath as _meshbus, or source it.
_meshbus() {
  local -a lines
  lines=("${(@f)$(${(Q)words[1]} complete zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" \
    2>/dev/null)}")
  local kind=$lines[1]
  lines=("${(@)lines[2,-1]}")
  (( $#lines )) && _describe -t words 'meshbus' lines
  case $kind in
    files) _files ;;
    command*)
      shift $((${kind#command } + 1)) words
      (( CURRENT -= ${kind#command } + 1 ))
      _normal
      ;;
  esac
}
(( $+functions[compdef] )) && compdef _meshbus meshbus
[[ $funcstack[1] == _meshbus ]] && _meshbus "$@"
)";

constexpr std::string_view kFish = R"(# fish completion of meshbus: source it, or put it into
# ~/.config/fish/completions/meshbus.fish
function __meshbus_complete
    set -l words (commandline -opc)
    set -l program $words[1]
    set -e words[1]
    set -a words (commandline -ct)
    set -l lines ($program complete fish -- $words 2>/dev/null)
    switch $lines[1]
        case files
            __fish_complete_path $words[-1]
        case 'command *'
            set -l from (math (string replace 'command ' '' $lines[1]) + 1)
            __fish_complete_subcommand --commandline $words[$from..]
    end
    set -e lines[1]
    string join -- \n $lines
end
complete -c meshbus -f -a '(__meshbus_complete)'
)";

/// One line of text: meanings may not break the protocol.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return text;
}

/// _describe takes the word up to the first ':' that has no backslash.
std::string escaped(const std::string& word) {
  std::string text;
  for (const char c : word) {
    if (c == ':' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

}  // namespace

std::optional<Shell> parse_shell(std::string_view name) {
  if (name == "bash") return Shell::bash;
  if (name == "zsh") return Shell::zsh;
  if (name == "fish") return Shell::fish;
  return std::nullopt;
}

std::string completion_script(Shell shell) {
  switch (shell) {
    case Shell::bash: return std::string(kBash);
    case Shell::zsh: return std::string(kZsh);
    case Shell::fish: break;
  }
  return std::string(kFish);
}

std::vector<std::string> split_line(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool is_begun = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote != 0 ? '\0' : c;
      is_begun = true;
    } else if (quote == 0 && (c == ' ' || c == '\t')) {
      if (is_begun) words.push_back(word);
      word.clear();
      is_begun = false;
    } else {
      if (c == '\\' && quote != '\'' && i + 1 < line.size()) ++i;
      word += line[i];
      is_begun = true;
    }
  }
  words.push_back(word);
  return words;
}

std::string completion_lines(Shell shell, const Completion& completion, const std::string& last) {
  std::string text;
  switch (completion.shell) {
    case Completion::Shell::nothing: text = "nothing\n"; break;
    case Completion::Shell::files: text = "files\n"; break;
    case Completion::Shell::command:
      text = "command " + std::to_string(completion.command_at) + "\n";
      break;
  }
  const auto cut = last.find_last_of(":=");
  const std::size_t left_out = cut == std::string::npos ? 0 : cut + 1;
  for (const auto& one : completion.candidates) {
    const auto meaning = one_line(one.meaning);
    switch (shell) {
      case Shell::bash: text += one_line(one.word.substr(left_out)); break;
      case Shell::zsh:
        text += one_line(escaped(one.word)) + (meaning.empty() ? "" : ":" + meaning);
        break;
      case Shell::fish: text += one_line(one.word) + (meaning.empty() ? "" : "\t" + meaning); break;
    }
    text += '\n';
  }
  return text;
}

}  // namespace meshbus::cli
