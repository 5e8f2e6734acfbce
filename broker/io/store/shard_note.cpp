// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/shard_note.hpp"

#include <utility>

#include "broker/core/jobs/stored.hpp"

namespace lanemq::io {

Result<std::string> shard_note(std::string_view record) {
  core::StoredDecoder decoder;
  auto entries = decoder.entries(record);
  if (!entries || entries->empty()) return failure(ErrorCode::internal, "note \"shard\" cannot be read");
  return std::move(entries->front().name);
}

Result<void> check_shard_note(std::string_view record, const std::string& shard) {
  const auto of = shard_note(record);
  if (!of) return tl::unexpected(of.error());
  if (shard.empty() || *of == shard) return {};
  return failure(ErrorCode::internal,
                 "the store has the jobs of shard \"" + *of + "\", and this broker owns shard \"" + shard +
                     "\"; name another store with store or store_schema, or start with --shard " + *of);
}

}  // namespace lanemq::io
