// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/core/base/intrusive_list.hpp"

namespace lanemq::core {

struct Connection;
struct Job;

/// A connection for which a job goes on: the job is cancelled when all its owners are gone. Owners submitted
/// the job, submitted it again or fetched it. Lives with the job.
struct Owner {
  Job* job = nullptr;
  Connection* connection = nullptr;  ///< holds a reference
  ListHook<Owner> hook;              ///< among the owners at its connection
};

}  // namespace lanemq::core
