// SPDX-License-Identifier: Apache-2.0
#include "broker/io/base/transport_stats.hpp"

#include <filesystem>
#include <system_error>

#include <sys/stat.h>

namespace lanemq::io {
namespace {

constexpr const char* kOpenFiles = "/proc/self/fd";
constexpr core::Duration kDescriptorsCountFor = std::chrono::seconds(10);

std::size_t count_descriptors() {
  std::error_code why_not;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator at(kOpenFiles, why_not), end; !why_not && at != end;
       at.increment(why_not))
    ++count;
  return count;
}

}  // namespace

std::size_t Descriptors::used(core::TimePoint now) {
  struct stat folder {};
  if (::stat(kOpenFiles, &folder) == 0 && folder.st_size > 0) return static_cast<std::size_t>(folder.st_size);
  if (now >= counts_until_) {
    used_ = count_descriptors();
    counts_until_ = now + kDescriptorsCountFor;
  }
  return used_;
}

}  // namespace lanemq::io
