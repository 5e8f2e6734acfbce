// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/postgres_rows.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include <absl/container/flat_hash_map.h>

#include "broker/io/store/postgres/database/postgres_schema.hpp"
#include "broker/io/store/postgres/postgres_statements.hpp"
#include "broker/io/store/row_checksums.hpp"

namespace lanemq::io {
namespace {

using postgres::Answer;
using postgres::Clock;
using postgres::Connection;
using postgres::Fault;
using postgres::Fields;
using postgres::Outcome;
using postgres::Values;
using Bytes = std::optional<std::string_view>;

/// A load gives up a server that says nothing for so long.
constexpr std::chrono::milliseconds kSilenceMax = std::chrono::minutes(1);

std::int64_t key(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

bool comes_with_load(std::size_t body_bytes) {
  return body_bytes <= kLoadedBodyBytesMax;
}

std::int64_t parts_in(std::size_t body_bytes) {
  return static_cast<std::int64_t>((body_bytes + kPartBytes - 1) / kPartBytes);
}

/// The part of a row's body in its checksum: a load does not read more.
std::string_view loaded_part(std::string_view body) {
  return comes_with_load(body.size()) ? body : std::string_view();
}

std::int64_t sum_of_result(std::uint64_t number, std::string_view record, std::string_view body,
                           std::size_t body_bytes) {
  return result_checksum(number, record, body, body_bytes - body.size());
}

/// The columns that new jobs and new results have alike, as the statements take them.
struct NewRows {
  std::vector<std::int64_t> numbers, sums, body_sums, body_bytes, parts_of;
  std::vector<Bytes> records, bodies;

  /// `sum`: the row's checksum.
  void add(std::uint64_t number, std::int64_t sum, std::string_view record, std::string_view body,
           NetWrites::Parts parts) {
    numbers.push_back(key(number));
    sums.push_back(sum);
    body_sums.push_back(body_checksum(body));
    body_bytes.push_back(static_cast<std::int64_t>(body.size()));
    parts_of.push_back(parts.key);
    records.emplace_back(record);
    bodies.push_back(parts.key == 0 ? Bytes(body) : Bytes());
  }
};

/// Sends a large body, or has the server look whether it is there; `looks` gets that statement's place.
void send_parts(Connection& connection, NetWrites::Parts parts, std::string_view body,
                std::vector<std::size_t>& looks) {
  if (parts.key == 0) return;
  // They may have been put at another server, and one that has lost commits may have lost these alone.
  if (parts.put) {
    looks.push_back(
        connection.send(kCheckParts.name, Values().integer(parts.key).integer(parts_in(body.size()))));
    return;
  }
  // One statement a part: an array of all would be copied as a whole.
  for (std::size_t at = 0; at < body.size(); at += kPartBytes)
    connection.send(kInsertPart.name, Values()
                                          .integer(parts.key)
                                          .integer(static_cast<std::int64_t>(at / kPartBytes))
                                          .bytes(body.substr(at, kPartBytes)));
}

void send_erasures(Connection& connection, const NetWrites& net) {
  const auto send = [&](const Statement& statement, const std::vector<std::uint64_t>& numbers) {
    if (numbers.empty()) return;
    std::vector<std::int64_t> keys(numbers.size());
    std::transform(numbers.begin(), numbers.end(), keys.begin(), key);
    connection.send(statement.name, Values().integers(keys));
  };
  send(kEraseJobs, net.erased_jobs);
  send(kEraseResults, net.erased_results);
  if (net.erased_notes.empty()) return;
  const std::vector<Bytes> names(net.erased_notes.begin(), net.erased_notes.end());
  connection.send(kEraseNotes.name, Values().bytes_array(names));
}

void send_changed_jobs(Connection& connection, const NetWrites& net) {
  if (net.changed_jobs.empty()) return;
  std::vector<std::int64_t> numbers, renamed, sums;
  std::vector<Bytes> states;
  for (const NetWrites::ChangedJob& job : net.changed_jobs) {
    numbers.push_back(key(job.number));
    renamed.push_back(key(job.renamed));
    states.emplace_back(job.state);
    sums.push_back(state_checksum(job.renamed, job.state));
  }
  Columns(numbers.size())
      .integers(numbers)
      .integers(renamed)
      .bytes(states)
      .integers(sums)
      .and_their_count()
      .send(connection, kChangeJobs);
}

void send_new_jobs(Connection& connection, const NetWrites& net, std::vector<std::size_t>& looks) {
  if (net.new_jobs.empty()) return;
  NewRows rows;
  std::vector<std::int64_t> state_sums;
  std::vector<Bytes> states;
  for (const NetWrites::NewJob& job : net.new_jobs) {
    send_parts(connection, job.parts, job.body, looks);
    rows.add(job.number, job_checksum(job.record, loaded_part(job.body), job.body.size()), job.record,
             job.body, job.parts);
    state_sums.push_back(state_checksum(job.number, job.state));
    states.emplace_back(job.state);
  }
  Columns(rows.numbers.size())
      .integers(rows.numbers)
      .integers(state_sums)
      .integers(rows.sums)
      .integers(rows.body_sums)
      .integers(rows.body_bytes)
      .integers(rows.parts_of)
      .bytes(states)
      .bytes(rows.records)
      .bytes(rows.bodies)
      .send(connection, kInsertJobs);
}

void send_new_results(Connection& connection, const NetWrites& net, std::vector<std::size_t>& looks) {
  if (net.new_results.empty()) return;
  NewRows rows;
  for (const NetWrites::NewResult& result : net.new_results) {
    send_parts(connection, result.parts, result.body, looks);
    rows.add(result.number,
             sum_of_result(result.number, result.record, loaded_part(result.body), result.body.size()),
             result.record, result.body, result.parts);
  }
  Columns(rows.numbers.size())
      .integers(rows.numbers)
      .integers(rows.sums)
      .integers(rows.body_sums)
      .integers(rows.body_bytes)
      .integers(rows.parts_of)
      .bytes(rows.records)
      .bytes(rows.bodies)
      .send(connection, kInsertResults);
}

void send_put_notes(Connection& connection, const NetWrites& net) {
  if (net.put_notes.empty()) return;
  std::vector<Bytes> names, records;
  std::vector<std::int64_t> sums;
  for (const NetWrites::Note& note : net.put_notes) {
    names.emplace_back(note.name);
    sums.push_back(note_checksum(note.name, note.record));
    records.emplace_back(note.record);
  }
  Columns(names.size()).bytes(names).integers(sums).bytes(records).send(connection, kPutNotes);
}

tl::unexpected<Fault> damaged(const char* kind, std::int64_t number) {
  return tl::unexpected(Fault{
      .state = "XX001", .message = std::string(kind) + std::to_string(number) + " is not what was written"});
}

/// Joins the parts of a body.
Outcome<std::string> read_parts(Connection& connection, std::int64_t number, Clock::time_point end) {
  const auto rows =
      connection.run("SELECT bytes FROM body WHERE number = $1 ORDER BY part", Values().integer(number), end);
  if (!rows) return tl::unexpected(rows.error());
  std::string body;
  for (int row = 0; row < rows->rows(); ++row)
    body += rows->bytes(row, 0);
  return body;
}

/// Columns of both queries: number, record, body or NULL, its size, its checksum, the row's, where its parts
/// are.
Outcome<StoredBody> read_row(Connection& connection, const Answer& rows, int row, bool of_result,
                             Clock::time_point end) {
  const std::int64_t number = rows.integer(row, 0);
  const std::string_view record = rows.bytes(row, 1);
  const auto body_bytes = static_cast<std::size_t>(rows.integer(row, 3));
  StoredBody found{.number = static_cast<std::uint64_t>(number), .body = {}, .of_result = of_result};
  if (rows.is_null(row, 2)) {
    auto joined = read_parts(connection, rows.integer(row, 6), end);
    if (!joined) return tl::unexpected(std::move(joined.error()));
    found.body = Blob::copy(*joined);
  } else {
    found.body = Blob::copy(rows.bytes(row, 2));
  }
  const std::string_view body = found.body->bytes();
  const std::int64_t sum = of_result ? sum_of_result(found.number, record, loaded_part(body), body_bytes)
                                     : job_checksum(record, loaded_part(body), body_bytes);
  if (body.size() != body_bytes || body_checksum(body) != rows.integer(row, 4) || sum != rows.integer(row, 5))
    return damaged(of_result ? "result " : "the body of job ", number);
  if (of_result) found.record = record;
  return found;
}

}  // namespace

std::vector<std::size_t> send_batch(Connection& connection, const Fence& fence, const NetWrites& net) {
  std::vector<std::size_t> looks;
  connection.send(kBegin.name, Values());
  connection.send(kFence.name, Values().integer(fence.epoch).integer(fence.ticket).integer(fence.claim));
  send_erasures(connection, net);
  send_changed_jobs(connection, net);
  send_new_jobs(connection, net, looks);
  send_new_results(connection, net, looks);
  send_put_notes(connection, net);
  connection.send(kCommit.name, Values());
  connection.sync();
  return looks;
}

bool is_committed(const Connection& connection) {
  if (connection.answers().empty()) return false;
  // A transaction that had failed ends with ROLLBACK, whatever was asked.
  return connection.answers().back().tag() == "COMMIT";
}

Outcome<bool> undo(Connection& connection, Clock::time_point end) {
  connection.send(kRollback.name, Values());
  connection.sync();
  return connection.answers_by(end);
}

Outcome<std::vector<StoredBody>> read_rows(Connection& connection,
                                           std::span<const StoreExchange::Asked> asked,
                                           Clock::time_point end) {
  const bool of_result = asked.front().of_result;
  std::vector<std::int64_t> keys;
  for (const StoreExchange::Asked& one : asked)
    keys.push_back(key(one.number));
  const auto rows = connection.run(
      of_result ? "SELECT number, record, body, body_bytes, body_checksum, checksum, parts_of FROM result "
                  "WHERE number = ANY ($1)"
                : "SELECT number, record, body, body_bytes, body_checksum, checksum, parts_of FROM job "
                  "WHERE number = ANY ($1)",
      Values().integers(keys), end);
  if (!rows) return tl::unexpected(rows.error());
  absl::flat_hash_map<std::uint64_t, int> row_of;
  for (int row = 0; row < rows->rows(); ++row)
    row_of[static_cast<std::uint64_t>(rows->integer(row, 0))] = row;
  std::vector<StoredBody> found;
  for (const StoreExchange::Asked& one : asked) {
    const auto row = row_of.find(one.number);
    if (row == row_of.end()) {
      found.push_back({.number = one.number, .body = {}, .of_result = of_result});
      continue;
    }
    auto body = read_row(connection, *rows, row->second, of_result, end);
    if (!body) return tl::unexpected(std::move(body.error()));
    found.push_back(std::move(*body));
  }
  return found;
}

namespace {

/// Passes each row of a query to `each`; an error of `each` ends the reading.
template <class Each>
Result<void> for_rows(Connection& connection, const std::string& place, const char* query, const Each& each) {
  Result<void> outcome;
  const auto all = connection.copy_out(std::string("COPY (") + query + ") TO STDOUT (FORMAT binary)",
                                       kSilenceMax, [&](Fields row) {
                                         outcome = each(row);
                                         return outcome.has_value();
                                       });
  if (!outcome) return outcome;
  if (!all)
    return failure(all.error().is_for_now() || is_for_operator(all.error()) ? ErrorCode::unavailable
                                                                            : ErrorCode::internal,
                   "the store " + place + " cannot be read: " + all.error().message);
  return {};
}

tl::unexpected<Error> not_believed(const std::string& place, const std::string& what) {
  return failure(ErrorCode::internal, "the store " + place + " cannot be used: " + what +
                                          " is not what was written (its checksum differs); restore the "
                                          "database's backup");
}

}  // namespace

Result<void> tell_rows(Connection& connection, StoreReader& reader, const std::string& place,
                       std::vector<std::int64_t>& parts) {
  const auto keep = [&](const Bytes& parts_of) {
    if (parts_of) parts.push_back(postgres::int64_of(*parts_of));
  };
  const auto note = [&](Fields row) -> Result<void> {
    const std::string_view name = row.bytes_field(), record = row.bytes_field();
    const std::int64_t sum = row.int64_field();
    if (!row.whole() || note_checksum(name, record) != sum)
      return not_believed(place, "the note \"" + std::string(name) + "\"");
    return reader.note(name, record);
  };
  const auto job = [&](Fields row) -> Result<void> {
    const auto number = static_cast<std::uint64_t>(row.int64_field());
    const std::int64_t state_sum = row.int64_field(), sum = row.int64_field();
    const auto body_bytes = static_cast<std::size_t>(row.int64_field());
    const std::string_view state = row.bytes_field(), record = row.bytes_field();
    const Bytes body = row.field();
    keep(row.field());
    if (!row.whole() || state_checksum(number, state) != state_sum ||
        comes_with_load(body_bytes) != body.has_value() ||
        job_checksum(record, body.value_or(""), body_bytes) != sum)
      return not_believed(place, "job " + std::to_string(number));
    return reader.job(number, state, record, body, body_bytes);
  };
  const auto result = [&](Fields row) -> Result<void> {
    const auto number = static_cast<std::uint64_t>(row.int64_field());
    const std::int64_t sum = row.int64_field();
    const auto body_bytes = static_cast<std::size_t>(row.int64_field());
    const std::string_view record = row.bytes_field();
    const Bytes body = row.field();
    keep(row.field());
    if (!row.whole() || comes_with_load(body_bytes) != body.has_value() ||
        sum_of_result(number, record, body.value_or(""), body_bytes) != sum)
      return not_believed(place, "result " + std::to_string(number));
    return reader.result(number, record, body, body_bytes);
  };
  // 1024: kLoadedBodyBytesMax.
  static_assert(kLoadedBodyBytesMax == 1024);
  return for_rows(connection, place, "SELECT name, record, checksum FROM note ORDER BY name", note)
      .and_then([&] {
        return for_rows(connection, place,
                        "SELECT number, state_checksum, checksum, body_bytes, state, record, "
                        "CASE WHEN body_bytes <= 1024 THEN body END, parts_of FROM job ORDER BY number",
                        job);
      })
      .and_then([&] {
        return for_rows(connection, place,
                        "SELECT number, checksum, body_bytes, record, "
                        "CASE WHEN body_bytes <= 1024 THEN body END, parts_of FROM result ORDER BY number",
                        result);
      });
}

}  // namespace lanemq::io
