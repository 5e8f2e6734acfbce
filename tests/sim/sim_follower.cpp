// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_follower.hpp"

namespace lanemq::sim {
namespace {

/// Sooner than a real one, so that a broker that was started again is soon followed again.
constexpr auto kWatchRenewedEvery = std::chrono::milliseconds(500);
/// Groups that are followed alone, the last ones.
constexpr std::size_t kAskedMax = 4;

}  // namespace

SimFollower::SimFollower(Stage& stage) : stage_(stage), all_(stage.next_ref++) {
  link_ = stage_.host.connect(core::Peer::client, {},
                              [this](const std::string& header, const std::string&) { heard(header); });
  renew();
}

void SimFollower::renew() {
  // At the end, which may be days, it is let go.
  if (stage_.healing) return;
  watch(all_, {});
  if (stage_.random.percent(40)) follow(some_group(stage_.random, stage_.swarm));
  stage_.scheduler.after(kWatchRenewedEvery, [this] { renew(); });
}

void SimFollower::follow(const std::string& group) {
  if (asked_.size() >= kAskedMax) {
    watch(asked_.begin()->first, asked_.begin()->second, true);
    asked_.erase(asked_.begin());
  }
  const std::uint64_t ref = stage_.next_ref++;
  asked_[ref] = group;
  watch(ref, group);
}

void SimFollower::watch(std::uint64_t ref, const std::string& group, bool stop) {
  Buffer ref_bytes;
  wire::Watch message;
  if (!group.empty()) message.group = group;
  message.stop = stop;
  message.batch = static_cast<std::int64_t>(ref % 3) * 4;
  message.ref = number_ref(ref, ref_bytes);
  say(message);
}

void SimFollower::heard(const std::string& header) {
  Items<wire::ClientReply> replies;
  if (const DecodeError* error = decoder_.decode(header, {}, replies))
    violated("a follower cannot read: " + error->message);
  std::map<std::uint64_t, std::int64_t> last;
  for (std::size_t i = 0; i < replies.size(); ++i)
    if (const auto* event = std::get_if<wire::JobEvent>(&replies[i]))
      last[ref_number(event->ref).value_or(0)] = event->seq;
  for (const auto& [ref, seq] : last) {
    Buffer ref_bytes;
    wire::Seen seen;
    seen.seq = seq;
    seen.ref = number_ref(ref, ref_bytes);
    say(seen);
  }
}

template <class Message>
void SimFollower::say(const Message& message) {
  Buffer out;
  encode(message, out);
  stage_.host.send(link_, out.view(), {});
}

}  // namespace lanemq::sim
