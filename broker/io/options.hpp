// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace lanemq::io {

class Disk;

/// Options of the adapters; the core has its own.
struct ServerOptions {
  std::string clients = "tcp://127.0.0.1:5570";
  std::string workers = "tcp://127.0.0.1:5571";
  std::string admin;            ///< where operators connect
  bool admin_required = false;  ///< the broker does not start without it; else its lack is a warning
  int client_receive_hwm = 256, client_send_hwm = 1000;
  std::size_t store_backlog_max = std::size_t{64} << 20;       ///< bytes that wait for the store's disk
  std::size_t client_large_bytes_max = std::size_t{32} << 20;  ///< large bodies on their way to one client
  std::size_t client_backlog_bytes_max = std::size_t{16}
                                         << 20;            ///< answers held for one client that reads slowly
  std::size_t backlog_bytes_max = std::size_t{256} << 20;  ///< the same over all clients
  int io_threads = 1;
};

/// Options of a store.
struct StoreOptions {
  std::string specification;              ///< `memory` or `sqlite:PATH`
  std::size_t reserve_bytes = 64u << 20;  ///< of disk, kept back so that running work can finish
  int checkpoint_pages = 1000;            ///< pages in the log, after which it is written to the file
  std::string vfs{};     ///< tests: the name of SQLite's file system layer; empty: the system's
  Disk* disk = nullptr;  ///< tests: free room instead of the system's; outlives the store
};

}  // namespace lanemq::io
