// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <lanemq/result.hpp>

namespace lanemq::io {

/// The name of the note that says whose jobs the store has, where there are shards.
inline constexpr std::string_view kShardNote = "shard";
/// The shard that the note's record names. An error: it cannot be read.
Result<std::string> shard_note(std::string_view record);
/// Whether a broker of this shard may go on with a store that has the note. One without shards (empty) may,
/// so that they can be given up. An error says whose jobs the store has, and what to do.
Result<void> check_shard_note(std::string_view record, const std::string& shard);

}  // namespace lanemq::io
