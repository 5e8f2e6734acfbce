// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/ownership_desk.hpp"

#include <string>
#include <utility>

#include <lanemq/text.hpp>

#include "broker/core/desks/document_answer.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {

void OwnershipDesk::asked(const core::Origin& from, const wire::AdminQuery& query, std::string_view who) {
  const auto refuse = [&](ErrorCode code, std::string message) {
    core::refuse(broker_.outbox(), from, query.ref.bytes, {code, std::move(message)});
  };
  const auto ownership = store_.ownership();
  if (!ownership)
    return refuse(ErrorCode::bad_request,
                  "the store is " + std::string(store_.kind()) +
                      ", with which no other broker can go on; brokers hand over a store in PostgreSQL "
                      "(store = \"postgres:...\") alone");
  if (stats_.draining || hands_over_)
    return refuse(ErrorCode::draining, "the broker ends already, and gives its store back");
  // The durable writes could not be committed before the end: the broker would end with an error, and not
  // hand over.
  if (const std::string_view state = store_.state(); state == "stalled" || state == "away" || state == "full")
    return refuse(ErrorCode::conflict, "the store is " + std::string(state) +
                                           ", and what waits for it must be committed before a handover; "
                                           "mend the database first, or stop the broker");
  core::DocumentMap document;
  document.text("instance", printable(ownership->instance)).integer("epoch", ownership->epoch);
  if (const auto waiting = ownership->database.candidates)
    document.integer("candidates", static_cast<std::int64_t>(*waiting));
  document.flag("changed", true);
  if (query.dry_run) {
    document.flag("dry_run", true);
  } else {
    hands_over_ = true;
    log::event(log::Level::info, "admin.handover", {{"epoch", ownership->epoch}, {"by", who}});
  }
  core::answer(broker_.outbox(), from, query.ref.bytes, document);
}

}  // namespace lanemq::io
