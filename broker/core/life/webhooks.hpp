// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "broker/core/base/time.hpp"
#include "broker/core/jobs/job.hpp"
#include "broker/core/jobs/kept_result.hpp"

namespace lanemq::core {

struct Group;
struct State;

/// A job that the broker owes: it tells a URL that another job has ended, or that a group is over.
struct Webhook {
  std::string id;            ///< of the job to be made, in its tenant's space, without the time suffix
  std::int64_t unix_ms = 0;  ///< of the end: the id's suffix, which tells it from other ends of that name
  std::string url, body;
  std::string client;        ///< whose job it is, by the broker's name
  std::string named_client;  ///< the same as a submit named it; empty: none did
  bool durable = false;
};

/// Webhooks that are owed to receivers of ends (`notify` of a submit). Makes no job: the face has what is
/// owed admitted in the turn in which the end came, so that both are in one commit.
class Webhooks {
 public:
  /// Ends that may be owed to somebody at a time. A turn ends some thousand jobs at most, and what is owed is
  /// admitted several times in it; one more is refused.
  static constexpr std::size_t kOwedMax = 10'000;
  /// The field of the job that holds the receiver's URL.
  static constexpr std::string_view kUrlField = "x-webhook-url";

  explicit Webhooks(State& state) : state_(state) {}
  Webhooks(const Webhooks&) = delete;
  Webhooks& operator=(const Webhooks&) = delete;

  /// The `model` of the job: the receiver, or a prefix and its hash where the receiver is too long. So a
  /// receiver that fails is paused alone, and budgets may name it.
  static std::string model_of(const Webhook& webhook);

  /// A job without a group has ended. Requires: it has `notify`.
  void owe(const Job& job, const Terminal& how, TimePoint now);
  /// A group is over, or was given up before it was. Requires: it has `notify`.
  void owe(const Group& group, TimePoint now);
  bool any() const { return !owed_.empty(); }
  std::vector<Webhook> take() { return std::exchange(owed_, {}); }
  /// The job's id: that of the webhook and the time of the end, or the next time with which nobody has it.
  std::string free_id(const Webhook& webhook) const;
  /// The job was refused, which an operator is told.
  void refused(const Webhook& webhook, std::string_view code, std::string_view message);

 private:
  void add(Webhook webhook);

  State& state_;
  std::vector<Webhook> owed_;
};

}  // namespace lanemq::core
