// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/key_stop.hpp"

#include <utility>

#include <lanemq/text.hpp>

#include "common/log/log.hpp"

namespace lanemq::gateway {
namespace {

/// What was ended.
struct Ended {
  std::string key{};
  std::size_t calls = 0, responses = 0, jobs = 0, batches = 0;
  std::string disk_refuses{};  ///< why batches could not be cancelled
};

std::string counted(std::size_t count, std::string_view one) {
  return std::to_string(count) + " " + std::string(one) +
         (count == 1            ? ""
          : one.ends_with("ch") ? "es"
                                : "s");
}

ControlAnswer answer_of(const Ended& ended, bool is_configured) {
  const std::string name = printable(ended.key);
  std::string text = "key \"" + name + "\": ended " + counted(ended.calls, "call") + ", " +
                     counted(ended.batches, "batch") + ", " + counted(ended.jobs, "left job") + " and " +
                     counted(ended.responses, "response") + " in the background\n" +
                     "jobs that it has left and that no gateway follows, if any: lanemq cancel --ids '*" +
                     own_job_ids(ended.key) + "*'\n";
  if (!ended.disk_refuses.empty())
    text += "its batches go on, since the disk refuses what is written: " + ended.disk_refuses + "\n";
  if (!is_configured) text += "no key \"" + name + "\" is configured now\n";
  if (is_configured)
    text += "key \"" + name +
            "\" is still configured, so that its holder may begin anew: take its [[key]] out, "
            "send SIGHUP, and say this again\n";
  return {.done = ended.disk_refuses.empty(), .text = std::move(text)};
}

}  // namespace

void KeyStop::stop(const std::string& key, const ControlSocket::Then& then) {
  Ended ended{.key = key,
              .calls = calls_.end_calls_of(key),
              .responses = calls_.stop_background_of(key),
              .jobs = jobs_.cancel_followed_of(key)};
  const auto tell = [this, then](const Ended& all) {
    log::event(log::Level::warning, "key.stopped",
               {{"name", all.key},
                {"calls", all.calls},
                {"batches", all.batches},
                {"jobs", all.jobs},
                {"responses", all.responses}});
    then(answer_of(all, gateway_.access.has_key(all.key)));
  };
  if (batches_ == nullptr) return tell(ended);
  batches_->ask([&loop = gateway_.loop, ended, tell](BatchDesk& desk, WallTime now) mutable {
    try {
      ended.batches = desk.cancel_all_of(ended.key, now);
    } catch (const StoreFault& fault) {
      ended.disk_refuses = fault.what();
    }
    loop.post([ended, tell] { tell(ended); });
  });
}

void KeyStop::cut_removed(const std::vector<KeySettings>& before) {
  for (const KeySettings& key : before)
    if (!gateway_.access.has_key(key.name)) calls_.end_calls_of(key.name);
  jobs_.end_refused();
}

}  // namespace lanemq::gateway
