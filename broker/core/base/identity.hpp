// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::core {

/// The identity that a peer has proved by its key, and what that key allows. The adapter makes it; views of
/// it are valid during one event.
struct Identity {
  enum class Role : unsigned char {
    client,   ///< jobs of its own
    gateway,  ///< jobs for clients that it names
    worker    ///< does jobs
  };

  std::string name;  ///< of the key
  Role role = Role::client;
  std::string space;  ///< of a tenant's ids and clients: `@TENANT/`; empty: the space of those without
  std::vector<std::string> services, lanes;  ///< empty: all
  bool trust_cost = false;                   ///< what it states of a job's cost counts, whatever the body

  bool may_use_service(std::string_view service) const { return allows(services, service); }
  /// A gateway knows what calls it makes.
  bool may_state_cost() const { return trust_cost || role == Role::gateway; }
  bool may_use_lane(std::string_view lane) const { return allows(lanes, lane); }

  bool operator==(const Identity&) const = default;

 private:
  static bool allows(const std::vector<std::string>& allowed, std::string_view name) {
    return allowed.empty() || std::find(allowed.begin(), allowed.end(), name) != allowed.end();
  }
};

/// The first character of a tenant's ids and clients; no peer may begin a name of its own with it. So the
/// spaces of tenants are apart from each other and from that of peers without a tenant, in every table and in
/// the store, without a field of their own.
inline constexpr char kSpaceMark = '@';

inline std::string space_of(std::string_view tenant) {
  return tenant.empty() ? std::string() : kSpaceMark + std::string(tenant) + '/';
}

/// The tenant of a name in a tenant's space; else empty.
inline std::string_view tenant_of(std::string_view name) {
  if (name.empty() || name.front() != kSpaceMark) return {};
  return name.substr(1, std::min(name.find('/'), name.size()) - 1);
}

/// A name as its tenant knows it: without the space.
inline std::string_view own_name(std::string_view name) {
  if (name.empty() || name.front() != kSpaceMark) return name;
  return name.substr(std::min(name.find('/'), name.size() - 1) + 1);
}

}  // namespace lanemq::core
