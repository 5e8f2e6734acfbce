// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <lanemq/result.hpp>

#include "common/settings/environment.hpp"

namespace lanemq::io {

/// The store where no option names one: `lanemq.db`, or `lanemq-SHARD.db`, in the service's folder, else in
/// `lanemq/` of the user's. The error asks for an option.
Result<std::string> default_store(const settings::Environment& environment, std::string_view shard = {});

/// Creates the folder of default_store(), for the user alone.
Result<void> make_default_folder(const std::string& specification);

}  // namespace lanemq::io
