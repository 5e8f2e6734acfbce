// SPDX-License-Identifier: Apache-2.0
#include "common/settings/broker_keys.hpp"

#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::settings {

CurveKeys read_broker_keys(const BrokerKeys& said, const Environment& environment) {
  CurveKeys keys{.broker = said.broker_key};
  if (!said.secret_key.empty())
    about("secret_key", [&] { keys.secret = read_secret(said.secret_key, environment); });
  if (const std::string why = keys.why_unusable(); !why.empty())
    throw UsageError("broker_key and secret_key: " + why + "; lanemq keygen makes keys");
  return keys;
}

}  // namespace lanemq::settings
