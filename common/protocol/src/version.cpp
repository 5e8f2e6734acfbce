// SPDX-License-Identifier: Apache-2.0
#include <lanemq/version.hpp>

const char* lanemq::version() noexcept {
  return kVersion;
}
