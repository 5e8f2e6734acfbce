// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <lanemq/result.hpp>

#include "broker/config.hpp"

namespace lanemq::program {

/// The store's options, with the default store of this user or service where none is named. Takes out of the
/// environment what the store's library would read there; requires: the process has one thread.
io::StoreOptions store_options(const Config& config);

/// Throws: an unknown store is a mistake in the configuration (ConfigError), all else is the store's
/// (io::StoreError).
[[noreturn]] void refuse_store(const Error& error);

/// Makes the folder of the default store.
void make_store_folder(const Config& config, const io::StoreOptions& options);

}  // namespace lanemq::program
