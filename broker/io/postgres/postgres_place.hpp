// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Where a store in PostgreSQL is.
struct PostgresPlace {
  postgres::Target target;
  std::string text;  ///< for people, without secrets
};

/// What people are told of a store that commits nothing any more.
inline std::string failed_text(const std::string& why, const std::string& what_to_do) {
  return why + "; nothing is committed any more: " + what_to_do;
}

/// What a short statement may take; then its connection is given up.
inline constexpr std::chrono::seconds kStatementMax{10};
/// The pause before something is tried again.
inline constexpr std::chrono::milliseconds kRetryPause{50};

}  // namespace lanemq::io
