// SPDX-License-Identifier: Apache-2.0
#include "broker/io/postgres/candidate.hpp"

#include <chrono>
#include <utility>

#include "broker/io/postgres/postgres_schema.hpp"

namespace lanemq::io {
namespace {

using postgres::Connection;
using postgres::Outcome;
using postgres::Server;

}  // namespace

Outcome<std::optional<OwnerRow>> Candidate::look() {
  auto seen = connect().and_then([&] { return read_and_take(); });
  if (seen) return seen;
  // Nobody saw meanwhile whether the owner is alive.
  watch_.blind();
  connection_.close();
  if (!seen.error().lost()) return seen;
  status_ = "the database cannot be used now: " + seen.error().message;
  return std::optional<OwnerRow>();
}

Outcome<void> Candidate::connect() {
  if (connection_.is_open()) return {};
  auto made = Connection::open(place_.target, Server::writable);
  if (!made) return tl::unexpected(std::move(made.error()));
  connection_ = std::move(*made);
  return make_schema(connection_, place_.target.search_path, postgres::Clock::now() + kStatementMax);
}

Outcome<std::optional<OwnerRow>> Candidate::read_and_take() {
  const auto now = postgres::Clock::now();
  const auto row = read_owner(connection_, now + kStatementMax);
  if (!row) return tl::unexpected(row.error());
  if (!watch_.may_take(*row, now)) {
    status_ = "\"" + row->instance + "\" owns the store (epoch " + std::to_string(row->epoch) + ")";
    return std::optional<OwnerRow>();
  }
  const auto taken = take_ownership(connection_, *row, instance_, postgres::Clock::now() + kStatementMax);
  if (!taken) return tl::unexpected(taken.error());
  if (*taken) return std::optional(OwnerRow{.epoch = row->epoch + 1, .ticket = 0, .instance = instance_});
  status_ = "another candidate was faster";
  return std::optional<OwnerRow>();
}

}  // namespace lanemq::io
