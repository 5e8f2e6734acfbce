// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include <lanemq/result.hpp>

#include "broker/io/base/options.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// The file of a store. Links are followed as SQLite follows them, since it names the files beside it by the
/// target. None: a memory store.
std::optional<std::string> path_of_store(const StoreOptions& options);

/// Whether several brokers may wait for this store, of which one owns it.
bool has_owners(const StoreOptions& options);

/// Removes environment variables that a store's library would read, bypassing the options. Requires: the
/// process has one thread.
void ignore_environment_of_store(const StoreOptions& options);

/// Opens the store that the specification names. An error says which are known (bad_request), or why it
/// cannot be opened and what to do. Null: `options.waiting` did not want to wait any longer.
Result<std::unique_ptr<Store>> open_store(const StoreOptions& options);

}  // namespace lanemq::io
