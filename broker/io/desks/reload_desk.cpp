// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/reload_desk.hpp"

#include <lanemq/text.hpp>

#include "broker/core/desks/document_answer.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {
namespace {

/// Bound on a value in an answer: a list may be long.
constexpr std::size_t kChangedBytesMax = 256;

core::DocumentMap row_of_change(const OptionChange& change) {
  core::DocumentMap row;
  row.text("what", printable(change.what, kChangedBytesMax)).text("how", name_of(change.how));
  if (change.how == OptionChange::How::changed)
    row.text("from", printable(change.before, kChangedBytesMax))
        .text("to", printable(change.after, kChangedBytesMax));
  row.text("counts", change.needs_restart ? "after a restart" : "now");
  return row;
}

}  // namespace

std::string_view name_of(OptionChange::How how) {
  switch (how) {
    case OptionChange::How::added:
      return "added";
    case OptionChange::How::removed:
      return "removed";
    case OptionChange::How::changed:
      break;
  }
  return "changed";
}

Result<Reloaded> ReloadDesk::read(ReloadMode mode) {
  const Objection objection = [this](const core::Options& wanted) {
    return core::cannot_configure(broker_.budgets(), wanted.budgets);
  };
  return reload_(broker_.options(), objection, mode);
}

Result<Reloaded> ReloadDesk::apply(core::TimePoint now) {
  const service::Reloading told(service_watch_.notifier());
  Result<Reloaded> reloaded = read(ReloadMode::apply);
  service_watch_.reloaded(reloaded.has_value());
  if (!reloaded) return reloaded;
  broker_.handle(core::OptionsChanged{&reloaded->options}, now);
  keys_.replace(std::move(reloaded->keys), now);
  return reloaded;
}

void ReloadDesk::asked_by_signal(core::TimePoint now) {
  static_cast<void>(apply(now));  // the log has the outcome
}

void ReloadDesk::asked(const core::Origin& from, const wire::AdminQuery& query, std::string_view who,
                       core::TimePoint now) {
  const Result<Reloaded> reloaded = query.dry_run ? read(ReloadMode::try_only) : apply(now);
  if (!reloaded) return core::refuse(broker_.outbox(), from, query.ref.bytes, reloaded.error());
  core::DocumentPage rows(static_cast<std::int64_t>(kChangesTold));
  const auto next = core::fill_page(rows, 0, reloaded->changes, row_of_change);
  core::DocumentMap document;
  document.rows("reload", rows).flag("changed", !reloaded->changes.empty());
  if (next) document.integer("more", static_cast<std::int64_t>(reloaded->changes.size() - *next));
  if (query.dry_run) document.flag("dry_run", true);
  if (!query.dry_run)
    log::event(log::Level::info, "admin.reload", {{"changes", reloaded->changes.size()}, {"by", who}});
  core::answer(broker_.outbox(), from, query.ref.bytes, document);
}

}  // namespace lanemq::io
