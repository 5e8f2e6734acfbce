// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/backup_desk.hpp"

#include <utility>

#include "broker/core/desks/document_answer.hpp"
#include "common/log/log.hpp"

namespace lanemq::io {

void BackupDesk::begin(const core::Origin& from, const wire::AdminQuery& query) {
  Asked asked{.address = std::string(from.address),
              .envelope = std::string(from.envelope),
              .ref = std::string(query.ref.bytes),
              .path = std::string(query.path)};
  if (asked_)
    return refuse(asked, {ErrorCode::conflict, "a backup to " + asked_->path + " goes on; wait for its end"});
  if (!asked.path.starts_with('/'))
    return refuse(asked, {ErrorCode::bad_request,
                          "field \"path\" is no absolute path; the broker's folder is not yours"});
  if (const auto begun = store_.begin_backup(asked.path); !begun) return refuse(asked, begun.error());
  asked_ = std::move(asked);
}

void BackupDesk::refuse(const Asked& asked, const Error& why) {
  core::refuse(broker_.outbox(), asked.from(), asked.ref, why);
}

void BackupDesk::answer_ended() {
  if (!asked_) return;
  const auto ended = store_.take_backup();
  if (!ended) return;
  const Asked asked = *std::exchange(asked_, std::nullopt);
  if (!*ended) {
    log::event(log::Level::error, "store.backup_failed",
               {{"path", asked.path}, {"reason", ended->error().message}});
    return refuse(asked, ended->error());
  }
  log::event(log::Level::info, "store.backed_up", {{"path", asked.path}});
  core::answer(broker_.outbox(), asked.from(), asked.ref, core::DocumentMap().text("path", asked.path));
}

}  // namespace lanemq::io
