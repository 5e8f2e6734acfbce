// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "client/gateway/batches/batch_desk.hpp"
#include "client/gateway/caller_limits.hpp"
#include "client/gateway/settings.hpp"

namespace lanemq::gateway {

/// The thread on which files and batches live, with a connection to the broker of their own: nothing that it
/// does holds up a request that somebody waits for.
class BatchService {
 public:
  using Log = std::function<void(std::string_view)>;
  /// What is asked of files and batches. Called on the service's thread; must not throw.
  using Work = std::function<void(BatchDesk& desk, WallTime now)>;

  /// Opens the folder and goes on with what is in it; throws std::runtime_error, which says what to do. `log`
  /// is called on the service's thread, when the disk begins or ends to refuse. Lines spend their keys'
  /// tokens, and wait while there are none.
  BatchService(const Settings& settings, CallerLimits& limits, Log log);
  /// Lines at the broker go on there; the next one of this folder gets their answers.
  ~BatchService();
  BatchService(const BatchService&) = delete;
  BatchService& operator=(const BatchService&) = delete;

  /// Lines that are submitted from now on go by these. From any thread.
  void change(const Settings& settings);
  /// Has that done, in the order of the calls. From any thread.
  void ask(Work work);
  /// What earlier lives knew of stored responses, once.
  std::vector<OwnedResponse> earlier_responses();
  /// Keeps who made one: those of a moment with one write to the disk. From any thread.
  void keep_response(OwnedResponse made);
  /// At most a second old, and without waiting for the disk. From any thread.
  BatchFigures figures() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::gateway
