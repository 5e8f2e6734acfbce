// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/change_log.hpp"

#include <lanemq/text.hpp>

#include "broker/core/desks/document_answer.hpp"

namespace lanemq::io {

void ChangeLog::add(const Change& change, core::TimePoint now) {
  const auto kept = [](const std::string& text) { return printable(text, kTextBytesMax); };
  if (entries_.size() == kChangesMax) entries_.pop_back();
  entries_.push_front({.change = {.verb = kept(change.verb),
                                  .what = kept(change.what),
                                  .name = kept(change.name),
                                  .how = kept(change.how),
                                  .by = kept(change.by)},
                       .number = ++added_,
                       .at = now});
}

void ChangeLog::asked(const core::Origin& from, const wire::AdminQuery& query, core::Outbox& outbox,
                      core::TimePoint now) const {
  core::DocumentPage rows(query.limit);
  const auto next = core::fill_page(rows, query.from, entries_, [&](const Entry& entry) {
    core::DocumentMap row;
    row.integer("number", static_cast<std::int64_t>(entry.number)).text("verb", entry.change.verb);
    row.text_if_any("what", entry.change.what).text_if_any("name", entry.change.name);
    row.text_if_any("how", entry.change.how).text_if_any("by", entry.change.by);
    row.integer("ago_ms", core::to_ms(now - entry.at));
    return row;
  });
  core::answer(outbox, from, query.ref.bytes, core::list("changes", rows, next));
}

}  // namespace lanemq::io
