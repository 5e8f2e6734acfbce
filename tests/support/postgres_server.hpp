// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <sys/types.h>

#include "tests/support/temporary_directory.hpp"

namespace lanemq::test {

/// A PostgreSQL server of the tests' own, in a folder that goes with it, reached by a socket in there. Run as
/// root it belongs to `nobody`, since PostgreSQL refuses root.
class PostgresServer {
 public:
  /// Tests do not sync: what they look at is what other sessions see. Benchmarks do, in a folder on a disk.
  enum class Sync : bool { no, yes };

  /// Starts it. Throws std::runtime_error where there are no programs of PostgreSQL.
  explicit PostgresServer(Sync sync = Sync::no,
                          const std::filesystem::path& in = std::filesystem::temp_directory_path());
  /// A standby of the primary: a copy of it that follows, and that each of its commits waits for.
  PostgresServer(const PostgresServer& primary, Sync sync, const std::filesystem::path& in);
  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  /// Its socket file.
  std::string socket() const;
  /// How libpq reaches it.
  std::string conninfo() const;
  /// Ends it as a crash does, and starts it again.
  void crash_and_start();
  /// Stops and continues all of its processes.
  void stop_processes();
  void continue_processes();

  /// One for all tests of a program, started by the first that asks.
  static PostgresServer& shared();

 private:
  void make_folder();
  void make_by(const std::string& program, std::initializer_list<std::string> arguments);
  void start();
  void kill_all(int signal) const;

  const Sync sync_;
  const TemporaryDirectory folder_;
  pid_t process_ = -1;  ///< leads a group of its own
};

}  // namespace lanemq::test
