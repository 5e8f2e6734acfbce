// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/secret_source.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <iomanip>
#include <ios>
#include <mutex>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

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
    throw UsageError("file " + printable(path) + " " + why_unreadable(errno));
  content.resize(static_cast<std::size_t>(file.gcount()));
  if (content.size() > kSecretBytesMax)
    throw UsageError("file " + printable(path) + " has over " + std::to_string(kSecretBytesMax) + " bytes");
  while (!content.empty() && (content.back() == '\n' || content.back() == '\r'))
    content.pop_back();
  if (content.empty()) throw UsageError("file " + printable(path) + " is empty");
  return content;
}

/// Where LoadCredential= looks for a file without a path.
constexpr std::string_view kStores[] = {"/etc/credstore", "/run/credstore", "/usr/lib/credstore"};

struct AsGiven {
  std::mutex mutex;
  std::optional<std::string> unit;  ///< none: no credential is taken as given
  std::vector<std::string> names{};
};

AsGiven& as_given() {
  static AsGiven all;
  return all;
}

/// The credential that a unit of the packages would show, or its name noted; throws nothing.
std::optional<std::string> stored_credential(AsGiven& all, const std::string& name) {
  for (const std::string_view store : kStores)
    if (std::string path = std::string(store) + "/" + *all.unit + "." + name; !why_no_plain_file(path))
      return path;
  if (std::find(all.names.begin(), all.names.end(), name) == all.names.end()) all.names.push_back(name);
  return std::nullopt;
}

/// A text that can be a header's secret, a key of Curve, or one that signs webhooks (40 characters of Z85,
/// and of base64); another one for each name.
std::string stand_in(const std::string& name) {
  constexpr std::size_t kChars = 40;
  std::ostringstream text;
  text << std::hex << std::setw(kChars) << std::setfill('0') << std::hash<std::string>()(name);
  return text.str();
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
    const std::string name = source.substr(kCredential.size());
    const std::optional<std::string> path = credential_file(name, environment);
    secret = path ? read_file(*path) : stand_in(name);
  } else {
    throw UsageError("must be env:VARIABLE, file:PATH or credential:NAME, never the secret itself");
  }
  if (!is_clean(secret)) throw UsageError(printable(source) + " holds control characters");
  return secret;
}

std::optional<std::string> why_no_plain_file(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0) return why_unreadable(errno);
  if (S_ISREG(about.st_mode))
    return faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) == 0 ? std::nullopt
                                                                    : std::optional(why_unreadable(errno));
  return S_ISDIR(about.st_mode) ? "is a folder"
                                : "is a pipe or a device; name a plain file, since nobody can tell how long "
                                  "one would wait for its bytes";
}

std::string why_unreadable(int error) {
  std::string why = std::string("cannot be read: ") + std::strerror(error);
  if (error != EACCES) return why;
  const uid_t user = geteuid();
  const passwd* const known = getpwuid(user);
  return why + " for the user " + (known == nullptr ? "" : printable(known->pw_name, 64) + ", ") + "number " +
         std::to_string(user);
}

std::optional<std::string> credential_file(const std::string& name, const Environment& environment) {
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos)
    throw UsageError("a credential is named without a path, as in credential:openai-1");
  const char* const directory = environment("CREDENTIALS_DIRECTORY");
  if (directory != nullptr && *directory != '\0') return std::string(directory) + "/" + name;
  AsGiven& all = as_given();
  const std::lock_guard lock(all.mutex);
  if (all.unit) return stored_credential(all, name);
  throw UsageError("credential " + printable(name, 64) +
                   " needs CREDENTIALS_DIRECTORY, which systemd sets for a unit with LoadCredential=" +
                   printable(name, 64) + ":PATH");
}

void take_credentials_as_given(std::optional<std::string> unit) {
  AsGiven& all = as_given();
  const std::lock_guard lock(all.mutex);
  all.unit = std::move(unit);
  all.names.clear();
}

std::vector<std::string> credentials_as_given() {
  AsGiven& all = as_given();
  const std::lock_guard lock(all.mutex);
  return all.names;
}

void hide_secret(std::string_view source) {
  if (source.starts_with(kVariable)) hide_variable(std::string(source.substr(kVariable.size())));
}

}  // namespace lanemq::settings
