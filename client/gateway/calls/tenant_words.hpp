// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <lanemq/client.hpp>

#include "client/gateway/door/settings.hpp"

namespace lanemq::gateway {

/// What a caller that holds a key of this gateway hears. What an upstream says about the operator's key,
/// account and limits is none of its business, and nothing that it could mend; nor are the names of the
/// broker's budgets. Both stay in the logs of the worker and the broker. The gateway's own code tells a
/// caller enough: upstream_auth, upstream_quota, upstream_limited.

/// The error as such a caller hears it.
ClientError for_tenant(ClientError error);
/// The state as such a caller hears it.
JobStatus for_tenant(JobStatus status);

/// The same for answers, where callers hold keys; none: the caller hears it as it is.
std::optional<FetchAnswer> retold(const Settings& settings, const FetchAnswer& answer);
std::optional<Reply<JobStatus>> retold(const Settings& settings, const Reply<JobStatus>& answer);
std::optional<Reply<JobAccepted>> retold(const Settings& settings, const Reply<JobAccepted>& answer);

}  // namespace lanemq::gateway
