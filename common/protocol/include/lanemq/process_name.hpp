// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lanemq {

/// The name of a process for a peer that may run on the same machine: BOOT/NAMESPACE/NUMBER. BOOT is the
/// machine's boot id, NAMESPACE the process numbers' namespace: only where both are the reader's own does the
/// number mean the same process to it.
///
/// The name of this process; empty where the system does not tell.
std::string process_name();
/// The number of the process `name`, where it shares machine and namespace with the process `own`.
std::optional<int> process_beside(std::string_view own, std::string_view name);

}  // namespace lanemq
