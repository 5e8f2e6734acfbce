// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/operator_answers.hpp"

namespace lanemq::core {

bool is_meant(const State& state, const KeptResult& result, const wire::AdminQuery& filter) {
  return (filter.id.empty() || filter.id == result.id()) &&
         passes(filter.lane, state.lanes[result.lane]->options().name) &&
         passes(filter.service, result.service()) && passes(filter.client, result.dead()->client) &&
         passes(filter.model, result.model()) && passes(filter.code, name_of(result.extra->ending->code));
}

}  // namespace lanemq::core
