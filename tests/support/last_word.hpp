// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lanemq::test {

/// Has a process that dies by a failed check, a signal or a sanitizer's finding say what it was at. Several
/// tests in one process have one name in CTest: without this its output ends somewhere.
///
/// `at`: how the part under way is run alone; printed as `died in: AT`. Cheap; may be called for each test.
/// One thread sets it.
void say_at_death(const std::string& at);

}  // namespace lanemq::test
