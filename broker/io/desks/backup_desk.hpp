// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <lanemq/codec.hpp>

#include "broker/core/broker.hpp"
#include "broker/io/store/store.hpp"

namespace lanemq::io {

/// Operators' backups: the store copies itself while work goes on, one copy at a time; the operator is
/// answered at its end. Not thread-safe; belongs to the loop.
class BackupDesk {
 public:
  /// Both outlive it.
  BackupDesk(core::Broker& broker, Store& store) : broker_(broker), store_(store) {}

  void begin(const core::Origin& from, const wire::AdminQuery& query);
  /// Answers the operator whose backup has ended, if one has.
  void answer_ended();

 private:
  /// The operator who asked for a backup.
  struct Asked {
    std::string address, envelope, ref, path;

    core::Origin from() const {
      return {.address = address, .envelope = envelope, .peer = core::Peer::admin};
    }
  };
  void refuse(const Asked& asked, const Error& why);

  core::Broker& broker_;
  Store& store_;
  std::optional<Asked> asked_;
};

}  // namespace lanemq::io
