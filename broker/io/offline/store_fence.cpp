// SPDX-License-Identifier: Apache-2.0
#include "broker/io/offline/store_fence.hpp"

#include <chrono>
#include <utility>

#include "broker/io/store/open/open_store.hpp"

#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/store/postgres/database/postgres_place.hpp"
#include "broker/io/store/postgres/database/postgres_schema.hpp"
#endif

namespace lanemq::io {
namespace {

#ifdef LANEMQ_HAS_POSTGRES
/// The row may be held by a commit that waits for a standby.
constexpr std::chrono::seconds kRaiseMax{30};

Result<Fenced> fence_postgres(const StoreOptions& options) {
  const auto place = postgres_place_of(options);
  if (!place) return tl::unexpected(place.error());
  auto connection = postgres::Connection::open(place->target, postgres::Server::writable);
  if (!connection)
    return failure(ErrorCode::internal,
                   "the store " + place->text + " cannot be reached: " + connection.error().message);
  const auto end = postgres::Clock::now() + kRaiseMax;
  if (auto there = must_be_there(*connection, *place, end); !there)
    return tl::unexpected(std::move(there.error()));
  const auto raised = raise_epoch(*connection, end);
  if (raised)
    return Fenced{.store = place->text,
                  .owner = raised->before.instance,
                  .before = raised->before.epoch,
                  .after = raised->epoch};
  return failure(
      ErrorCode::internal,
      "the epoch of the store " + place->text + " could not be raised: " + raised.error().message +
          (raised.error().lost() ? "; it may be raised all the same, and raising it again does no harm"
                                 : ""));
}
#endif

}  // namespace

Result<Fenced> fence_store(const StoreOptions& options) {
  if (!has_owners(options))
    return failure(
        ErrorCode::bad_request,
        "the store " + options.specification +
            " has no epoch, since one broker alone can have it; --fence is for a store in PostgreSQL "
            "(--store postgres:CONNINFO)");
#ifdef LANEMQ_HAS_POSTGRES
  return fence_postgres(options);
#else
  return tl::unexpected(open_store(options).error());  // it says that this build has none
#endif
}

}  // namespace lanemq::io
