// SPDX-License-Identifier: Apache-2.0
//
// bench_raw_store FILE: the bare loop of libzmq and SQLite, which is the limit that durable accepts on these
// two are held against. One ROUTER: takes what is there, inserts each body into a new file, commits once,
// answers each.
//
//   client -> broker [body]      answered with ["A"] when it is on the disk
//
// Nothing is parsed, indexed, kept in memory or handed out. WAL, synchronous=FULL, one thread. Prints the
// ready line of lanemq-broker and runs until it is killed; any error ends it.
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include <sqlite3.h>
#include <zmq.hpp>

namespace lanemq::bench {
namespace {

constexpr int kMessagesPerCommitMax = 1000;

class BareStore {
 public:
  explicit BareStore(const std::string& path) {
    if (sqlite3_open(path.c_str(), &database_) != SQLITE_OK) fail();
    execute(
        "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
        "CREATE TABLE job(id INTEGER PRIMARY KEY, body BLOB NOT NULL)");
    if (sqlite3_prepare_v2(database_, "INSERT INTO job VALUES(?, ?)", -1, &insert_, nullptr) != SQLITE_OK)
      fail();
  }
  BareStore(const BareStore&) = delete;
  BareStore& operator=(const BareStore&) = delete;
  ~BareStore() {
    sqlite3_finalize(insert_);
    sqlite3_close(database_);
  }

  void begin() { execute("BEGIN"); }
  void add(const zmq::message_t& body) {
    sqlite3_bind_int64(insert_, 1, ++last_);
    sqlite3_bind_blob64(insert_, 2, body.data(), body.size(), SQLITE_STATIC);
    if (sqlite3_step(insert_) != SQLITE_DONE) fail();
    sqlite3_reset(insert_);
  }
  void commit() { execute("COMMIT"); }

 private:
  void execute(const char* sql) {
    if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) fail();
  }
  [[noreturn]] void fail() { throw std::runtime_error(sqlite3_errmsg(database_)); }

  sqlite3* database_ = nullptr;
  sqlite3_stmt* insert_ = nullptr;
  std::int64_t last_ = 0;
};

[[noreturn]] void run(const std::string& path) {
  BareStore store(path);
  zmq::context_t context;
  zmq::socket_t clients(context, zmq::socket_type::router);
  for (const auto mark : {ZMQ_SNDHWM, ZMQ_RCVHWM})
    zmq_setsockopt(clients.handle(), mark, "\0\0\0\0", sizeof(int));
  clients.bind("tcp://127.0.0.1:*");
  std::printf("ready clients=%s workers=none\n", clients.get(zmq::sockopt::last_endpoint).c_str());
  std::fflush(stdout);
  std::vector<zmq::message_t> waiting;
  zmq::message_t body;
  for (;;) {
    zmq::pollitem_t item{clients.handle(), 0, ZMQ_POLLIN, 0};
    zmq::poll(&item, 1, std::chrono::milliseconds(-1));
    zmq::message_t client;
    while (waiting.size() < kMessagesPerCommitMax && clients.recv(client, zmq::recv_flags::dontwait)) {
      if (!client.more() || !clients.recv(body) || body.more())
        throw std::runtime_error("a client sent another shape");
      if (waiting.empty()) store.begin();
      store.add(body);
      waiting.push_back(std::move(client));
    }
    if (waiting.empty()) continue;
    store.commit();
    for (zmq::message_t& one : waiting) {
      clients.send(one, zmq::send_flags::sndmore);
      clients.send(zmq::const_buffer("A", 1), zmq::send_flags::none);
    }
    waiting.clear();
  }
}

}  // namespace
}  // namespace lanemq::bench

int main(int count, char** arguments) try {
  if (count != 2) throw std::runtime_error("usage: bench_raw_store FILE");
  lanemq::bench::run(arguments[1]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_raw_store: %s\n", error.what());
  return 1;
}
