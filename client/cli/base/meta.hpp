// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::cli {

/// A JSON value as msgpack, for JobRequest::meta; empty: it is not one JSON value.
std::string meta_of_json(std::string_view json);

}  // namespace lanemq::cli
