// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "client/gateway/batches/batch_desk.hpp"
#include "client/gateway/door/settings.hpp"
#include "client/gateway/limits/caller_limits.hpp"

namespace lanemq::gateway {

/// Runs files and batches on a thread with a connection to the broker of its own, so that no waiting request
/// is held up.
class BatchService {
 public:
  using Log = std::function<void(std::string_view)>;
  /// A request to the desk. Runs on the service's thread; must not throw.
  using Work = std::function<void(BatchDesk& desk, WallTime now)>;

  /// Opens the folder and continues what is in it; throws std::runtime_error with advice. Calls `log` on the
  /// service's thread when the disk begins or stops refusing. Lines use their keys' tokens, and wait while
  /// there are none.
  BatchService(const Settings& settings, CallerLimits& limits, Log log);
  /// Lines at the broker go on; the next service with this folder gets their answers.
  ~BatchService();
  BatchService(const BatchService&) = delete;
  BatchService& operator=(const BatchService&) = delete;

  /// Applies settings to lines submitted from now on. Thread-safe.
  void change(const Settings& settings);
  /// Runs `work` on the service's thread, in the order of the calls. Thread-safe.
  void ask(Work work);
  /// The owners of responses that earlier lives have stored; to be called once.
  std::vector<OwnedResponse> earlier_responses();
  /// Stores the owner of a response; several share a write to the disk. Thread-safe.
  void keep_response(OwnedResponse made);
  /// Figures that are at most a second old; does not wait for the disk. Thread-safe.
  BatchFigures figures() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::gateway
