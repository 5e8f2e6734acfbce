// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/open/instance_lock.hpp"

#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include "broker/io/store/open/open_store.hpp"
#include "broker/io/store/open/store_place.hpp"
#include "common/settings/environment.hpp"

namespace lanemq::io {

Result<std::optional<InstanceLock>> lock_instance(const StoreOptions& options) {
  if (!has_owners(options)) return std::optional<InstanceLock>();
  const auto place = default_store(settings::process_environment);
  if (!place || !make_default_folder(*place)) return std::optional<InstanceLock>();
  // A name may have any characters; its hash is a file's name.
  const std::string named = options.instance + "\n" + options.schema + "\n" + options.specification;
  char name[64];
  std::snprintf(name, sizeof name, "instance-%016llx.lock",
                static_cast<unsigned long long>(XXH3_64bits(named.data(), named.size())));
  const auto path = std::filesystem::path(*path_of_store({.specification = *place})).parent_path() / name;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return std::optional<InstanceLock>();
  if (flock(file, LOCK_EX | LOCK_NB) == 0) return std::optional<InstanceLock>(std::in_place, file);
  ::close(file);
  return failure(ErrorCode::bad_request, "another broker of this machine is instance \"" + options.instance +
                                             "\" of this store (" + path.string() +
                                             " is locked); stop it, or give this one another --instance");
}

InstanceLock::~InstanceLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace lanemq::io
