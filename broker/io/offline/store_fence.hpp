// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// The change of a store's epoch.
struct Fenced {
  std::string store;  ///< for people
  std::string owner;  ///< the instance that owned it; empty: nobody did
  std::int64_t before = 0, after = 0;
};

/// Raises the epoch of a store that several brokers share, whether one owns it now or not: no owner from
/// before can commit any more, and a broker that waits for the store takes it at once. For a database that
/// was restored to a time in the past, whose epochs would else be used a second time. An error (bad_request):
/// the store is not shared, or there is none.
Result<Fenced> fence_store(const StoreOptions& options);

}  // namespace lanemq::io
