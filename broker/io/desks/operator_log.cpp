// SPDX-License-Identifier: Apache-2.0
#include "broker/io/desks/operator_log.hpp"

#include <chrono>
#include <variant>

#include <lanemq/text.hpp>

#include "common/log/log.hpp"

namespace lanemq::io {

namespace {

constexpr std::size_t kWhoBytesMax = 256;

}  // namespace

std::string operator_of(const Incoming& message) {
  // libzmq tells of the other end of a socket file `ADDRESS:uid:gid:pid`, from SO_PEERCRED.
  const std::string_view address = message.property("Peer-Address");
  if (address.empty()) return printable(first_frame(message.envelope()), kWhoBytesMax);
  const std::size_t uid = address.find(':'), pid = address.rfind(':');
  const std::size_t gid = uid == std::string_view::npos ? uid : address.find(':', uid + 1);
  if (gid == std::string_view::npos || gid == pid || address.find('.') < uid) return std::string(address);
  return "uid " + std::string(address.substr(uid + 1, gid - uid - 1)) + ", pid " +
         std::string(address.substr(pid + 1));
}

void OperatorLog::told(const Asked& asked, core::Outbox& outbox, core::TimePoint now) {
  for (std::size_t i = asked.notices; i < outbox.notices.size(); ++i) {
    core::Notice& notice = outbox.notices[i];
    if (notice.kind != core::Notice::Kind::changed_by_operator) continue;
    notice.by = asked.who;
    changes_.add(
        {.verb = notice.verb, .what = notice.what, .name = notice.name, .how = notice.how, .by = asked.who},
        now);
  }
  if (outbox.sends.size() <= asked.sends) return;
  if (decoder_.decode(outbox.header(outbox.sends.back()), reply_) != nullptr) return;
  if (const auto* why = std::get_if<wire::ErrorReply>(&reply_)) return refused(asked, *why);
  if (asked.is_change)
    changes_.add({.verb = std::string(asked.verb),
                  .what = std::string(asked.what),
                  .name = std::string(asked.name),
                  .how = {},
                  .by = asked.who},
                 now);
}

void OperatorLog::refused(const Asked& asked, const wire::ErrorReply& why) {
  if (!lines_.may_write(std::chrono::steady_clock::now())) return;
  log::event(log::Level::warning, "operator.refused",
             {{"verb", printable(asked.verb, 64)},
              {"what", printable(asked.what, 128)},
              {"name", printable(asked.name, 128)},
              {"code", why.code},
              {"reason", why.message},
              {"by", asked.who},
              {"left_out", lines_.take_left_out()}});
}

}  // namespace lanemq::io
