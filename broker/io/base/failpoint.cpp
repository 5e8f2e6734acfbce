// SPDX-License-Identifier: Apache-2.0
#include "broker/io/base/failpoint.hpp"

namespace lanemq::io {

[[gnu::weak]] void reached(Failpoint) {}

}  // namespace lanemq::io
