// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq::settings {

/// A mistake in a program's options or files: one line for a person. It repeats what stands in the wrong
/// place, which may be a secret: so the line is without_secrets().
class UsageError : public std::runtime_error {
 public:
  explicit UsageError(const std::string& line) : std::runtime_error(without_secrets(line)) {}
};

}  // namespace lanemq::settings
