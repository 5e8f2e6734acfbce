// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/core/intrusive_list.hpp"

namespace lanemq::core {

struct Connection;
struct Job;

/// That a job is to be cancelled when the connection is gone by which its client asked for it last. Lives
/// with the job.
struct Orphan {
  Job* job = nullptr;
  Connection* connection = nullptr;  ///< holds a reference
  ListHook<Orphan> hook;             ///< among those of the connection
};

}  // namespace lanemq::core
