// SPDX-License-Identifier: Apache-2.0
#include "broker/core/stream_group.hpp"

#include "broker/core/lanes.hpp"
#include "broker/core/parking.hpp"
#include "broker/core/workers.hpp"

namespace lanemq::core {

Stream& StreamGroup::stream(BudgetSet budgets) {
  Stream*& known = by_budgets_[budgets];
  if (known == nullptr) {
    streams_.push_back(std::make_unique<Stream>(*this, budgets));
    known = streams_.back().get();
  }
  return *known;
}

Stream* StreamGroup::first() {
  while (!later_.empty() && later_.front_key().first <= lane_.virtual_now()) {
    Stream& due = *later_.front();
    later_.remove(due);
    due.due_ = true;
    due_.push(due, due.listed_.arrival);
  }
  return due_.empty() ? later_.front() : due_.front();
}

void StreamGroup::list(Stream& stream) {
  stream.due_ = stream.listed_.tag <= lane_.virtual_now();
  if (stream.due_)
    due_.push(stream, stream.listed_.arrival);
  else
    later_.push(stream, {stream.listed_.tag, stream.listed_.arrival});
  if (lane_.options().boost_after.count() > 0) by_arrival_.push(stream, stream.listed_.arrival);
}

void StreamGroup::unlist(Stream& stream) {
  if (stream.due_)
    due_.remove(stream);
  else
    later_.remove(stream);
  if (stream.line_at_ != kNotReady) by_arrival_.remove(stream);
}

void StreamGroup::reconfigure() {
  for (const auto& stream : streams_) {
    if (stream->turn_at_ == kNotReady) continue;
    unlist(*stream);
    list(*stream);
  }
}

void StreamGroup::reappraise() {
  for (const auto& stream : streams_) {
    Job* const head = stream->head();
    if (head == nullptr || stream->cost_at_ == kNotReady || !lane_.appraise) continue;
    lane_.appraise(*head);
    update_cost(*stream);
  }
}

/// What a job whose tokens nobody counts is worth beside those of its service whose tokens are counted.
std::int64_t StreamGroup::usual_cost() const {
  return service_.usual_cost();
}

/// As it is listed.
std::int64_t StreamGroup::cost_of_head(const Stream& stream) const {
  return stream.counts_tokens() ? stream.head()->cost() : kUsualCost;
}

std::int64_t StreamGroup::head_cost(const Stream& stream) const {
  return stream.head_cost() == kUsualCost ? usual_cost() : stream.head_cost();
}

HeadCosts<&Stream::cost_at_>& StreamGroup::costs_of(const Stream& stream) {
  return stream.parked_.short_of == kNotReady ? able_ : short_;
}

void StreamGroup::update_cost(Stream& stream) {
  if (stream.cost_at_ == kNotReady) return;
  stream.listed_.cost = cost_of_head(stream);
  costs_of(stream).change(stream, stream.listed_.cost, stream.tag);
}

void StreamGroup::set_never_owed(Stream& stream) {
  stream.listed_.cost = kNeverOwed;
  costs_of(stream).change(stream, kNeverOwed, stream.tag);
}

void StreamGroup::forget_costs(Stream& stream) {
  if (stream.cost_at_ == kNotReady) return;
  costs_of(stream).remove(stream);
}

void StreamGroup::set_short(Stream& stream, bool is_short) {
  (is_short ? able_ : short_).remove(stream);
  (is_short ? short_ : able_).add(stream, stream.listed_.cost, stream.listed_.tag);
}

void StreamGroup::update(Stream& stream) {
  Job* const head = stream.head();
  // What keeps one job waiting says nothing of another.
  if (stream.in_line() && (head == nullptr || head->arrival != stream.listed_.arrival))
    return stream.parked_.in->leave(stream);
  const bool listed = stream.turn_at_ != kNotReady;
  const bool should_be = head != nullptr && (!stream.in_line() || stream.parked_.asked);
  const Stream::Listed before = stream.listed_;
  const bool same = head != nullptr && stream.tag == before.tag && head->arrival == before.arrival;
  if (head == nullptr) {
    forget_costs(stream);
  } else if (!same || stream.cost_at_ == kNotReady) {
    if (lane_.appraise) lane_.appraise(*head);
    stream.listed_ = {.tag = stream.tag,
                      .arrival = head->arrival,
                      .cost = cost_of_head(stream),
                      .accepted_at = head->accepted_at};
    if (stream.cost_at_ == kNotReady)
      costs_of(stream).add(stream, stream.listed_.cost, stream.tag);
    else
      costs_of(stream).change(stream, stream.listed_.cost, stream.tag);
  }
  if (should_be) {
    if (listed && same) return;
    if (listed) unlist(stream);
    list(stream);
  } else if (listed) {
    unlist(stream);
  }
  if (listed != should_be) lane_.update_ready(*this);
}

}  // namespace lanemq::core
