// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/base/options.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// The rows that a copy has taken over.
struct CopySummary {
  std::uint64_t jobs = 0, results = 0, notes = 0;
};

/// Copies everything that a store holds to another one of any kind, which must hold nothing. Both are opened
/// as a broker would, so no broker may have them. `from` stays as it was; a copy that fails leaves a part in
/// `to`.
Result<CopySummary> copy_store(const StoreOptions& from, const StoreOptions& to);

}  // namespace lanemq::io
