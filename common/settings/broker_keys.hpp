// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <lanemq/curve_keys.hpp>

#include "common/settings/environment.hpp"
#include "common/settings/option.hpp"

namespace lanemq::settings {

/// What a program that connects to a broker is told of keys, as written.
struct BrokerKeys {
  std::string broker_key;  ///< the broker's public key
  std::string secret_key;  ///< where its own one is: a secret's source
};

/// The rows of a Settings whose member `broker_keys` that is.
template <class Settings>
Option<Settings> broker_key_row() {
  return rows::text("broker_key", "key", "The broker's public key, where it asks for keys.",
                    &Settings::broker_keys, &BrokerKeys::broker_key)
      .when_empty("it asks for none");
}
template <class Settings>
Option<Settings> secret_key_row() {
  return rows::text("secret_key", "source",
                    "This program's own key for the broker: file:PATH, credential:NAME or env:VARIABLE; "
                    "lanemq keygen makes it.",
                    &Settings::broker_keys, &BrokerKeys::secret_key)
      .when_empty("none");
}

/// Reads the keys. Throws UsageError where one of both is missing, or is no key.
CurveKeys read_broker_keys(const BrokerKeys& said, const Environment& environment);

}  // namespace lanemq::settings
