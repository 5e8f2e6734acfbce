// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// How long the parts of a model's answer may take, by the lane of its job: who waits in a critical lane
/// gives up sooner than a batch. A lane that is not known here has the times of `normal`.
class LaneTimes {
 public:
  LaneTimes();

  const CallTimes& of(std::string_view lane) const;
  /// Sets one of them: `connect_ms`, `first_token_ms`, `between_tokens_ms` or `total_ms`. False where there
  /// is no such name.
  bool set(std::string_view lane, std::string_view name, std::chrono::milliseconds value);
  /// Those names, for people.
  static std::string names();

 private:
  std::map<std::string, CallTimes, std::less<>> by_lane_;
};

}  // namespace lanemq::worker
