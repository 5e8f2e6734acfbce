// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/exec/program.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

#include <lanemq/text.hpp>
#include <lanemq/words.hpp>

#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/secrets/secret_source.hpp"
#include "common/settings/usage_error.hpp"

namespace lanemq::worker {
namespace {

using settings::UsageError;

constexpr std::string_view kPathWhereThereIsNone = "/usr/local/bin:/usr/bin:/bin";

/// Why this file cannot be run; 0: it can.
int why_not_run(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return errno;
  if (S_ISDIR(about.st_mode)) return EISDIR;
  return access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

/// From the worker's directory, since the program may run in another.
std::string absolute(const std::string& path) {
  char here[PATH_MAX];
  if (path.starts_with('/') || getcwd(here, sizeof here) == nullptr) return path;
  return std::string(here) + "/" + path;
}

std::string find_in_path(const std::string& name, std::string_view folders) {
  int why = ENOENT;
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string path = absolute(std::string(folders.substr(0, end)) + "/" + name);
    const int problem = why_not_run(path);
    if (problem == 0) return path;
    if (problem != ENOENT && problem != ENOTDIR) why = problem;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  throw UsageError("program \"" + printable(name) + "\" is in no folder of PATH: " + std::strerror(why) +
                   "; write its whole path");
}

std::string path_of(const std::string& name, std::string_view folders) {
  if (name.find('/') == std::string::npos) return find_in_path(name, folders);
  std::string path = absolute(name);
  if (const int problem = why_not_run(path); problem != 0)
    throw UsageError("program \"" + printable(path) + "\" cannot be run: " + std::strerror(problem));
  return path;
}

/// Whether a variable is for a secret by its name, as OPENAI_API_KEY is.
bool is_for_secrets(std::string_view name) {
  constexpr std::string_view kEnds[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIALS"};
  return std::any_of(std::begin(kEnds), std::end(kEnds), [&](std::string_view end) {
    return name.size() >= end.size() && same_word(name.substr(name.size() - end.size()), end);
  });
}

/// The value of a variable: as written, or of the secret that it names.
std::string value_of(const std::string& name, const std::string& said,
                     const settings::Environment& environment) try {
  if (settings::is_secret_source(said)) return settings::read_secret(said, environment);
  if (is_for_secrets(name) && settings::without_secrets(said) != said)
    throw UsageError(
        "its value looks like a secret, which others see in this file, or with ps; write env:VARIABLE, "
        "file:PATH or credential:NAME, or the variable's name alone");
  return said;
} catch (const UsageError& error) {
  throw UsageError("environment: " + printable(name, 64) + ": " + error.what());
}

}  // namespace

Program find_program(const ExecOptions& options, const settings::Environment& environment) {
  if (options.argv.empty() || options.argv.front().empty())
    throw UsageError("needs argv = [\"PROGRAM\", …], or exec:PROGRAM");
  Program program{.path = {},
                  .arguments = options.argv,
                  .variables = {},
                  .directory = options.directory.empty() ? "" : absolute(options.directory),
                  .memory_max = options.memory_max,
                  .files_max = options.files_max};
  std::string path;
  std::vector<std::string> secrets;
  const auto set = [&](const std::string& name, const std::string& value) {
    std::erase_if(program.variables,
                  [&](const std::string& variable) { return variable.starts_with(name + "="); });
    program.variables.push_back(name + "=" + value);
    if (name == "PATH") path = value;
  };
  set("PATH", std::string(kPathWhereThereIsNone));
  for (const char* name : ExecOptions::kPassedOn)
    if (const char* value = environment(name); value && *value != '\0') set(name, value);
  for (const std::string& said : options.environment) {
    const std::size_t equals = said.find('=');
    const std::string name = said.substr(0, equals);
    if (name.empty() || name.starts_with("LANEMQ_"))
      throw UsageError("environment: \"" + printable(name, 64) +
                       "\" must be NAME or NAME=VALUE, and not LANEMQ_…, which tells of the job");
    if (equals != std::string::npos) {
      const std::string source = said.substr(equals + 1), value = value_of(name, source, environment);
      if (settings::is_secret_source(source)) secrets.push_back(value);
      set(name, value);
    } else if (const char* value = environment(name)) {
      if (is_for_secrets(name)) secrets.emplace_back(value);
      set(name, value);
    }
  }
  program.secrets = Redaction(std::move(secrets));
  program.path = path_of(options.argv.front(), path);
  struct stat about {};
  if (!program.directory.empty() && (stat(program.directory.c_str(), &about) != 0 || !S_ISDIR(about.st_mode)))
    throw UsageError("directory \"" + printable(program.directory) + "\" is none");
  return program;
}

}  // namespace lanemq::worker
