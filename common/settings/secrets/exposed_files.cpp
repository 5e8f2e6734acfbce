// SPDX-License-Identifier: Apache-2.0
#include "common/settings/secrets/exposed_files.hpp"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

namespace lanemq::settings {
namespace {

/// Where containers get their secrets, readable for all of their users.
constexpr std::string_view kOfContainers[] = {"/run/secrets/", "/var/run/secrets/"};

struct Noted {
  std::mutex mutex;
  std::vector<ExposedFile> files;
};

Noted& noted() {
  static Noted all;
  return all;
}

void note(ExposedFile file) {
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  if (all.files.size() < kExposedFilesMax &&
      std::find(all.files.begin(), all.files.end(), file) == all.files.end())
    all.files.push_back(std::move(file));
}

}  // namespace

void note_secret_file(const std::string& path) {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return;
  if (std::any_of(std::begin(kOfContainers), std::end(kOfContainers),
                  [&](std::string_view folder) { return path.starts_with(folder); }))
    return;
  // Root reads what a service's group may read, to check it.
  const bool is_own_group = about.st_gid == getegid() || geteuid() == 0;
  const mode_t open = about.st_mode & (S_IRWXO | (is_own_group ? 0 : S_IRWXG));
  if (open == 0) return;
  const bool is_written = (open & (S_IWOTH | S_IWGRP)) != 0;
  note({.path = path,
        .what = std::string("others than this program's user and group may ") +
                (is_written ? "write it" : "read it") + ", and it holds secrets; chmod 600"});
}

void note_program_file(const std::string& path) {
  if (is_everybodys(path))
    note({.path = path,
          .what = "everybody on this machine may write it, and so say what this program runs; chmod o-w"});
}

std::vector<ExposedFile> exposed_files() {
  Noted& all = noted();
  const std::lock_guard lock(all.mutex);
  return all.files;
}

bool is_everybodys(const std::string& path) {
  struct stat about {};
  return stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && (about.st_mode & S_IWOTH) != 0;
}

}  // namespace lanemq::settings
