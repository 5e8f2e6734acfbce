// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <fstream>

#include <unistd.h>

#include <lanemq/process_name.hpp>

namespace lanemq {

std::string process_name() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char space[64];
  const ssize_t size = ::readlink("/proc/self/ns/pid", space, sizeof space);
  if (boot.empty() || size <= 0) return {};
  return boot + '/' + std::string(space, static_cast<std::size_t>(size)) + '/' + std::to_string(::getpid());
}

std::optional<int> process_beside(std::string_view own, std::string_view name) {
  const std::size_t end = own.rfind('/');
  if (end == std::string_view::npos || !name.starts_with(own.substr(0, end + 1))) return std::nullopt;
  const std::string_view digits = name.substr(end + 1);
  int number = 0;
  const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || rest != digits.data() + digits.size() || number <= 0) return std::nullopt;
  return number;
}

}  // namespace lanemq
