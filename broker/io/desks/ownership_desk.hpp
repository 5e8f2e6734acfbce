// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/io/base/transport_stats.hpp"
#include "broker/io/commits/store_watch.hpp"

namespace lanemq::io {

/// Operators' wish that another broker goes on with a shared store. Not thread-safe; belongs to the loop.
class OwnershipDesk {
 public:
  /// All outlive it.
  OwnershipDesk(core::Broker& broker, const StoreWatch& store, const TransportStats& stats)
      : broker_(broker), store_(store), stats_(stats) {}

  /// Answers an operator, and begins the handover unless it is refused or only tried. Refused where no other
  /// broker could go on: the store is not shared, commits nothing now, or is given back already.
  void asked(const core::Origin& from, const wire::AdminQuery& query, std::string_view who);
  /// The broker has promised to end.
  bool hands_over() const { return hands_over_; }

 private:
  core::Broker& broker_;
  const StoreWatch& store_;
  const TransportStats& stats_;
  bool hands_over_ = false;
};

}  // namespace lanemq::io
