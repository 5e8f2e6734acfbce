// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "broker/config.hpp"
#include "broker/io/bank/bank_rows.hpp"

namespace lanemq::program {

/// Tries the plugins in processes that are thrown away. Throws ConfigError. Requires: the process has one
/// thread.
void try_plugins(const Config& config);

/// Where the banks of budgets are that shards share; null: none is. Nothing is connected. Throws ConfigError.
std::unique_ptr<io::BankRows> bank_of(const Config& config);

/// Notes which files have secrets, for warnings about who may read them.
void note_secret_files(const Config& config, const io::StoreOptions& options);

/// Refuses what a start would refuse, and changes nothing; a bank it looks at more closely.
void check_start(Config config);

}  // namespace lanemq::program
