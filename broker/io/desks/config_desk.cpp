// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/config_desk.hpp"

#include <lanemq/text.hpp>

#include "broker/core/desks/document_answer.hpp"

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
  const auto next = core::fill_page(rows, query.from, options, row_of);
  core::answer(broker_.outbox(), from, query.ref.bytes, core::list("config", rows, next));
}

}  // namespace lanemq::io
