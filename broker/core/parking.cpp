// SPDX-License-Identifier: Apache-2.0
#include "broker/core/parking.hpp"

#include <algorithm>

#include "broker/core/check.hpp"
#include "broker/core/lanes.hpp"
#include "broker/core/stream_group.hpp"

namespace lanemq::core {

const Stall& Parking::stall_at(const Stream& stream, std::size_t budget) {
  const auto& stalls = stream.parked_.stalls;
  return *std::find_if(stalls.begin(), stalls.end(),
                       [&](const Stall& stall) { return stall.budget == budget; });
}

Rank Parking::rank_of(const Stream& stream, const Rank& fresh) const {
  const bool keeps =
      stream.in_line() && stream.parked_.rank.level == fresh.level && stream.saves() == fresh.is_owed();
  return keeps ? stream.parked_.rank : fresh;
}

Stream* Parking::owed_before(std::size_t budget, const Stream& stream) const {
  for (Stream* const ahead : lines_[budget].streams) {
    const Rank& rank = ahead->parked_.rank;
    if (ahead == &stream || (rank.level > 0 && !rank.is_owed())) break;
    if (rank.is_owed() && ahead->parked_.asked && can_start(*ahead)) return ahead;
  }
  return nullptr;
}

void Parking::enter_line(Stream& stream, const Stall& stall) {
  Line& line = lines_[stall.budget];
  if (!line.streams.empty() && &(*line.streams.begin())->group() != &stream.group()) line.mixed = true;
  line.streams.insert(&stream);
}

void Parking::leave_line(Stream& stream, std::size_t budget) {
  Line& line = lines_[budget];
  // Only those who are asked keep others from it.
  if (stream.parked_.asked || *line.streams.begin() == &stream || line.width > 1) moved_.push_back(budget);
  line.streams.erase(&stream);
  // What is owed leaves the top lane what that waits for: now there may be enough for both.
  if (stream.parked_.rank.level == 0) unset_shorts(line);
  if (line.streams.empty()) line.mixed = false;
}

void Parking::set_short(Stream& stream, std::size_t budget) {
  std::size_t& short_of = stream.parked_.short_of;
  if (short_of == budget) return;
  const bool was_short = short_of != Stream::kNotListed;
  if (was_short) {
    std::vector<Stream*>& shorts = lines_[short_of].shorts;
    shorts.back()->short_at_ = stream.short_at_;
    shorts[stream.short_at_] = shorts.back();
    shorts.pop_back();
    stream.short_at_ = Stream::kNotListed;
  }
  const bool is_short = budget != Stream::kNotListed;
  if (is_short) {
    stream.short_at_ = lines_[budget].shorts.size();
    lines_[budget].shorts.push_back(&stream);
  }
  short_of = budget;
  if (is_short != was_short) stream.group().set_short(stream, is_short);
}

void Parking::count_parked(StreamGroup& group, bool more) {
  if (more) {
    if (group.parked_++ > 0) return;
    group.parked_at_ = groups_.size();
    group.was_open_ = true;  // one of its heads was asked
    groups_.push_back(&group);
    return;
  }
  if (--group.parked_ > 0) return;
  groups_.back()->parked_at_ = group.parked_at_;
  groups_[group.parked_at_] = groups_.back();
  groups_.pop_back();
}

void Parking::park(Stream& stream, const Rank& rank, const std::vector<Stall>& stalls,
                   std::optional<std::size_t> short_of, TimePoint wake_at) {
  LANEMQ_CHECK(!stalls.empty());
  Stream::Parked& parked = stream.parked_;
  const auto stalled_at = [](const std::vector<Stall>& all, std::size_t budget) {
    return std::any_of(all.begin(), all.end(), [&](const Stall& stall) { return stall.budget == budget; });
  };
  const bool moves = stream.in_line() && parked.rank != rank;
  for (const Stall& stall : parked.stalls)
    if (moves || !stalled_at(stalls, stall.budget)) leave_line(stream, stall.budget);
  const std::vector<Stall> before = moves ? std::vector<Stall>() : std::move(parked.stalls);
  if (!stream.in_line()) count_parked(stream.group(), true);
  parked.rank = rank;
  for (const Stall& stall : stalls)
    if (!stalled_at(before, stall.budget)) enter_line(stream, stall);
  parked.stalls = stalls;
  parked.in = this;
  parked.asked = false;
  set_short(stream, short_of.value_or(Stream::kNotListed));
  if (stream.wake_at_ != Stream::kNotListed) wakes_.remove(stream);
  if (wake_at != kNever) wakes_.push(stream, wake_at);
  stream.group().update(stream);
  ask_first_ones();
}

void Parking::take_out(Stream& stream) {
  Stream::Parked& parked = stream.parked_;
  for (const Stall& stall : parked.stalls)
    leave_line(stream, stall.budget);
  parked.stalls.clear();
  parked.in = nullptr;
  parked.asked = false;
  set_short(stream, Stream::kNotListed);
  if (stream.wake_at_ != Stream::kNotListed) wakes_.remove(stream);
  count_parked(stream.group(), false);
  stream.group().update(stream);
}

void Parking::leave(Stream& stream) {
  if (!stream.in_line()) return;
  take_out(stream);
  ask_first_ones();
}

void Parking::leave_all() {
  for (Line& line : lines_)
    while (!line.streams.empty())
      take_out(**line.streams.begin());
  moved_.clear();
}

void Parking::ask(Stream& stream) {
  if (stream.parked_.asked) return;
  stream.parked_.asked = true;
  highest_asked_ = std::min(
      highest_asked_, stream.parked_.rank.is_owed() ? stream.lane().index() : stream.parked_.rank.level);
  asked_.push_back(&stream);
  set_short(stream, Stream::kNotListed);
  if (stream.wake_at_ != Stream::kNotListed) wakes_.remove(stream);
  stream.group().update(stream);
}

void Parking::ask_first_ones() {
  while (!moved_.empty()) {
    const Line& line = lines_[moved_.back()];
    moved_.pop_back();
    std::size_t asked = 0;
    for (auto next = line.streams.begin(); next != line.streams.end() && asked < line.width;) {
      Stream& stream = **next;
      ++next;
      // One that may not start is asked when it may, as those are that never waited here.
      if (can_start(stream)) {
        ask(stream);
        // What is owed to a lane is handed over when a job of its service has its turn: whoever is behind it
        // is asked as well, so that this is not the turn of the lane to which it is owed.
        if (!stream.parked_.rank.is_owed()) ++asked;
      } else {
        take_out(stream);
      }
    }
  }
}

void Parking::unset_shorts(Line& line) {
  while (!line.shorts.empty())
    set_short(*line.shorts.back(), Stream::kNotListed);
}

void Parking::ease(std::size_t budget) {
  unset_shorts(lines_[budget]);
  moved_.push_back(budget);
  ask_first_ones();
}

void Parking::wake(TimePoint now) {
  while (!wakes_.empty() && wakes_.front_key() <= now) {
    Stream& stream = *wakes_.front();
    if (can_start(stream)) {
      ask(stream);
    } else {
      take_out(stream);
      ask_first_ones();
    }
  }
}

void Parking::make_way() {
  bool some_open = false, some_closed = false;
  for (StreamGroup* group : groups_) {
    const bool open = can_start_(*group);
    some_open = some_open || open;
    some_closed = some_closed || (group->was_open_ && !open);
    group->was_open_ = open;
  }
  if (!some_open || !some_closed) return;
  for (std::size_t budget = 0; budget < lines_.size(); ++budget) {
    const Line& line = lines_[budget];
    if (!line.mixed || (*line.streams.begin())->group().was_open_) continue;
    const auto first = std::find_if(line.streams.begin(), line.streams.end(),
                                    [](const Stream* stream) { return stream->group().was_open_; });
    if (first != line.streams.end() && stall_at(**first, budget).behind) ask(**first);
  }
}

bool Parking::pass_on() {
  const std::vector<Stream*> asked = std::exchange(asked_, {});
  for (Stream* stream : asked) {
    if (!stream->parked_.asked) continue;
    if (can_start(*stream))
      asked_.push_back(stream);  // it came to be asked when the turn of its lane was over
    else
      take_out(*stream);
  }
  ask_first_ones();
  make_way();
  return !asked_.empty();
}

}  // namespace lanemq::core
