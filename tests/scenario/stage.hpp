// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "broker/config.hpp"
#include "broker/core/broker.hpp"
#include "tests/scenario/transcript.hpp"
#include "tests/scenario/words.hpp"
#include "tests/support/store_model.hpp"

namespace lanemq::scenario {

/// A broker with virtual time and everything that a transcript can do to it. Messages pass the real codec in
/// both directions.
class Stage {
 public:
  /// A line without mark: `lane`, `budget`, `option`, `advance`, `beats`, `silent`, `crash`, `restart`,
  /// `commits`, `together`, `done`.
  void direct(Words words);
  /// A line with `>`: somebody says something, or something happens. It is a turn of its own unless
  /// `together`.
  void happen(Words words);
  /// What was sent since the last call, in order.
  std::vector<Words> take_sent() { return std::exchange(sent_, {}); }

 private:
  void add_lane(Words words);
  void add_budget(Words words);
  void add_key(Words words);
  void add_client(Words words);
  void add_shard(Words words);
  void set_option(Words words);
  void start();
  void restart(Words words);
  void set_commits(bool on);
  void write();
  void commit();
  core::Broker& broker();
  void stand_still(core::Duration how_long);
  void disk_is(const std::string& how);
  void client_says(const std::string& kind, Words words);
  void worker_says(Words words);
  void advance_to(core::TimePoint end);
  void turn();
  void take_outbox();
  /// A message on its way.
  struct Sent {
    Words words;
    std::string worker{};  ///< that gets a lease by it
    wire::Lease lease{};
    bool checked = false;  ///< it may leave only if the bank's grant still holds
  };
  template <class Message>
  void note_items(const core::Outbox& outbox, const core::Send& send, std::vector<std::string> to,
                  Items<Message>& items);
  void deliver(Sent sent);
  bool may_leave(const wire::Lease& lease);
  bool take_void();
  bool draw();
  core::Drawn draw_from(const core::BudgetOptions& budget, const core::Draw& draw);
  void bank_happens(const Words& words);

  std::map<std::string, std::string> sessions_;  ///< by worker: as its last welcome named it
  core::Options options_;
  const core::OptionEditor edit_ = edited;
  std::unique_ptr<core::Broker> broker_;
  std::uint64_t lives_ = 0;  // the seed of each is another, as it is in earnest
  core::TimePoint now_{}, turned_at_{};
  bool together_ = false;
  Names names_;
  Decoder decoder_;
  std::map<std::string, std::vector<wire::Lease>> held_;  // by worker: handed to it, without an outcome
  std::set<std::string> beating_;
  std::vector<std::string> beats_due_;
  std::vector<Words> sent_;
  bool crashed_ = false, commits_ = true;
  core::Duration clock_set_{};  // of the wall clock, since the store began
  StoreModel written_, committed_;
  bool uncommitted_ = false;    // written_ is ahead
  bool notes_watched_ = false;  // the core wants to hear when that is on disk
  std::vector<Sent> waiting_;   // for the disk
  bool banked_ = false, bank_away_ = false;
  std::map<std::string, std::string> bank_rows_;      // by budget
  std::map<std::string, std::uint64_t> other_draws_;  // by shard: of others, which the transcript speaks for
  std::vector<core::HandoverVoid> void_;              // hand-overs that came too late for what was granted
};

}  // namespace lanemq::scenario
