// SPDX-License-Identifier: Apache-2.0
#include "broker/io/bank/bank_rows.hpp"

#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/postgres/bank_table.hpp"
#include "broker/io/postgres/postgres_store.hpp"
#endif

namespace lanemq::io {

Result<std::unique_ptr<BankRows>> open_bank([[maybe_unused]] const std::string& specification,
                                            [[maybe_unused]] const std::string& schema) {
#ifdef LANEMQ_HAS_POSTGRES
  if (!specification.starts_with("postgres:"))
    return failure(ErrorCode::bad_request,
                   "bank \"" + specification +
                       "\" is not known; write postgres:CONNINFO: a database that all shards reach");
  auto place = PostgresStore::place_of({.specification = specification, .schema = schema});
  if (!place) return tl::unexpected(std::move(place.error()));
  return std::unique_ptr<BankRows>(new BankTable(std::move(*place), schema));
#else
  return failure(ErrorCode::bad_request,
                 "this broker was built without PostgreSQL (LANEMQ_POSTGRES), and a bank needs it");
#endif
}

}  // namespace lanemq::io
