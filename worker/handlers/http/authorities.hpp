// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lanemq::worker {

/// Refuses a file of certificate authorities with which each call would fail. Throws settings::UsageError
/// unless it can be read, and has a certificate in PEM.
void check_authorities(const std::string& path);

}  // namespace lanemq::worker
