// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/settings/environment.hpp"
#include "worker/handlers/webhook/hook_signature.hpp"
#include "worker/secrets.hpp"

namespace lanemq::worker {

/// The secrets that a webhook service signs with, and where they stand. A source has one secret, or several
/// with white space between them; together they are WebhookOptions::kSecretsMax at the most. Not thread-safe.
class HookSecretSources {
 public:
  /// Reads them. Throws UsageError, with the source, where one is missing or no secret of a webhook.
  HookSecretSources(const std::string& service, std::vector<std::string> sources, Environment environment);

  /// Reads all again. Where one cannot be read, or they are too many, all keep their values.
  std::vector<SecretChange> read_again();
  /// As they were read last, in the order of the sources.
  std::vector<HookSecret> secrets() const;

  /// Takes the variables among the sources out of the process's environment (settings::hide_secret()).
  void hide_variables() const;

 private:
  std::vector<std::string> read() const;

  const std::string service_;
  const std::vector<std::string> sources_;
  const Environment environment_;
  std::vector<std::string> texts_;  ///< each is one secret, and has been read as one
};

}  // namespace lanemq::worker
