// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store_copy.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>

#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/postgres/postgres_schema.hpp"
#include "broker/io/postgres/postgres_store.hpp"
#endif

namespace lanemq::io {
namespace {

using core::Write;

/// A turn of the copy, and what may be on its way to the store.
constexpr std::size_t kTurnBytesMax = std::size_t{1} << 20;
constexpr std::size_t kBacklogBytesMax = std::size_t{32} << 20;
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

Result<void> still_good(const Store& store) {
  if (store.condition() == StoreCondition::good) return {};
  return failure(store.condition() == StoreCondition::full ? ErrorCode::store_full : ErrorCode::internal,
                 store.trouble());
}

Result<std::unique_ptr<Store>> open_alone(StoreOptions options) {
  const auto end = std::chrono::steady_clock::now() + kLeasesWaited * options.lease;
  std::string why;
  options.waiting = [&](const StoreWaiting& waiting) {
    why = waiting.why;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return std::chrono::steady_clock::now() < end;
  };
  auto store = open_store(options);
  if (!store || *store != nullptr) return store;
  return failure(ErrorCode::internal, "the store cannot be had: " + why + "; stop the broker that owns it");
}

/// Opening would make a store that is not there: a slip in its name would be copied as one that is empty.
Result<void> source_must_be_there(const StoreOptions& options) {
  if (const auto path = path_of_store(options); path && !std::filesystem::exists(*path))
    return failure(ErrorCode::bad_request, "there is no store " + *path + " to copy from; look at its name");
#ifdef LANEMQ_HAS_POSTGRES
  if (has_owners(options)) {
    const auto place = PostgresStore::place_of(options);
    if (!place) return tl::unexpected(place.error());
    auto connection = postgres::Connection::open(place->target, postgres::Server::any);
    if (!connection) return {};  // opening says why
    return must_be_there(*connection, *place, postgres::Clock::now() + kStatementMax);
  }
#endif
  return {};
}

/// Writes rows to a store, many in a turn.
class Writer {
 public:
  explicit Writer(Store& store) : store_(store) {}

  Result<void> add(Write::Kind kind, std::uint64_t number, std::string_view state, std::string_view record,
                   const Blob& body) {
    writes_.add(kind, number);
    writes_.buffer().write(state.data(), state.size());
    writes_.end_of_state();
    writes_.buffer().write(record.data(), record.size());
    writes_.end_of_record();
    writes_.set_body(body);
    return writes_.bytes() < kTurnBytesMax ? Result<void>() : submit();
  }
  Result<void> end() {
    if (auto done = submit(); !done) return done;
    store_.flush();
    return still_good(store_);
  }

 private:
  Result<void> submit() {
    if (writes_.empty()) return {};
    store_.submit(writes_);
    while (store_.backlog_bytes() > kBacklogBytesMax) {
      if (auto good = still_good(store_); !good) return good;
      wait_for_signal(store_);
    }
    return still_good(store_);
  }

  Store& store_;
  core::Writes writes_;
};

/// Passes rows on to a writer, and keeps those whose bodies are still in the store.
class Copier final : public StoreReader {
 public:
  struct Apart {
    std::uint64_t number = 0;
    std::string state, record;
  };

  Copier(Writer& writer, CopySummary& summary) : writer_(writer), summary_(summary) {}

  Result<void> note(std::string_view name, std::string_view record) override {
    ++summary_.notes;
    return writer_.add(Write::Kind::put_note, 0, name, record, {});
  }
  Result<void> job(std::uint64_t number, std::string_view state, std::string_view record,
                   std::optional<std::string_view> body, std::size_t) override {
    ++summary_.jobs;
    if (body) return writer_.add(Write::Kind::insert_job, number, state, record, Blob::borrow(*body));
    jobs_.push_back({number, std::string(state), std::string(record)});
    return {};
  }
  Result<void> result(std::uint64_t number, std::string_view record, std::optional<std::string_view> body,
                      std::size_t) override {
    ++summary_.results;
    if (body) return writer_.add(Write::Kind::insert_result, number, {}, record, Blob::borrow(*body));
    results_.push_back({number, {}, std::string(record)});
    return {};
  }

  /// Reads what was left in the store, and passes it on.
  Result<void> take_bodies(Store& from) {
    return take_bodies(from, jobs_, Write::Kind::insert_job).and_then([&] {
      return take_bodies(from, results_, Write::Kind::insert_result);
    });
  }

 private:
  Result<void> take_bodies(Store& from, const std::vector<Apart>& rows, Write::Kind kind) {
    std::vector<std::uint64_t> numbers;
    std::vector<StoredBody> bodies;
    for (std::size_t at = 0; at < rows.size(); at += numbers.size()) {
      numbers.clear();
      bodies.clear();
      for (std::size_t i = at; i < std::min(at + kBodiesAtOnce, rows.size()); ++i)
        numbers.push_back(rows[i].number);
      kind == Write::Kind::insert_job ? from.read(numbers) : from.read_results(numbers);
      while (bodies.size() < numbers.size()) {
        if (auto good = still_good(from); !good) return good;
        wait_for_signal(from);
        from.take_bodies(bodies);
      }
      for (std::size_t i = 0; i < numbers.size(); ++i) {  // they come in the order asked
        const Apart& row = rows[at + i];
        if (!bodies[i].body)
          return failure(ErrorCode::internal,
                         "the body of row " + std::to_string(row.number) + " is not there");
        if (auto done = writer_.add(kind, row.number, row.state, row.record, *bodies[i].body); !done)
          return done;
      }
    }
    return {};
  }

  Writer& writer_;
  CopySummary& summary_;
  std::vector<Apart> jobs_, results_;
};

/// Finds any row.
class AnyRow final : public StoreReader {
 public:
  Result<void> note(std::string_view, std::string_view) override { return found(); }
  Result<void> job(std::uint64_t, std::string_view, std::string_view, std::optional<std::string_view>,
                   std::size_t) override {
    return found();
  }
  Result<void> result(std::uint64_t, std::string_view, std::optional<std::string_view>,
                      std::size_t) override {
    return found();
  }

 private:
  static Result<void> found() {
    return failure(ErrorCode::conflict,
                   "the store to copy to holds something already; name a new file, or an empty schema "
                   "(store_schema)");
  }
};

}  // namespace

Result<CopySummary> copy_store(const StoreOptions& from, const StoreOptions& to) {
  if (from.specification == to.specification && from.schema == to.schema)
    return failure(ErrorCode::bad_request, "a store cannot be copied to itself");
  if (auto there = source_must_be_there(from); !there) return tl::unexpected(std::move(there.error()));
  auto source = open_alone(from);
  if (!source) return tl::unexpected(std::move(source.error()));
  auto target = open_alone(to);
  if (!target) return tl::unexpected(std::move(target.error()));
  if (!(*source)->durable() || !(*target)->durable())
    return failure(ErrorCode::bad_request, "a memory store holds nothing that could be copied");
  AnyRow any;
  if (auto empty = (*target)->load(any); !empty) return tl::unexpected(std::move(empty.error()));
  CopySummary summary;
  Writer writer(**target);
  Copier copier(writer, summary);
  if (auto done =
          (*source)->load(copier).and_then([&] { return copier.take_bodies(**source); }).and_then([&] {
            return writer.end();
          });
      !done)
    return tl::unexpected(std::move(done.error()));
  return summary;
}

}  // namespace lanemq::io
