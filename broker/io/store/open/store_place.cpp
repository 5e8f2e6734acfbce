// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/open/store_place.hpp"

#include "broker/io/store/open/open_store.hpp"
#include "common/settings/folders.hpp"

namespace lanemq::io {

Result<std::string> default_store(const settings::Environment& environment, std::string_view shard) {
  const std::string file = "/lanemq" + (shard.empty() ? "" : '-' + std::string(shard)) + ".db";
  if (const std::string service = settings::service_state_folder(environment); !service.empty())
    return "sqlite:" + service + file;
  if (const std::string user = settings::user_state_folder(environment); !user.empty())
    return "sqlite:" + user + "/lanemq" + file;
  return failure(
      ErrorCode::bad_request,
      "no folder is known for the store, since STATE_DIRECTORY, XDG_STATE_HOME and HOME are not set; "
      "name a file with --store sqlite:PATH, or say --store memory");
}

Result<void> make_default_folder(const std::string& specification) {
  const auto path = path_of_store({.specification = specification});
  if (!path) return {};
  if (const auto why_not = settings::make_folder_of(*path))
    return failure(ErrorCode::internal,
                   *why_not + ", and the store would stand there; name a file with --store sqlite:PATH");
  return {};
}

}  // namespace lanemq::io
