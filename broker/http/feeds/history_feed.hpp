// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "broker/http/feeds/history.hpp"
#include "broker/http/feeds/sampler.hpp"

namespace lanemq::admin {

/// Makes the values of the history from samples: what is looked at over time, and no more. First the
/// broker's, then its lanes', then its budgets', so that those are left out first of which there are many.
class HistoryFeed {
 public:
  std::vector<HistoryValue> values(const std::shared_ptr<const Sample>& sample);

 private:
  std::shared_ptr<const Sample> before_;
};

}  // namespace lanemq::admin
