// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "broker/io/base/failpoint.hpp"

namespace lanemq::test {

/// While it lives, `hook` is called at every failpoint, on the thread that has reached it. One at a time.
class FailpointHook {
 public:
  explicit FailpointHook(std::function<void(io::Failpoint)> hook);
  ~FailpointHook();
  FailpointHook(const FailpointHook&) = delete;
  FailpointHook& operator=(const FailpointHook&) = delete;
};

}  // namespace lanemq::test
