// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "client/cli/base/command_line.hpp"
#include "client/cli/completion/script.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {

void add_completion(CommandLine& line) {
  const auto shell = std::make_shared<std::string>();
  CLI::App& command = line.add("completion",
                               "Print a script that completes this command line in a shell, such as "
                               "source <(lanemq completion bash)");
  command.add_option("shell", *shell, "Which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->type_name("bash|zsh|fish");
  line.on_chosen(command, Asks::nobody, [&line, shell](const Common&) {
    const std::vector<CompletedCommand> commands = completed_commands(line.app());
    const std::string script = *shell == "bash"  ? bash_completion(commands)
                               : *shell == "zsh" ? zsh_completion(commands)
                                                 : fish_completion(commands);
    return put(script) ? kExitDone : kExitFailed;
  });
}

}  // namespace lanemq::cli
