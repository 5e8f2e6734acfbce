// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include <lanemq/admin_table.hpp>

#include "broker/http/access/operator_link.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::admin {

/// The parameters of a GET of `/v1/watch`, as if the op were a verb.
inline constexpr AdminInfo kWatchRequest{
    {}, "watch", "", "id client lane service group", "follow jobs, as server-sent events"};

/// The type of a verb's field, as JSON Schema names it.
std::string_view type_of_field(std::string_view field);

/// Whether the verb changes nothing: a viewer may say it, and it has a GET.
bool only_looks(AdminVerb verb);

/// How long a verb may take.
std::chrono::milliseconds patience_of(AdminVerb verb);

/// The op `admin` for a verb, with fields from the query of a GET, or from the JSON of a POST. An error is a
/// sentence that names the field and what the verb takes.
tl::expected<Question, std::string> question_of_query(const AdminInfo& verb,
                                                      const http::HttpRequest& request);
tl::expected<Question, std::string> question_of_body(const AdminInfo& verb, const http::HttpRequest& request);

}  // namespace lanemq::admin
