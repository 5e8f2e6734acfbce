// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::service {

/// What this process has in memory stays there: no core is written, and no process but root's may read its
/// memory, its environment or its descriptors (ptrace, /proc/PID). To be called before anything secret is
/// read.
void guard_memory();

/// Takes guard_memory() back, for who looks for a mistake with a debugger, a profiler or a core: what the
/// process holds is then open to all processes of its user.
void open_memory();

}  // namespace lanemq::service
