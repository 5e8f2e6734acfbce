// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>
#include <tl/expected.hpp>

#include "common/postgres/hosts.hpp"
#include "common/postgres/values.hpp"

/// libpq with owners, deadlines and results. Independent of the project.
namespace lanemq::postgres {

/// An error of the server, or of the way to it.
struct Fault {
  std::string state;    ///< its SQLSTATE; empty: the connection is lost, or could not be made
  std::string message;  ///< one line, without the connection's secrets

  /// The server is gone, is going, or is not the one that is wanted: another connection may do.
  bool lost() const;
  /// The statement is good, and may do later by the same connection: the server has no room for it, on the
  /// disk, in memory or for connections, has rolled it back for the sake of others, or refused it a lock, or
  /// an operator has cancelled it.
  bool passes() const;
  /// Either: the same may be tried again.
  bool is_for_now() const { return lost() || passes(); }
  /// No room on the server's disk; nothing was changed.
  bool full() const { return state == "53100"; }
};

template <class T>
using Outcome = tl::expected<T, Fault>;

using Clock = std::chrono::steady_clock;

/// What a statement has answered. Views are valid while it lives.
class Answer {
 public:
  Answer() = default;
  explicit Answer(PGresult* result) : result_(result) {}

  int rows() const { return PQntuples(result_.get()); }
  bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) == 1; }
  /// A value in binary form.
  std::string_view bytes(int row, int column) const {
    return {PQgetvalue(result_.get(), row, column),
            static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
  }
  /// Requires: an int8.
  std::int64_t integer(int row, int column) const { return int64_of(bytes(row, column)); }
  /// The rows that were changed; 0 where the statement changes none.
  std::int64_t changed() const;
  /// What was done, as in `UPDATE 1`.
  std::string_view tag() const { return PQcmdStatus(result_.get()); }
  const PGresult* result() const { return result_.get(); }

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

/// Which server a connection wants.
enum class Server : std::uint8_t {
  any,
  writable,  ///< a primary, of several hosts the first one that is
};

/// How a connection is made. To another machine it is encrypted where the string says nothing of `sslmode`:
/// libpq's default takes a server that says it has no TLS, and tells it the password.
struct Target {
  std::string conninfo;                       ///< as libpq reads it; checked by problem_of()
  std::string application = "lanemq-broker";  ///< as the server's lists show it
  std::string search_path;  ///< the one schema in which names are looked up; empty: the role's
};

/// Why a connection string cannot be used; none: it can. Nothing is connected.
std::optional<std::string> problem_of(const std::string& conninfo);

/// Takes libpq's variables (PGHOST and its like) out of the environment: what is not in the connection string
/// then has libpq's default. Requires: the process has one thread.
void ignore_environment();

/// For people, without secrets: hosts, ports, database and user, as far as it names them, and whether it is
/// encrypted.
std::string shown(const std::string& conninfo);

/// A connection. One thread at a time uses it. It never cancels a statement: a commit whose wait for a
/// standby is cancelled reports success.
///
class Connection {
 public:
  Connection() = default;
  /// Tries each host and address for `connect_timeout` of the connection string, else kHostSeconds. The first
  /// one that is a `server` of the kind is taken.
  static Outcome<Connection> open(const Target& target, Server server);
  /// Passes a connection to each such server to `take`, until that returns false. A Fault: there was none.
  static Outcome<void> open_each(const Target& target, Server server,
                                 const std::function<bool(Connection)>& take);
  static constexpr int kHostSeconds = 2;
  /// The SQLSTATE with which a server refuses to connect, as for a database that is not there, which libpq
  /// tells only where it is asked alone for that: so it connects once more, for kHostSeconds a host. Empty:
  /// no server has refused.
  static std::string refusal(const Target& target);

  bool is_open() const { return connection_ != nullptr; }
  void close() { connection_.reset(); }
  /// Asked several times a second while an answer is waited for: true gives that up, as its end would. Not
  /// asked while a connection is made. Empty: never.
  void give_up_when(std::function<bool()> over) { over_ = std::move(over); }

  /// The process that serves it, as was said when it was made: of the server's, or a name that a pooler has
  /// given it.
  int process() const { return PQbackendPID(connection_.get()); }

  /// A name as statements spell it; empty: it has bytes that no name may have.
  std::string quoted(const std::string& name) const;

  /// Runs one statement to its end. `end` gives it up, and the connection with it: a Fault without state.
  Outcome<Answer> run(const std::string& sql, const Values& values, Clock::time_point end);
  Outcome<Answer> run(const std::string& sql, Clock::time_point end) { return run(sql, Values(), end); }
  /// Several statements without parameters or rows, one transaction.
  Outcome<void> run_script(const std::string& sql, Clock::time_point end);
  /// Passes each row of `COPY (...) TO STDOUT (FORMAT binary)` to `take`, until that returns false. Returns
  /// whether it took all of them; a connection of which it did not is closed, and so is one on which nothing
  /// came for `silence_max`.
  Outcome<bool> copy_out(const std::string& sql, std::chrono::milliseconds silence_max,
                         const std::function<bool(Fields row)>& take);

  // ---- pipelines: several statements on their way at once, in one round trip ----

  Outcome<void> begin_pipeline();
  Outcome<void> end_pipeline();
  /// Prepares a statement. Requires: no pipeline has begun.
  Outcome<void> prepare(const std::string& name, const std::string& sql, Clock::time_point end);
  /// Puts a prepared statement into the pipeline, and returns its place since the last sync. An error is
  /// found by answers_by().
  std::size_t send(const char* name, const Values& values);
  /// Ends what answers_by() waits for.
  void sync();
  /// Waits for the answers of all statements since the last sync, in their order. False: not all are there by
  /// `end`; call it again. A Fault: the connection is lost, or a statement was refused: refused() is its
  /// place, and the server has undone what belongs to its transaction.
  Outcome<bool> answers_by(Clock::time_point end);
  const std::vector<Answer>& answers() const { return answers_; }
  /// The place of the statement that was refused, counted from the last sync.
  std::size_t refused() const { return refused_; }

  /// The first warning since the last call; empty: none.
  std::string take_warning();

 private:
  enum class Waited : std::uint8_t { ready, late, lost };
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };

  static std::string refusal_of_host(const Words& words, const Target& target);
  static Outcome<Connection> open_host(const Words& words, const Target& target, Server server);
  Waited wait(Clock::time_point end);
  Fault fault_of_connection() const;
  static Fault fault_of(const PGresult* result);
  Outcome<Answer> finish_run(Clock::time_point end);
  Fault give_up(const char* what);

  std::unique_ptr<PGconn, Finish> connection_;
  std::unique_ptr<std::string> warning_;  ///< its place is known to libpq, so it does not move
  std::vector<Answer> answers_;
  std::size_t refused_ = 0;
  std::size_t sent_ = 0;          ///< statements since the last sync
  std::optional<Fault> refusal_;  ///< of the statements since the last sync
  bool send_failed_ = false;
  std::function<bool()> over_;
};

}  // namespace lanemq::postgres
