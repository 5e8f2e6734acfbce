// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cluster/bank_draws.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/budgets/shared/bank.hpp"

namespace lanemq::sim {
namespace {

/// As BankTable has it.
constexpr std::chrono::seconds kAnswerMax{2};

std::string shown(const core::Draw& draw, const std::optional<core::Drawn>& drawn) {
  if (!drawn) return " is lost";
  std::string text = ":";
  for (std::size_t i = 0; i < std::min(drawn->places.size(), draw.places.size()); ++i)
    text += " had " + std::to_string(draw.places[i].held) + " places, ran " +
            std::to_string(draw.places[i].running) + ", has " + std::to_string(drawn->places[i].places) +
            ", allowed " + std::to_string(drawn->places[i].allowed) + ";";
  for (const core::Slice& slice : drawn->slices)
    text += " slice " + std::to_string(slice.number) + " of " +
            std::to_string(slice.amounts.of(core::Resource::requests)) + " for lane " +
            std::to_string(slice.lane);
  if (drawn->slices.empty()) text += " nothing";
  if (!drawn->limits.empty()) text += "; " + std::to_string(drawn->limits.front().level) + " left";
  return text;
}

}  // namespace

void BankDraws::draw(std::vector<core::DrawWanted> wanted) {
  if (wanted.empty()) return;
  for (core::DrawWanted& one : wanted)
    wanted_.push_back(std::move(one));
  process_.after({}, [this] { next(); });
}

void BankDraws::next() {
  if (busy_ || wanted_.empty()) return;
  busy_ = true;
  ++operation_;
  if (link_) return lock();
  database_.connect(way_, process_.called<DatabaseLink>([this](DatabaseLink link) {
    if (!link) return over(std::nullopt);
    link_ = std::move(link);
    lock();
  }));
}

/// What does not come in time is given up, and the connection with it.
void BankDraws::wait_for_answer() {
  const auto lost = [this, operation = ++operation_] {
    if (operation == operation_) over(std::nullopt);
  };
  link_->on_lost = process_.called<>(lost);
  process_.after(kAnswerMax, lost);
}

void BankDraws::lock() {
  wait_for_answer();
  database_.lock_bank(link_, process_.called<const std::optional<BankSeen>&>(
                                 [this, operation = operation_](const std::optional<BankSeen>& seen) {
                                   if (operation != operation_) return;
                                   seen ? write(*seen) : over(std::nullopt);
                                 }));
}

void BankDraws::write(const BankSeen& seen) {
  const core::DrawWanted& wanted = wanted_.front();
  core::Bank bank(wanted.options, wanted.options.offline_share);
  if (!seen.row.empty())
    if (const auto restored = bank.restore(seen.row); !restored)
      violated("the bank does not restore what it saved: " + restored.error().message);
  wait_for_answer();
  const core::Drawn drawn = bank.draw(wanted.draw, seen.clock);
  database_.commit_bank(link_, bank.save(),
                        process_.called<Committed>([this, operation = operation_, drawn](Committed answer) {
                          if (operation != operation_) return;
                          // With a warning the standby that is promoted next may not know of it.
                          const bool sure = answer == Committed::yes;
                          over(sure ? std::optional(drawn) : std::nullopt);
                        }));
}

void BankDraws::over(std::optional<core::Drawn> drawn) {
  ++operation_;
  busy_ = false;
  if (!drawn && link_) database_.hang_up(std::exchange(link_, nullptr), true);
  const std::size_t budget = wanted_.front().budget;
  say_("draw " + std::to_string(wanted_.front().draw.number) + shown(wanted_.front().draw, drawn));
  wanted_.pop_front();
  answer_(budget, drawn);
  next();
}

}  // namespace lanemq::sim
