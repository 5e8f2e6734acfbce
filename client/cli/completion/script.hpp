// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace lanemq::cli {

/// An option of a command, as a shell completes it.
struct CompletedOption {
  std::vector<std::string> names;   ///< with their dashes
  bool takes_value = false;         ///< false: a switch
  bool value_is_file = false;       ///< as FILE and FILE.jsonl
  std::vector<std::string> values;  ///< all that it takes, where these are few; else empty
  std::string sentence;
};

/// A command, or `lanemq` itself, as a shell completes it.
struct CompletedCommand {
  std::string path;  ///< ` limits set`: each word behind a space; empty: `lanemq` itself
  std::string sentence;
  bool takes_file = false;  ///< it has a place for a file's name
  std::vector<CompletedOption> options;
};

/// What the command line has, from its own tree: the commands in the order of the help, each before its
/// subcommands. Hidden options are left out. Options of `lanemq` itself may stand behind each command, and
/// are named with each.
std::vector<CompletedCommand> completed_commands(const CLI::App& app);

/// Scripts that complete `lanemq` in a shell; each is to be sourced, or put where the shell looks for it.
std::string bash_completion(const std::vector<CompletedCommand>& commands);
std::string zsh_completion(const std::vector<CompletedCommand>& commands);
std::string fish_completion(const std::vector<CompletedCommand>& commands);

}  // namespace lanemq::cli
