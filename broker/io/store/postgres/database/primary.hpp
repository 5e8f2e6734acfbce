// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "broker/io/store/postgres/database/owner_row.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// A server that takes writes, and what it knows.
struct Primary {
  postgres::Connection connection;
  OwnerRow row;               ///< epoch -1: there are no tables yet
  std::int64_t timeline = 0;  ///< grows with each promotion; 0: the server does not say

  /// Whether it knows of a later commit than this row, or else of a later promotion.
  bool is_ahead_of(const OwnerRow& other, std::int64_t other_timeline) const;
};

/// Connects to all hosts and returns the one that is ahead of all others that take writes. There are two
/// where a primary hung, a standby was promoted in its place, and then the former one goes on: it takes
/// connections as before, and commits that wait for standbys which it has no more. A host that says nothing
/// takes postgres::Connection::kHostSeconds.
postgres::Outcome<Primary> find_primary(const postgres::Target& target);

/// Whether the state of a Fault says that the database is not there, or that the role may not connect to it.
bool refuses_connection(std::string_view state);

/// Connects to a host that takes writes, for somebody who checks what is written in a configuration. The
/// Fault is not lost() where the database is not there or the role may not connect: to a broker that runs
/// this may pass, who checks it is to mend it.
postgres::Outcome<postgres::Connection> open_to_check(const postgres::Target& target);

}  // namespace lanemq::io
