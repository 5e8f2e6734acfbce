// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lanemq {

/// A job and its state, as a `status` about many jobs says them.
struct JobState {
  std::string id, state;
};

/// Reads the `jobs` of a `status`; its other fields are left out. An entry that is no map, or has no id, is
/// left out, too.
std::vector<JobState> decode_job_states(std::string_view msgpack);

}  // namespace lanemq
