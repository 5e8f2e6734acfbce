// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// How a process is named to a peer that may run on the same machine: BOOT/NAMESPACE/NUMBER. BOOT is the
/// machine's boot id, NAMESPACE that of the process numbers: only where both are a reader's own does the
/// number mean to it what it meant to the writer.
///
/// The name of this process; empty where the system does not tell.
std::string process_name();
/// The number of a process with that name, where it is in the same machine and namespace as the process named
/// `own`.
std::optional<int> process_beside(std::string_view own, std::string_view name);

}  // namespace lanemq
