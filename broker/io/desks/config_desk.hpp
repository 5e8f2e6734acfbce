// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "broker/core/broker.hpp"

namespace lanemq::io {

/// An option as operators see it. A secret is shown as where it stands, never as itself.
struct ShownOption {
  std::string key;    ///< `retain`, `lane.batch.depth_max`, `budget.openai.limits.concurrency`
  std::string value;  ///< as the configuration writes it
  std::string from;   ///< the flag, the variable, or the file's line; `default`, or `operator`
};

/// All options. `running`: the core's, an operator's changes included.
using ShowConfig = std::function<std::vector<ShownOption>(const core::Options& running)>;

/// Answers operators who ask for the configuration. Not thread-safe; belongs to the loop.
class ConfigDesk {
 public:
  /// `broker` outlives it.
  ConfigDesk(core::Broker& broker, ShowConfig show) : broker_(broker), show_(std::move(show)) {}

  void asked(const core::Origin& from, const wire::AdminQuery& query);

 private:
  core::Broker& broker_;
  ShowConfig show_;
};

}  // namespace lanemq::io
