// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lanemq/result.hpp>

#include "broker/io/store/postgres/net_writes.hpp"
#include "broker/io/store/store.hpp"
#include "broker/io/store/store_exchange.hpp"
#include "common/postgres/connection.hpp"

namespace lanemq::io {

/// Turns writes into statements, and rows into what the loop asked for. Stateless: what is prepared belongs
/// to the connection.

/// Which commit this is.
struct Fence {
  std::int64_t epoch = 0, ticket = 0, claim = 0;
};

/// The place of the fence among the answers of a batch, after BEGIN.
inline constexpr std::size_t kFencePlace = 1;
/// PostgreSQL's code for a division by zero: the fence, or a count of rows that differs.
inline constexpr const char* kDivisionByZero = "22012";

/// Puts one transaction into the connection's pipeline: the fence, all of `net`, the commit. It is committed
/// whole or not at all; a row that was to be changed and is not there refuses it. Uses the bytes of `net`
/// until it returns. Returns the places of the statements that divide by zero where the parts of a body that
/// was put ahead are not there. Requires: prepare_statements(), and that a pipeline has begun.
std::vector<std::size_t> send_batch(postgres::Connection& connection, const Fence& fence,
                                    const NetWrites& net);
/// Whether the last answer says that the transaction was committed.
bool is_committed(const postgres::Connection& connection);

/// Undoes a transaction that was refused, so that the next one can begin.
postgres::Outcome<bool> undo(postgres::Connection& connection, postgres::Clock::time_point end);

/// Reads bodies of jobs, or results, in the order asked. A Fault of state "XX001": a row is not what was
/// written. Requires: at most kAskedAtOnce, all of one kind.
inline constexpr std::size_t kAskedAtOnce = 64;
postgres::Outcome<std::vector<StoredBody>> read_rows(postgres::Connection& connection,
                                                     std::span<const StoreExchange::Asked> asked,
                                                     postgres::Clock::time_point end);

/// Passes all rows to the reader: notes, jobs, results. The reader's error is returned as it is; one of the
/// server, or a wrong checksum, names `place`. `unavailable`: the connection was lost on the way, or
/// the server had a reason that passes.
/// `parts`: gets the keys of all parts that rows name.
Result<void> tell_rows(postgres::Connection& connection, StoreReader& reader, const std::string& place,
                       std::vector<std::int64_t>& parts);

}  // namespace lanemq::io
