// SPDX-License-Identifier: Apache-2.0
#include "client/cli/completion/script.hpp"

#include <functional>
#include <string_view>

namespace lanemq::cli {
namespace {

using Commands = std::vector<CompletedCommand>;

/// The words of `{keep,cancel}` in what CLI11 says of an option's value.
std::vector<std::string> words_in_braces(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t begin = type.find('{'), end = type.find('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return words;
  for (std::size_t at = begin + 1; at < end;) {
    const std::size_t comma = std::min(type.find(',', at), end);
    words.push_back(type.substr(at, comma - at));
    at = comma + 1;
  }
  return words;
}

bool is_file(const CLI::Option& option) {
  return option.get_type_name().starts_with("FILE");
}

CompletedOption completed(const CLI::Option& option) {
  CompletedOption entry{.takes_value = option.get_items_expected_max() > 0,
                        .value_is_file = is_file(option),
                        .values = words_in_braces(option.get_type_name()),
                        .sentence = option.get_description()};
  for (const std::string& name : option.get_snames())
    entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames())
    entry.names.push_back("--" + name);
  return entry;
}

void add_options(const CLI::App& app, CompletedCommand& command) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    if (option->get_positional())
      command.takes_file |= is_file(*option);
    else
      command.options.push_back(completed(*option));
  }
}

void add_commands(const CLI::App& app, const std::string& path, Commands& commands) {
  CompletedCommand& command = commands.emplace_back();
  command.path = path;
  command.sentence = app.get_description();
  add_options(app, command);
  for (const CLI::App* below : app.get_subcommands({}))
    add_commands(*below, path + " " + below->get_name(), commands);
}

/// The word in single quotes, as bash and zsh read it.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text)
    out.append(c == '\'' ? "'\\''" : std::string(1, c));
  return out + "'";
}

/// The same for fish, which reads \ inside of quotes.
std::string quoted_for_fish(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

/// All elements' texts with `between` them.
template <class List, class Text>
std::string joined_with(const List& list, std::string_view between, const Text& text) {
  std::string out;
  for (const auto& element : list)
    out.append(out.empty() ? "" : between).append(text(element));
  return out;
}

/// The last word of a path.
std::string name_of(const CompletedCommand& command) {
  return command.path.substr(command.path.rfind(' ') + 1);
}

/// The commands directly below one.
Commands below(const Commands& commands, const std::string& path) {
  Commands found;
  for (const CompletedCommand& command : commands)
    if (!command.path.empty() && command.path.substr(0, command.path.rfind(' ')) == path)
      found.push_back(command);
  return found;
}

/// The patterns of `case` for all commands: the path is made of the words that are among them.
std::string path_patterns(const Commands& commands) {
  return joined_with(Commands(commands.begin() + 1, commands.end()), " | ",
                     [](const CompletedCommand& command) { return in_quotes(command.path); });
}

/// Calls `write` for each option that takes a value, with the patterns `PATH OPTION` of `case`.
void each_value(const Commands& commands,
                const std::function<void(const CompletedOption&, const std::string& patterns)>& write) {
  for (const CompletedCommand& command : commands)
    for (const CompletedOption& option : command.options)
      if (option.takes_value)
        write(option, joined_with(option.names, " | ", [&](const std::string& name) {
                return in_quotes(command.path + " " + name);
              }));
}

std::string spaced(const std::vector<std::string>& words) {
  return joined_with(words, " ", std::identity());
}

/// `NAME:SENTENCE`, as zsh's _describe reads it.
std::string described(std::string_view name, std::string_view sentence) {
  std::string out;
  for (const char c : name)
    out.append(c == ':' ? "\\:" : std::string(1, c));
  return in_quotes(out.append(":").append(sentence));
}

}  // namespace

Commands completed_commands(const CLI::App& app) {
  Commands commands;
  add_commands(app, "", commands);
  const std::vector<CompletedOption> general = commands.front().options;
  for (std::size_t i = 1; i < commands.size(); ++i)
    for (const CompletedOption& option : general)
      // Each command has a --help of its own; --version counts in front of it alone.
      if (option.takes_value) commands[i].options.push_back(option);
  return commands;
}

