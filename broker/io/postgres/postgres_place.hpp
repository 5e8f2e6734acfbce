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

/// What a short statement may take; then its connection is given up.
inline constexpr std::chrono::seconds kStatementMax{10};
/// The pause before something is tried again.
inline constexpr std::chrono::milliseconds kRetryPause{50};

}  // namespace lanemq::io
