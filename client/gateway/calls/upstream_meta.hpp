// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lanemq/client.hpp>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::gateway {

/// Whether the body's `service_tier` reaches the upstream, which bills by it.
enum class ServiceTier : unsigned char { stays, goes_on };

/// What the worker's handler must know of a request: a msgpack map with `http`, which has the method, the
/// path and the headers for the upstream.
std::string upstream_meta(const Api& api, const HttpRequest& request, ServiceTier tier);

/// The cost that the broker is told, as far as the path shows it: embeddings have no output; counting tokens
/// and reading an earlier response have neither input nor output.
std::optional<wire::Cost> stated_cost(std::string_view method, std::string_view path);

}  // namespace lanemq::gateway
