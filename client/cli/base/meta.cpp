// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/meta.hpp"

#include <nlohmann/json.hpp>

namespace lanemq::cli {

std::string meta_of_json(std::string_view json) {
  const nlohmann::json value = nlohmann::json::parse(json, nullptr, false);
  std::string msgpack;
  if (!value.is_discarded()) nlohmann::json::to_msgpack(value, msgpack);
  return msgpack;
}

}  // namespace lanemq::cli
