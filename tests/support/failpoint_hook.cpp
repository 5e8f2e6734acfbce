// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failpoint_hook.hpp"

#include <mutex>
#include <utility>

namespace lanemq {
namespace {

std::mutex hook_mutex;
std::function<void(io::Failpoint)> hook_now;

}  // namespace

void io::reached(Failpoint point) {
  std::function<void(Failpoint)> hook;
  {
    const std::lock_guard lock(hook_mutex);
    hook = hook_now;
  }
  if (hook) hook(point);
}

test::FailpointHook::FailpointHook(std::function<void(io::Failpoint)> hook) {
  const std::lock_guard lock(hook_mutex);
  hook_now = std::move(hook);
}

test::FailpointHook::~FailpointHook() {
  const std::lock_guard lock(hook_mutex);
  hook_now = nullptr;
}

}  // namespace lanemq