std::string bash_completion(const Commands& commands) {
  std::string out = R"(# Completes lanemq in bash; made by `lanemq completion bash`.
_lanemq() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} chain= words= files= i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$chain ${COMP_WORDS[i]}" in
      )" + path_patterns(commands) +
                    R"() chain+=" ${COMP_WORDS[i]}" ;;
    esac
  done
  case "$chain $before" in
)";
  each_value(commands, [&](const CompletedOption& option, const std::string& patterns) {
    out += "    " + patterns + ")";
    if (!option.values.empty())
      out += " COMPREPLY=($(compgen -W " + in_quotes(spaced(option.values)) + " -- \"$word\"));";
    if (option.value_is_file) out += " compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\"));";
    out += " return ;;\n";
  });
  out += "  esac\n  case \"$chain\" in\n";
  for (const CompletedCommand& command : commands) {
    std::vector<std::string> words;
    for (const CompletedCommand& next : below(commands, command.path))
      words.push_back(name_of(next));
    for (const CompletedOption& option : command.options)
      words.insert(words.end(), option.names.begin(), option.names.end());
    out += "    " + in_quotes(command.path) + ") words=" + in_quotes(spaced(words)) +
           (command.takes_file ? " files=1" : "") + " ;;\n";
  }
  out += R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [[ $files && $word != -* ]]; then
    compopt -o filenames
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
}
complete -F _lanemq lanemq
)";
  return out;
}

std::string zsh_completion(const Commands& commands) {
  std::string out = R"(#compdef lanemq
# Completes lanemq in zsh; made by `lanemq completion zsh`.
_lanemq() {
  local chain= files= i
  local -a names options
  for ((i = 2; i < CURRENT; i++)); do
    case "$chain ${words[i]}" in
      ()" + path_patterns(commands) +
                    R"() chain+=" ${words[i]}" ;;
    esac
  done
  case "$chain ${words[CURRENT - 1]}" in
)";
  each_value(commands, [&](const CompletedOption& option, const std::string& patterns) {
    out += "    (" + patterns + ")";
    if (!option.values.empty()) out += " compadd -- " + spaced(option.values) + ";";
    if (option.value_is_file) out += " _files;";
    out += " return ;;\n";
  });
  out += "  esac\n  case \"$chain\" in\n";
  for (const CompletedCommand& command : commands) {
    out += "    (" + in_quotes(command.path) + ")\n      names=(";
    for (const CompletedCommand& next : below(commands, command.path))
      out += "\n        " + described(name_of(next), next.sentence);
    out += ")\n      options=(";
    for (const CompletedOption& option : command.options)
      for (const std::string& name : option.names)
        out += "\n        " + described(name, option.sentence);
    out += std::string(")\n") + (command.takes_file ? "      files=1\n" : "") + "      ;;\n";
  }
  return out + R"(  esac
  ((${#names})) && _describe -t commands command names
  [[ ${words[CURRENT]} == -* ]] && _describe -o -t options option options
  [[ -n $files && ${words[CURRENT]} != -* ]] && _files
  return 0
}
if [[ $funcstack[1] == _lanemq ]]; then
  _lanemq "$@"
else
  compdef _lanemq lanemq
fi
)";
}

std::string fish_completion(const Commands& commands) {
  std::string out =
      R"(# Completes lanemq in fish; made by `lanemq completion fish`.
function __lanemq_at
    set -l chain ''
    for word in (commandline -opc)[2..-1]
        contains -- "$chain $word" )" +
      joined_with(Commands(commands.begin() + 1, commands.end()), " ",
                  [](const CompletedCommand& command) { return quoted_for_fish(command.path); }) +
      R"(
        and set chain "$chain $word"
    end
    test "$chain" = "$argv[1]"
end
complete -c lanemq -f
)";
  for (const CompletedCommand& command : commands) {
    const std::string here = "complete -c lanemq -n \"__lanemq_at " + quoted_for_fish(command.path) + "\"";
    for (const CompletedCommand& next : below(commands, command.path))
      out += here + " -a " + name_of(next) + " -d " + quoted_for_fish(next.sentence) + "\n";
    if (command.takes_file) out += here + " -F\n";
    for (const CompletedOption& option : command.options) {
      out += here;
      for (const std::string& name : option.names)
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (option.takes_value) out += option.value_is_file ? " -r -F" : " -x";
      if (!option.values.empty()) out += " -a " + quoted_for_fish(spaced(option.values));
      out += " -d " + quoted_for_fish(option.sentence) + "\n";
    }
  }
  return out;
}

}  // namespace lanemq::cli
