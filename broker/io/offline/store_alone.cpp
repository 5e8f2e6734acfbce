// SPDX-License-Identifier: Apache-2.0
#include "broker/io/offline/store_alone.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include <poll.h>

#include "broker/io/store/open/open_store.hpp"

#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/database/postgres_schema.hpp"
#endif

namespace lanemq::io {
namespace {

/// Large bodies that are read at once.
constexpr std::size_t kBodiesAtOnce = 16;
/// How long an owner that may be dead is waited for, in leases.
constexpr int kLeasesWaited = 2;

/// Waits until something has changed in the store, or for a moment.
void wait_for_signal(Store& store) {
  pollfd readable{.fd = store.descriptor(), .events = POLLIN, .revents = 0};
  poll(&readable, 1, 100);
  store.clear_signal();
}

}  // namespace

Result<void> still_good(const Store& store) {
  if (store.condition() == StoreCondition::good) return {};
  return failure(store.condition() == StoreCondition::full ? ErrorCode::store_full : ErrorCode::internal,
                 store.trouble());
}

Result<std::unique_ptr<Store>> open_alone(StoreOptions options) {
  const auto end = std::chrono::steady_clock::now() + kLeasesWaited * options.lease;
  std::string why;
  bool reached = true;
  options.waiting = [&](const StoreWaiting& waiting) {
    why = waiting.why;
    reached = waiting.reached;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return std::chrono::steady_clock::now() < end;
  };
  auto store = open_store(options);
  if (!store || *store != nullptr) return store;
  return failure(ErrorCode::internal,
                 "the store cannot be had: " + why +
                     (reached ? "; stop the broker that owns it"
                              : "; look at that database, and at what names it: " + options.specification));
}

Result<void> must_be_there(const StoreOptions& options, std::string_view purpose) {
  if (const auto path = path_of_store(options); path && !std::filesystem::exists(*path))
    return failure(ErrorCode::bad_request,
                   "there is no store " + *path + " to " + std::string(purpose) + "; look at its name");
#ifdef LANEMQ_HAS_POSTGRES
  if (has_owners(options)) {
    const auto place = postgres_place_of(options);
    if (!place) return tl::unexpected(place.error());
    auto connection = postgres::Connection::open(place->target, postgres::Server::any);
    if (!connection) return {};  // opening says why
    return must_be_there(*connection, *place, postgres::Clock::now() + kStatementMax);
  }
#endif
  return {};
}

Result<void> read_bodies_left(Store& store, const std::vector<std::uint64_t>& numbers, bool of_results,
                              const TakeBody& take) {
  std::vector<std::uint64_t> asked;
  std::vector<StoredBody> bodies;
  for (std::size_t at = 0; at < numbers.size(); at += asked.size()) {
    const std::size_t end = std::min(at + kBodiesAtOnce, numbers.size());
    asked.assign(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                 numbers.begin() + static_cast<std::ptrdiff_t>(end));
    bodies.clear();
    of_results ? store.read_results(asked) : store.read(asked);
    while (bodies.size() < asked.size()) {
      if (auto good = still_good(store); !good) return good;
      wait_for_signal(store);
      store.take_bodies(bodies);
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {  // they come in the order asked
      if (!bodies[i].body)
        return failure(ErrorCode::internal, "the body of row " + std::to_string(asked[i]) + " is not there");
      if (auto taken = take(at + i, *bodies[i].body); !taken) return taken;
    }
  }
  return {};
}

Result<void> StoreWriter::add(core::Write::Kind kind, std::uint64_t number, std::string_view state,
                              std::string_view record, const Blob& body) {
  writes_.add(kind, number);
  writes_.buffer().write(state.data(), state.size());
  writes_.end_of_state();
  writes_.buffer().write(record.data(), record.size());
  writes_.end_of_record();
  writes_.set_body(body);
  return writes_.bytes() < kTurnBytesMax ? Result<void>() : end_turn();
}

Result<void> StoreWriter::end_turn() {
  if (writes_.empty()) return {};
  ticket_ = store_.submit(writes_);
  while (store_.backlog_bytes() > kBacklogBytesMax) {
    if (auto good = still_good(store_); !good) return good;
    wait_for_signal(store_);
  }
  return still_good(store_);
}

Result<void> StoreWriter::end() {
  if (auto done = end_turn(); !done) return done;
  while (store_.committed() < ticket_) {
    if (auto good = still_good(store_); !good) return good;
    wait_for_signal(store_);
  }
  return still_good(store_);
}

}  // namespace lanemq::io
