// SPDX-License-Identifier: Apache-2.0
// Where faults break an answer off.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tests/support/upstream/draws.hpp"
#include "tests/support/upstream/model_faults.hpp"
#include "tests/support/upstream/script.hpp"

namespace lanemq::upstream {

/// What chance breaks off ends in its middle. `place`: the bound of the delivery that says so.
void break_off(Fault fault, std::uint64_t middle, std::optional<std::uint64_t>& place, Delivery& delivery);

/// Has the faults that the model's name asks for break the answer off; the first that is asked for wins.
Fault break_off_as_asked(const ModelFaults& faults, bool stream, Delivery& delivery);

/// Why what the model's name asks for is impossible here; empty if it is not.
std::string misfit(const Api& api, const ModelRequest& asked, const ModelFaults& faults);

}  // namespace lanemq::upstream
