// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/secret_source.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <ios>

#include <sys/stat.h>

#include <lanemq/text.hpp>

#include "common/settings/secrets/exposed_files.hpp"

namespace lanemq::settings {
namespace {

constexpr std::size_t kSecretBytesMax = std::size_t{64} * 1024;
constexpr std::string_view kVariable = "env:", kFile = "file:", kCredential = "credential:";

std::string read_file(const std::string& path) {
  // Whoever opens a pipe waits for somebody who writes, and a device may have no end.
  if (const std::optional<std::string> why_not = why_no_plain_file(path))
    throw UsageError("file " + printable(path) + " " + *why_not);
  std::ifstream file(path, std::ios::binary);
  std::string content(kSecretBytesMax + 1, '\0');
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size())) && !file.eof())
    throw UsageError("file " + printable(path) + " cannot be read");
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > kSecretBytesMax)
    throw UsageError("file " + printable(path) + " has over " + std::to_string(kSecretBytesMax) + " bytes");
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
    content.pop_back();
  if (content.empty()) throw UsageError("file " + printable(path) + " is empty");
  return content;
}

std::string credential_path(const std::string& name, const Environment& environment) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    throw UsageError("a credential is named without a path, as in credential:openai-1");
  const char* directory = environment("CREDENTIALS_DIRECTORY");
  if (!directory || *directory == '\0')
    throw UsageError("credential " + printable(name, 64) +
                     " needs CREDENTIALS_DIRECTORY, which systemd sets for a unit with LoadCredential=" +
                     printable(name, 64) + ":PATH");
  return std::string(directory) + "/" + name;
}

}  // namespace

bool is_clean(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  });
}

bool is_secret_source(std::string_view word) {
  return word.starts_with(kVariable) || word.starts_with(kFile) || word.starts_with(kCredential);
}

std::string read_secret(const std::string& source, const Environment& environment) {
  std::string secret;
  if (source.starts_with(kVariable)) {
    const std::string name = source.substr(kVariable.size());
    const char* value = environment(name);
    if (!value || *value == '\0') throw UsageError("the environment has no " + printable(name, 64));
    secret = value;
  } else if (source.starts_with(kFile)) {
    secret = read_file(source.substr(kFile.size()));
    note_secret_file(source.substr(kFile.size()));
  } else if (source.starts_with(kCredential)) {
    secret = read_file(credential_path(source.substr(kCredential.size()), environment));
  } else {
    throw UsageError("must be env:VARIABLE, file:PATH or credential:NAME, never the secret itself");
  }
  if (!is_clean(secret)) throw UsageError(printable(source) + " holds control characters");
  return secret;
}

std::optional<std::string> why_no_plain_file(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return "cannot be read";
  if (S_ISREG(about.st_mode)) return std::nullopt;
  return S_ISDIR(about.st_mode) ? "is a folder"
                                : "is a pipe or a device; name a plain file, since nobody can tell how long "
                                  "one would wait for its bytes";
}

void hide_secret(std::string_view source) {
  if (source.starts_with(kVariable)) hide_variable(std::string(source.substr(kVariable.size())));
}

}  // namespace lanemq::settings
