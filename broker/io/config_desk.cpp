// SPDX-License-Identifier: Apache-2.0
#include "broker/io/config_desk.hpp"

#include <lanemq/text.hpp>

#include "broker/core/desks/document_page.hpp"

namespace lanemq::io {
namespace {

constexpr std::size_t kValueBytesMax = 512, kPlaceBytesMax = 256;

core::DocumentMap row_of(const ShownOption& option) {
  core::DocumentMap row;
  row.text("key", printable(option.key, kPlaceBytesMax))
      .text("value", printable(option.value, kValueBytesMax))
      .text("from", printable(option.from, kPlaceBytesMax));
  return row;
}

}  // namespace

void ConfigDesk::asked(const core::Origin& from, const wire::AdminQuery& query) {
  const std::vector<ShownOption> options = show_(broker_.options());
  core::DocumentPage rows(query.limit);
  auto next = static_cast<std::size_t>(query.from);
  for (; next < options.size() && !rows.full(); ++next)
    rows.add(row_of(options[next]));
  core::DocumentMap document;
  document.rows("config", rows);
  if (next < options.size()) document.integer("next", static_cast<std::int64_t>(next));
  Buffer bytes;
  document.write_to(bytes);
  wire::AdminReply reply;
  reply.document = {bytes.view()};
  reply.ref = query.ref;
  broker_.outbox().add(from.peer, from.address, from.envelope, reply);
}

}  // namespace lanemq::io
