// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/gateway/batches/batch_service.hpp"
#include "client/gateway/door/gateway.hpp"
#include "client/gateway/routes/job_routes.hpp"
#include "client/gateway/routes/left_jobs.hpp"
#include "client/gateway/run/control_socket.hpp"

namespace lanemq::gateway {

/// Ends what a key has left at this gateway: its holder is not to be served any more. Belongs to the loop's
/// thread; all that it is given outlives it.
class KeyStop {
 public:
  /// `batches`: null: there are none.
  KeyStop(Gateway& gateway, JobRoutes& calls, LeftJobRoutes& jobs, BatchService* batches)
      : gateway_(gateway), calls_(calls), jobs_(jobs), batches_(batches) {}

  /// Ends all of it: calls, streams, responses in the background, batches, and jobs that were left and are
  /// followed. The answer names the command for further jobs, which the broker alone knows.
  void stop(const std::string& key, const ControlSocket::Then& then);
  /// Ends the calls and streams of those of the keys that are no more. Requires: Access has the present ones.
  void cut_removed(const std::vector<KeySettings>& before);

 private:
  Gateway& gateway_;
  JobRoutes& calls_;
  LeftJobRoutes& jobs_;
  BatchService* const batches_;
};

}  // namespace lanemq::gateway
