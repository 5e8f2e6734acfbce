// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

namespace lanemq::program {

/// Says why the program cannot run, without secrets, and returns its exit code: 2 for a mistake in its
/// configuration, 3 for an endpoint that cannot be bound, 4 for a store that cannot be used, io::kExitDeposed
/// for one that another broker has taken over.
int refused(const std::exception_ptr& why);

}  // namespace lanemq::program
