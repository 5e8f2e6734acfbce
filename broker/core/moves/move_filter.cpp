// SPDX-License-Identifier: Apache-2.0
#include "broker/core/moves/move_filter.hpp"

#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/base/identity.hpp"
#include "broker/core/base/mark.hpp"
#include "broker/core/desks/restorer.hpp"

namespace lanemq::core {

MoveFilter::MoveFilter(MoveScope scope) : scope_(std::move(scope)), clients_(scope_.clients, 0) {
  if (!scope_.tenant.empty()) marks_.insert(mark_of(space_of(scope_.tenant)));
  for (const ClientOptions& client : scope_.clients)
    if (has_client(client.name)) add_marks(client.name);
}

/// Results are their tenant's; in stores of brokers before 0.3 they are their client's.
void MoveFilter::add_marks(std::string_view client) {
  marks_.insert(mark_of(client));
  if (const std::string tenant = clients_.options_of(client).tenant; !tenant.empty())
    marks_.insert(mark_of(space_of(tenant)));
}

bool MoveFilter::has_name(std::string_view name) const {
  const std::string_view tenant = tenant_of(name);
  return !scope_.tenant.empty() && !tenant.empty() && glob_match(scope_.tenant, tenant);
}

bool MoveFilter::has_client(std::string_view client) const {
  if (scope_.tenant.empty() || client.empty()) return false;
  const ClientOptions options = clients_.options_of(client);
  return !options.tenant.empty() && glob_match(scope_.tenant, options.tenant);
}

bool MoveFilter::has(const wire::Submit& fields) {
  if (!scope_.service.empty()) return glob_match(scope_.service, fields.service);
  const std::string_view client = fields.client.empty() ? Restorer::kClientOfNone : fields.client;
  if (!has_name(fields.id) && !has_client(client)) return false;
  if (!fields.client.empty()) add_marks(fields.client);
  return true;
}

bool MoveFilter::has(const StoredResult& result) const {
  if (!scope_.service.empty()) return glob_match(scope_.service, result.service);
  return has_name(result.id) || (result.client != kNoMark && marks_.contains(result.client));
}

const Shard* MoveFilter::shard_of(const wire::Submit& fields) const {
  if (fields.service == scope_.webhook_service) return nullptr;
  if (const std::string_view tenant = tenant_of(fields.id); !tenant.empty())
    return scope_.shards.of(fields.service, tenant);
  const std::string_view client = fields.client.empty() ? Restorer::kClientOfNone : fields.client;
  return scope_.shards.of(fields.service, clients_.options_of(client).tenant);
}

const Shard* MoveFilter::shard_of(const StoredResult& result) const {
  const std::string_view tenant = tenant_of(result.id);
  if (tenant.empty() || result.service == scope_.webhook_service) return nullptr;
  return scope_.shards.of(result.service, tenant);
}

std::string MoveFilter::text() const {
  return scope_.service.empty() ? "tenant \"" + printable(scope_.tenant) + '"'
                                : "service \"" + printable(scope_.service) + '"';
}

}  // namespace lanemq::core
