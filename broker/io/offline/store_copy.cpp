// SPDX-License-Identifier: Apache-2.0
#include "broker/io/offline/store_copy.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/io/offline/store_alone.hpp"
#include "broker/io/store/move_note.hpp"

namespace lanemq::io {
namespace {

using core::Write;

/// Passes rows on to a writer, and keeps those whose bodies are still in the store.
class Copier final : public StoreReader {
 public:
  struct Apart {
    std::uint64_t number = 0;
    std::string state, record;
  };

  Copier(StoreWriter& writer, CopySummary& summary) : writer_(writer), summary_(summary) {}

  Result<void> note(std::string_view name, std::string_view record) override {
    if (auto why = why_not_served(name, record)) return failure(ErrorCode::conflict, std::move(*why));
    ++summary_.notes;
    return writer_.put_note(name, record);
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
    numbers.reserve(rows.size());
    for (const Apart& row : rows)
      numbers.push_back(row.number);
    return read_bodies_left(from, numbers, kind == Write::Kind::insert_result,
                            [&](std::size_t i, const Blob& body) {
                              return writer_.add(kind, rows[i].number, rows[i].state, rows[i].record, body);
                            });
  }

  StoreWriter& writer_;
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
  if (auto there = must_be_there(from, "copy from"); !there) return tl::unexpected(std::move(there.error()));
  auto source = open_alone(from);
  if (!source) return tl::unexpected(std::move(source.error()));
  auto target = open_alone(to);
  if (!target) return tl::unexpected(std::move(target.error()));
  if (!(*source)->durable() || !(*target)->durable())
    return failure(ErrorCode::bad_request, "a memory store holds nothing that could be copied");
  AnyRow any;
  if (auto empty = (*target)->load(any); !empty) return tl::unexpected(std::move(empty.error()));
  CopySummary summary;
  StoreWriter writer(**target);
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
