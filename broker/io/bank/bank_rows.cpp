// SPDX-License-Identifier: Apache-2.0
#include "broker/io/bank/bank_rows.hpp"

#ifdef LANEMQ_HAS_POSTGRES
#include "broker/io/bank/bank_table.hpp"
#include "broker/io/store/postgres/database/postgres_place.hpp"
#endif

namespace lanemq::io {

#ifdef LANEMQ_HAS_POSTGRES
namespace {

Result<PostgresPlace> place_of(const std::string& specification, const std::string& schema) {
  if (!specification.starts_with("postgres:"))
    return failure(ErrorCode::bad_request,
                   "bank \"" + specification +
                       "\" is not known; write postgres:CONNINFO: a database that all shards reach");
  return postgres_place_of({.specification = specification, .schema = schema});
}

}  // namespace

Result<std::unique_ptr<BankRows>> open_bank(const std::string& specification, const std::string& schema) {
  auto place = place_of(specification, schema);
  if (!place) return tl::unexpected(std::move(place.error()));
  return std::unique_ptr<BankRows>(new BankTable(std::move(*place), schema));
}

Result<std::string> check_bank(const std::string& specification, const std::string& schema) {
  const auto place = place_of(specification, schema);
  if (!place) return tl::unexpected(place.error());
  const auto usable = BankTable::check(*place, schema);
  if (usable) return std::string();
  const std::string& why = usable.error().message;
  if (!usable.error().lost()) return failure(ErrorCode::bad_request, place->text + " cannot be used: " + why);
  return "the bank " + place->text +
         " was not reached, so that the rights of its role were not looked at: " + why;
}
#else
namespace {

tl::unexpected<Error> built_without() {
  return failure(ErrorCode::bad_request,
                 "this broker was built without PostgreSQL (LANEMQ_POSTGRES), and a bank needs it");
}

}  // namespace

Result<std::unique_ptr<BankRows>> open_bank(const std::string&, const std::string&) {
  return built_without();
}

Result<std::string> check_bank(const std::string&, const std::string&) {
  return built_without();
}
#endif

}  // namespace lanemq::io
