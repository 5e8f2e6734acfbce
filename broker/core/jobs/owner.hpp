// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/core/base/intrusive_list.hpp"

namespace lanemq::core {

struct Connection;
struct Job;

/// Somebody for whom a job goes on that is to be cancelled when all of these are gone: the connection by
/// which its client submitted it, and those by which it was submitted again or fetched. Lives with the job.
struct Owner {
  Job* job = nullptr;
  Connection* connection = nullptr;  ///< holds a reference
  ListHook<Owner> hook;              ///< among those of the connection
};

}  // namespace lanemq::core
