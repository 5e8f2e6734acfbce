// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/outbox.hpp"
#include "broker/io/plugins/broker_plugin.hpp"

namespace lanemq::io {

/// The broker's plugins, in the order of the configuration: each sees what the one before has made of a
/// submit. Not thread-safe; belongs to the loop.
class PluginDesk {
 public:
  /// Loads them. Throws plugin::PluginError with the plugin's name.
  explicit PluginDesk(const std::vector<PluginOptions>& options);

  bool empty() const { return plugins_.empty(); }
  /// Why the submit is refused; none: it goes on, perhaps changed. Views in it are then valid until the next
  /// call.
  std::optional<Authorizer::Refusal> judge(wire::Submit& submit, std::string_view body,
                                           const core::Identity* sender);
  /// Answers the admin verb `plugin`: lists them, or switches one on or off. `who`: the operator, for the
  /// log.
  void asked(const core::Origin& from, const wire::AdminQuery& query, std::string_view who,
             core::Outbox& outbox);

 private:
  std::vector<std::unique_ptr<BrokerPlugin>> plugins_;
  BrokerPlugin::Said said_;
};

}  // namespace lanemq::io
