// SPDX-License-Identifier: Apache-2.0
#include "broker/config/key_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include <toml++/toml.h>

#include <lanemq/curve_keys.hpp>
#include <lanemq/text.hpp>

#include "broker/config/settings.hpp"
#include "common/settings/option_reader.hpp"
#include "common/settings/secrets/secret_source.hpp"

namespace lanemq {

using settings::at_place;
using settings::place_of;

const settings::Options<KeyFile>& key_file_table() {
  using namespace settings::rows;
  static const settings::Options<KeyFile> kTable = [] {
    settings::Options<KeyFile> rows{
        text("public_key", "key", "The peer's public key, as lanemq keygen prints it.", &KeyFile::public_key),
        text("role", "client|gateway|worker", "What it may do.", &KeyFile::role),
        text("tenant", "text",
             "Whose it is: ids and clients of a tenant are a space of their own. Not for workers.",
             &KeyFile::tenant)
            .when_empty("nobody's"),
        list("services", "names", "The services that it may ask for, or do.", &KeyFile::services)
            .when_empty("all"),
        list("lanes", "names", "The lanes that it may use.", &KeyFile::lanes).when_empty("all"),
        yes_or_no("trust_cost",
                  "Takes the `cost` of its jobs as it is stated, also where their bodies show more. A "
                  "gateway's is always taken so.",
                  &KeyFile::trust_cost),
        moment("not_after",
               "A date, whose last second is the key's (UTC), or a date with a time: after it the key counts "
               "no more.",
               &KeyFile::not_after)};
    // The bounds of its client, under the names that they have in [clients.NAME].
    for (const settings::Option<core::ClientOptions>& row : config::client_table()) {
      if (row.key == "tenant") continue;
      settings::Option<KeyFile> of_key{
          row, [&row](const KeyFile& file) { return row.get(file.limits); },
          [&row](KeyFile& file, const settings::Values& values) { row.set(file.limits, values); }};
      rows.push_back(std::move(of_key));
    }
    return rows;
  }();
  return kTable;
}

namespace {

using core::Identity;

constexpr std::array<std::pair<Identity::Role, std::string_view>, 3> kRoles{{
    {Identity::Role::client, "client"},
    {Identity::Role::gateway, "gateway"},
    {Identity::Role::worker, "worker"},
}};

std::string_view word_of(Identity::Role role) {
  return std::find_if(kRoles.begin(), kRoles.end(), [&](const auto& row) { return row.first == role; })
      ->second;
}

}  // namespace

KeyFile file_of(const io::PeerKey& key) {
  return {.public_key = key.public_key,
          .role = std::string(word_of(key.identity.role)),
          .tenant = std::string(core::tenant_of(key.identity.space)),
          .services = key.identity.services,
          .lanes = key.identity.lanes,
          .trust_cost = key.identity.trust_cost,
          .not_after = key.not_after,
          .limits = {}};
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKeysMax = 10'000;
constexpr std::size_t kFileBytesMax = std::size_t{64} * 1024;
constexpr std::string_view kSuffix = ".toml";
/// Bound on a key's name and on a tenant's: both together begin an id.
constexpr std::size_t kNameMax = 32;

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() <= kNameMax && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                  c == '_' || c == '-';
         });
}

void require_plain(const std::string& name, const char* what) {
  if (!is_plain_name(name))
    throw ConfigError(std::string(what) + " \"" + printable(name, 64) + "\" must be 1 to " +
                      std::to_string(kNameMax) + " letters, digits, and . _ - behind the first");
}

Identity::Role role_of(const std::string& text) {
  for (const auto& [role, word] : kRoles)
    if (text == word) return role;
  throw ConfigError("role \"" + printable(text, 64) + "\" is not known; write client, gateway or worker");
}

/// The bounds of the key's client, as an entry of [clients]; none where it states none.
std::optional<core::ClientOptions> limits_of(const KeyFile& file, const Identity& identity) {
  const core::ClientOptions none;
  const auto& rows = config::client_table();
  if (std::all_of(rows.begin(), rows.end(),
                  [&](const auto& row) { return row.get(file.limits) == row.get(none); }))
    return std::nullopt;
  if (identity.role == Identity::Role::worker)
    throw ConfigError("a worker's key has no client, so bounds of one mean nothing; leave them out");
  if (identity.role == Identity::Role::gateway && identity.space.empty())
    throw ConfigError(
        "the key of a gateway without a tenant names clients of its own; bound them with "
        "[clients.NAME] in the broker's file");
  core::ClientOptions limits = file.limits;
  limits.name = identity.space + (identity.role == Identity::Role::gateway ? "*" : identity.name);
  return limits;
}

