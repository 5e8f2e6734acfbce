// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lanemq::program {

/// Does what the command line asks for: serves, checks, prints. Returns the program's exit code. Requires:
/// the process has one thread.
int command(int argc, char** argv);

}  // namespace lanemq::program
