// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string_view>

#include <lanemq/result.hpp>

#include "broker/core/base/event.hpp"
#include "broker/core/base/outbox.hpp"
#include "broker/core/desks/document_page.hpp"

namespace lanemq::core {

/// Answers the operator's request that came from `to` with a document; `ref` is the request's own, given
/// back.
void answer(Outbox& outbox, const Origin& to, std::string_view ref, const DocumentMap& document);

/// Refuses that request; the text is cut to what a message may have.
void refuse(Outbox& outbox, const Origin& to, std::string_view ref, const Error& why);

/// Lists the entries of `all` from the `from`-th on, in their order, `row(entry)` each, until the page is
/// full. Returns where the next page begins, if there is one.
template <class All, class Row>
std::optional<std::size_t> fill_page(DocumentPage& page, std::int64_t from, const All& all, Row row) {
  auto at = static_cast<std::size_t>(from);
  if (at >= all.size()) return std::nullopt;
  for (auto entry = std::next(all.begin(), static_cast<std::ptrdiff_t>(at)); entry != all.end();
       ++entry, ++at) {
    if (page.full()) return at;
    page.add(row(*entry));
  }
  return std::nullopt;
}

/// The document of one page of a list.
DocumentMap list(std::string_view name, const DocumentPage& page, std::optional<std::size_t> next);

}  // namespace lanemq::core