/// A user who can write there could let himself in, as anybody.
void require_not_everybodys(const fs::path& path) {
  std::error_code error;
  if ((fs::status(path, error).permissions() & fs::perms::others_write) == fs::perms::none || error) return;
  throw ConfigError(
      "may be written by everybody on this machine, who could make a key of his own count; chmod o-w it");
}

/// A pipe or a device would be read for ever.
void require_small_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw ConfigError("is no file");
  if (const auto bytes = fs::file_size(path, error); error || bytes > kFileBytesMax)
    throw ConfigError("has more than " + std::to_string(kFileBytesMax) + " bytes; that is no key");
}

void read_key_file(const fs::path& path, Config& config) {
  const std::string shown = path.string();
  KeyFile file;
  io::PeerKey key;
  key.identity.name = path.stem().string();
  at_place(shown, [&] { require_plain(key.identity.name, "the name of a key's file"); });
  at_place(shown, [&] { require_small_file(path); });
  at_place(shown, [&] { require_not_everybodys(path); });
  const toml::table table = settings::parse_file(shown);
  settings::Heard heard;
  settings::refuse_empty(shown, table);
  settings::read_table(shown, table, "", bound(key_file_table(), file), heard);
  at_place(shown, [&] {
    if (!is_curve_key(file.public_key))
      throw ConfigError("public_key is " + std::string(file.public_key.empty() ? "missing" : "no key") +
                        "; lanemq keygen makes one of 40 characters");
    if (file.role.empty()) throw ConfigError("role is missing; write client, gateway or worker");
    key.public_key = file.public_key;
    key.not_after = file.not_after;
    key.identity.role = role_of(file.role);
    if (!file.tenant.empty()) require_plain(file.tenant, "tenant");
    if (!file.tenant.empty() && key.identity.role == Identity::Role::worker)
      throw ConfigError(
          "workers serve all tenants; leave tenant out, and bound the key with services and lanes");
    key.identity.space = core::space_of(file.tenant);
    key.identity.services = file.services;
    key.identity.lanes = file.lanes;
    if (file.trust_cost && key.identity.role == Identity::Role::worker)
      throw ConfigError("a worker's key submits no jobs, so trust_cost means nothing; leave it out");
    key.identity.trust_cost = file.trust_cost;
    for (const std::string& lane : file.lanes)
      if (std::none_of(config.core.lanes.begin(), config.core.lanes.end(),
                       [&](const auto& known) { return known.name == lane; }))
        throw ConfigError("there is no lane \"" + printable(lane, 64) + '"');
    for (const io::PeerKey& other : config.server.keys)
      if (other.public_key == key.public_key)
        throw ConfigError("has the public key of key \"" + other.identity.name +
                          "\"; each peer needs its own");
    if (auto limits = limits_of(file, key.identity)) {
      config::refuse_twice(config.core.clients, "client", limits->name);
      config.heard.places["clients." + limits->name] = shown;
      config.core.clients.push_back(std::move(*limits));
    }
  });
  config.server.keys.push_back(std::move(key));
}

/// The files of keys in a folder, by name.
std::vector<fs::path> key_files_in(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.front() == '.' || !name.ends_with(kSuffix)) continue;
    files.push_back(entry->path());
    if (files.size() > kKeysMax)
      throw ConfigError("keys_folder " + folder + " holds more than " + std::to_string(kKeysMax) + " keys");
  }
  if (error) throw ConfigError("keys_folder " + folder + " cannot be read: " + error.message());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

void read_peer_keys(Config& config, const settings::Environment& environment) {
  if (config.secret_key.empty() && config.keys_folder.empty()) return;
  if (config.secret_key.empty())
    throw ConfigError(
        "keys_folder is set and secret_key is not: without a key of its own the broker can ask "
        "for none; lanemq keygen --broker makes one");
  if (config.keys_folder.empty())
    throw ConfigError(
        "secret_key is set and keys_folder is not: nobody could connect; name the folder with "
        "the keys of clients and workers");
  at_place("secret_key", [&] {
    config.server.secret_key = settings::read_secret(config.secret_key, environment);
    if (!is_curve_key(config.server.secret_key))
      throw ConfigError("what " + printable(config.secret_key) +
                        " holds is no key; lanemq keygen --broker makes one of 40 characters");
  });
  at_place("keys_folder " + config.keys_folder, [&] { require_not_everybodys(config.keys_folder); });
  config.server.keys.clear();
  for (const fs::path& path : key_files_in(config.keys_folder))
    read_key_file(path, config);
  check_config(config);  // includes the bounds that the files state
}

}  // namespace lanemq
