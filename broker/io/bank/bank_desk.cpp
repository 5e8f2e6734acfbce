// SPDX-License-Identifier: Apache-2.0
#include "broker/io/bank/bank_desk.hpp"

#include <chrono>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "broker/core/budgets/shared/bank.hpp"
#include "common/signals/signals_blocked.hpp"

namespace lanemq::io {

BankDesk::BankDesk(std::unique_ptr<BankRows> rows)
    : rows_(std::move(rows)), wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_ < 0) throw std::runtime_error("cannot make an eventfd; raise the limit of open files");
  const SignalsBlocked for_thread;
  thread_ = std::thread([this] { run(); });
}

BankDesk::~BankDesk() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  asked_.notify_one();
  thread_.join();
  ::close(wake_);
}

void BankDesk::draw(std::vector<core::DrawWanted> draws) {
  {
    const std::lock_guard lock(mutex_);
    std::move(draws.begin(), draws.end(), std::back_inserter(draws_));
  }
  asked_.notify_one();
}

bool BankDesk::take(std::vector<BankAnswer>& answers) {
  std::uint64_t count = 0;
  if (::read(wake_, &count, sizeof count) < 0) return false;  // it is the loop's alone, and never blocks
  const std::lock_guard lock(mutex_);
  std::move(answers_.begin(), answers_.end(), std::back_inserter(answers));
  answers_.clear();
  return true;
}

BankFigures BankDesk::figures() const {
  const std::lock_guard lock(mutex_);
  return figures_;
}

void BankDesk::run() {
  std::unique_lock lock(mutex_);
  look(lock);
  while (true) {
    // Where a draw has failed the next one says more than a look: while there are draws nobody looks.
    const auto pause = looked_ && !figures_.trouble.empty() ? kLookEveryAway : kLookEvery;
    if (!asked_.wait_for(lock, pause, [this] { return ends_ || !draws_.empty(); })) {
      look(lock);
      continue;
    }
    if (ends_) return;
    const core::DrawWanted wanted = std::move(draws_.front());
    draws_.pop_front();
    lock.unlock();
    BankAnswer answer = ask(wanted);
    lock.lock();
    answers_.push_back(std::move(answer));
    wake();
  }
}

/// Requires: `lock` is held; gives it up meanwhile.
void BankDesk::look(std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const auto looked = rows_->look();
  lock.lock();
  if (!looked)
    figures_.trouble = looked.error().message;
  else if (std::chrono::steady_clock::now() >= told_until_)
    figures_.trouble.clear();
  looked_ = true;
  wake();
}

void BankDesk::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(wake_, &one, sizeof one));  // a full counter is readable already
}

/// Draws in one transaction.
BankAnswer BankDesk::ask(const core::DrawWanted& wanted) {
  BankAnswer answer{.budget = wanted.budget};
  core::Drawn drawn;
  const auto began = std::chrono::steady_clock::now();
  const auto done = rows_->change(
      wanted.options.name, [&](std::string_view row, const core::BankClock& clock) -> Result<std::string> {
        core::Bank bank(wanted.options, wanted.options.offline_share);
        if (!row.empty())
          if (const auto restored = bank.restore(row); !restored)
            return tl::unexpected<Error>(restored.error());
        drawn = bank.draw(wanted.draw, clock);
        return bank.save();
      });
  const auto took = std::chrono::steady_clock::now() - began;
  const std::lock_guard lock(mutex_);
  looked_ = false;
  if (!done) {
    ++figures_.lost;
    figures_.trouble = done.error().message;
    return answer;
  }
  ++figures_.draws;
  figures_.time += std::chrono::duration_cast<std::chrono::microseconds>(took);
  if (drawn.outcome == core::Drawn::Outcome::superseded) {
    told_until_ = began + kToldFor;
    figures_.trouble = "another broker draws, or drew, for shard \"" + wanted.draw.shard +
                       "\": if one runs, stop it, or name another shard with --shard; if none does, this "
                       "machine's clock was set back, and it passes";
  } else if (drawn.waits > core::Duration(0)) {
    told_until_ = began + kToldFor;
    const auto waits = std::chrono::ceil<std::chrono::seconds>(drawn.waits).count();
    figures_.trouble =
        "its database does not know of all draws that were answered, as a former primary, a "
        "backup or a new table: nothing is granted of budget \"" +
        wanted.options.name + "\" for " + std::to_string(waits) +
        " s, until those count no more (lanemq resume budget has it go on at once)";
  } else if (began >= told_until_) {
    figures_.trouble.clear();
  }
  answer.drawn = std::move(drawn);
  return answer;
}

}  // namespace lanemq::io
