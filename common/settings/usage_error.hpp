// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace lanemq::settings {

/// A mistake in what a program was told: one line for a person.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Looks up an environment variable; null when it is not set.
using Environment = std::function<const char*(const std::string& name)>;

}  // namespace lanemq::settings
