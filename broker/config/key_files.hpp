// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/config.hpp"
#include "common/settings/environment.hpp"
#include "common/settings/values.hpp"

namespace lanemq {

/// The fields of a key's file.
struct KeyFile {
  std::string public_key, role, tenant;
  std::vector<std::string> services, lanes;
  bool trust_cost = false;
  settings::Moment not_after = settings::kNever;
  core::ClientOptions limits;  ///< of its client
};
const settings::Options<KeyFile>& key_file_table();
/// The file that would make this key; its limits are not part of a key.
KeyFile file_of(const io::PeerKey& key);

/// Reads the broker's own key, and those of its peers, one a file `NAME.toml` of the folder; the limits that
/// they state become entries of `config.core.clients`. Does nothing where `secret_key` is not set. Throws
/// ConfigError with the file and its line.
void read_peer_keys(Config& config, const settings::Environment& environment);

}  // namespace lanemq
