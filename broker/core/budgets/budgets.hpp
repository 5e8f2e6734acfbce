// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/messages.hpp>

#include "broker/core/base/mark.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/last_two.hpp"
#include "broker/core/budgets/quota.hpp"

namespace lanemq::core {

struct StoredEntry;

/// One key of a budget's pool.
struct Key {
  enum class State : std::uint8_t {
    active,
    draining,  ///< given to no job any more
    spent,     ///< the upstream refused it: it rests, and is tried with one job when it has
  };
  std::string name;
  std::uint32_t weight = 1;
  std::size_t account = 0;  ///< among its budget's
  State state = State::active;
  std::int64_t running = 0;
  std::uint64_t given = 0;    ///< jobs that got it
  TimePoint since{};          ///< what is said of it in answer to earlier calls is out of date
  int refusals = 0;           ///< since an answer came by it, one for each rest
  TimePoint rests_until{};    ///< spent
  bool tried = false;         ///< spent, and a job is under way that tries it
  LastTwo answered, refused;  ///< clients whose jobs were, of late
  /// Spent: the only client whose jobs found that out; kNoMark: there were several, or it is not known.
  std::uint64_t spent_by = kNoMark;

  /// How long the first rest is; each one more is twice as long, up to kRestMax.
  static constexpr Duration kRestMin = std::chrono::minutes(1), kRestMax = std::chrono::hours(1);
  Duration rest() const;
  /// When it may be given to a job, but for limits; kNever when only a settle can tell.
  TimePoint open_from() const {
    return state == State::active ? TimePoint{} : state == State::spent && !tried ? rests_until : kNever;
  }
};
std::string_view name_of(Key::State state);

/// An account upstream: the limits that its keys share.
struct Account {
  std::string name;  ///< the quota_group, or the key's
  Quota quota;
  std::uint64_t earmarked_from = 0;  ///< the claim that was told last to leave it to others
  bool unsaved = false;              ///< as of Budget
};

/// What an upstream allows, at work.
struct Budget {
  explicit Budget(const BudgetOptions& options);

  BudgetOptions options;
  Quota quota;                    ///< of all its keys together
  std::vector<Account> accounts;  ///< never removed, so that places stay
  std::vector<Key> keys;          ///< likewise
  bool paused = false;            ///< by an operator
  bool eased = false;             ///< it is among those that may have room again
  bool unsaved = false;           ///< what counts of its own limits has changed since that was last saved

  void add_key(const KeyOptions& key);
};

/// The budgets that match one job, by place. Jobs with equal sets share a queue.
using BudgetSet = std::uint32_t;

/// What one running job has taken; belongs to the job and is settled exactly once.
struct Reservation {
  static constexpr std::uint16_t kNoKey = Claim::kNoKey;

  BudgetSet set = 0;
  bool held = false;
  bool tries_key = false;      ///< its key has rested, and this finds out whether it is taken again
  std::uint16_t key = kNoKey;  ///< in the set's pool
  TimePoint taken_at{};
  std::uint32_t input_tokens = 0, output_tokens = 0;

  Amounts amounts() const { return {.input_tokens = input_tokens, .output_tokens = output_tokens}; }
};

/// Everything that is somebody else's quota. All or nothing: a job takes from every budget that matches it or
/// from none.
class Budgets {
 public:
  static constexpr std::size_t kKeysMax = 256;  ///< of a budget

  explicit Budgets(const std::vector<BudgetOptions>& options);

  /// The set of budgets that match. Sets are few: a combination of configured budgets each. `tenant`: the
  /// client's.
  BudgetSet match(std::string_view service, std::string_view model, std::string_view client,
                  std::string_view lane, std::string_view tenant = {});
  /// Whether some limit of the set counts tokens, so that a job's are worth estimating.
  bool counts_tokens(BudgetSet set) const { return sets_[set].counts_tokens; }
  /// Whether some budget of the set counts what a request allows its answer, not what the answer has.
  bool counts_bound(BudgetSet set) const { return sets_[set].counts_bound; }
  /// The limit of the set that `amounts` is more than, even of an empty window; null when there is none. Of a
  /// pool, where that is so of each key that is given to jobs.
  Obstacle unsatisfiable(BudgetSet set, const Amounts& amounts) const;
  /// As much of an estimate of the output as the limits of the set could ever grant.
  void cut_output(BudgetSet set, Amounts& amounts) const;

  // A model that an upstream refuses while it answers others is paused alone. Its jobs have sets of their own
  // then, with the same budgets, so that they keep nobody else waiting.

  /// How many models may be apart; what names one more pauses the one job.
  static constexpr std::size_t kModelsApartMax = 64;
  /// Of these, how many the jobs of one client may have brought about.
  static constexpr std::size_t kModelsApartOfClient = kModelsApartMax / 4;
  static constexpr std::size_t kNoModel = static_cast<std::size_t>(-1);

  /// Where its jobs wait: behind the budgets' lines there is one for each model that is apart.
  std::size_t line_of(std::size_t model) const { return budgets_.size() + model; }
  bool any_apart() const { return !apart_.empty(); }
  /// The model's place among those that are apart; kNoModel where there is none for it. `client`: whose job
  /// brings it about. `in_use`: whether a place may not go to another one, though nothing pauses its model.
  std::size_t go_apart(std::string_view model, std::string_view client, TimePoint now,
                       const std::function<bool(std::size_t)>& in_use);
  /// The set that jobs of the model have in the place of `set`, whichever model that is for.
  BudgetSet apart(BudgetSet set, std::string_view model);
  /// Whose place among the models that are apart a set is for; kNoModel: it is for the others.
  std::size_t model_of(BudgetSet set) const { return sets_[set].model; }
  const std::string& model_name(std::size_t model) const { return apart_[model].name; }
  /// That an upstream asked to be left alone, or that it refuses every key.
  struct UpstreamPause {
    const Budget* budget = nullptr;
    TimePoint until{};
    std::string_view model{};  ///< it is about that one alone; empty: about all
    bool no_key = false;       ///< all keys of the budget rest
    bool tried = false;        ///< a job finds out at present whether it holds: it may be over any moment
    std::string name() const {
      return Obstacle{.budget = budget, .paused = !no_key, .no_key = no_key, .model = model}.name();
    }
  };
  /// What keeps all jobs of the set's model waiting, and until when; no budget where nothing does.
  UpstreamPause model_pause(BudgetSet set, TimePoint now) const;
  /// The model pauses of a budget, of its keys' accounts too, that are not over: the model, and until when.
  std::vector<std::pair<std::string_view, TimePoint>> paused_models(std::size_t budget, TimePoint now) const;

  /// What keeps a job from having what it claims now.
  Obstacle obstacle(BudgetSet set, const Claim& claim, TimePoint now);
  /// What keeps a job from having what it claims of one budget of the set, and when that may be over.
  Obstacle obstacle_of(BudgetSet set, std::size_t budget, const Claim& claim, TimePoint now);
  /// Earmarks the account: a flow ahead is saving it up, so this claim may not take from it. Requires: the
  /// claim has a number.
  void earmark(std::size_t budget, std::size_t account, const Claim& claim) {
    budgets_[budget].accounts[account].earmarked_from = claim.number;
  }
  /// Whether what the claim leaves to the lanes above can stay there: not where it is more than a burst.
  bool leaves_hold(BudgetSet set, const Claim& claim) const;
  /// The places of a set's budgets among all().
  const std::vector<std::size_t>& of(BudgetSet set) const { return sets_[set].budgets; }
  /// The lines of those that may have room, since this was asked last, for other reasons than that time
  /// passed: places of budgets, and line_of() models.
  std::vector<std::size_t> take_eased();
  /// Debits one job, and gives it the key with the most room where its budgets have keys. Requires: no
  /// obstacle.
  Reservation reserve(BudgetSet set, const Claim& claim, TimePoint now);
  /// The key's name; empty where there is none.
  std::string_view key_of(const Reservation& reservation) const;
  /// The attempt is over and was sent: its place is free again, and what it used, where that is known, takes
  /// the place of what it was expected to. Unknown, it is taken to have used all of that.
  void settle(Reservation& reservation, const std::optional<Amounts>& used, TimePoint now);
  /// Whether a job that was to find out if a pause still holds was settled since this was asked last.
  bool take_tried() { return std::exchange(tried_, false); }
  /// The job was handed back untouched: its place is free and all of it is given back.
  void release(Reservation& reservation, TimePoint now);
  /// When a job will have what it claims if until then nothing is taken, given or learnt: for people. kNever
  /// where nobody can say, and of a pool with more than kForeseenKeys, which would take long.
  TimePoint foreseen(BudgetSet set, const Claim& claim, TimePoint now) const;
  static constexpr std::size_t kForeseenKeys = 16;

  /// That the upstream refused a job for its rate.
  struct Limited {
    std::string_view model, client;  ///< of the job
    TimePoint until{};               ///< it asks to be left alone until then
    bool shared = false;             ///< it says that nothing is left of what all models share
    bool told = false;               ///< it says what its limits are
  };
  /// The account of the job's key rests, or, where the job had no key, every budget that counts something
  /// over time; but only for the job's model, unless another one was refused within kOthersWithin, and none
  /// was answered since, nor within kAnsweredLately. In a pause that is probed it goes apart in any case, so
  /// that another one finds out whether it holds. A pause is only ever lengthened. Who says nothing of its
  /// limits has shown that they are lower. `in_use`: whether jobs wait in sets for a place among the models
  /// apart. False when nothing rests: the job waits itself.
  bool pause(const Reservation& reservation, const Limited& limited, TimePoint now,
             const std::function<bool(std::size_t)>& in_use);
  static constexpr Duration kOthersWithin = std::chrono::minutes(1);
  static constexpr Duration kAnsweredLately = std::chrono::seconds(10);
  /// Until when the upstreams of a set's budgets asked to be left alone, or may be asked whether that still
  /// holds; of a budget with keys those of all keys, unless all rest; null where none did. The one that asked
  /// for longest, of those that are not tried at present where there are such.
  UpstreamPause upstream_pause(BudgetSet set, TimePoint now) const;
  /// Until when every key that the set's jobs could get rests; no budget where one is active, or all are
  /// draining.
  UpstreamPause keys_rest(BudgetSet set, TimePoint now) const;
  /// The upstream refuses the job's key, which rests then. `may_spend`: else it rests only if that was known
  /// and the job was to find out whether it holds. Nor does it where others than that client were answered by
  /// it within kAnsweredLately, and none was refused: what the client asks for may be why. Requires: it has
  /// one.
  struct Spending {
    bool news = false;      ///< it was not known
    bool key_left = false;  ///< another one, for the job to go on with
    Duration rest{};        ///< news: for how long
  };
  Spending spend_key(const Reservation& reservation, bool may_spend, TimePoint now,
                     std::uint64_t client = kNoMark);
  /// The upstream took the job's key. `answered`: and did what was asked, for that client. True if it was
  /// spent and is not any more.
  bool take_key(const Reservation& reservation, bool answered, TimePoint now = {},
                std::uint64_t client = kNoMark);
  /// The client has a job that needs a key: where all rest, those that another client alone found spent may
  /// be tried now.
  void try_keys_for(BudgetSet set, std::uint64_t client, TimePoint now);

  /// What the upstream says of its limits of a minute in answer to a job that has taken `reservation`.
  void learn(const Reservation& reservation, const wire::UpstreamLimits& limits, TimePoint now);
  /// The upstream refused for its rate and did not say what it is.
  void cut(const Reservation& reservation, TimePoint now);
  /// The upstream answered the job that had taken `reservation`, or was overloaded: moves the concurrency.
  void succeeded(const Reservation& reservation, std::string_view model, TimePoint now);
  void overloaded(const Reservation& reservation, TimePoint now);

  /// Other limits, concurrencies and keys count from now on, by the names of budgets; a key that is not there
  /// any more is drained, one that was spent is tried again. Budgets stay those that they were.
  void configure(const std::vector<BudgetOptions>& options, TimePoint now);

  /// Other limits and concurrencies of one budget and its keys count from now on; its keys stay in the states
  /// that they are in. Requires: the same names.
  void change_limits(const BudgetOptions& options, TimePoint now);

  /// What a budget's upstream has said and shown is forgotten, of its keys' accounts too: pauses, lower
  /// limits, lower concurrencies. True if there was something to forget.
  bool lift(std::size_t place, TimePoint now);
  /// Whether lift() would find something.
  bool can_lift(std::size_t place, TimePoint now);

  /// What is saved as one: a budget's own limits with the states of its keys, or one account of its keys.
  struct Part {
    std::size_t budget = 0, account = kOwnLimits;
  };
  static constexpr std::size_t kOwnLimits = static_cast<std::size_t>(-1);

  /// Those of which something was taken, given back or learned since this was asked last.
  std::vector<Part> take_unsaved();
  bool any_unsaved() const { return !unsaved_.empty(); }
  /// A hand-over waits until they are on disk: they are to be saved without delay.
  bool must_save() const { return must_save_; }
  /// All of them are saved anew.
  void save_all();
  /// What counts of a part's past, for restore(); times as of `epoch_us`, Unix time of the time zero. Errs on
  /// the side of the limit, by a hundredth of a period, and by what is debited ahead.
  std::vector<StoredEntry> save(const Part& part, std::int64_t epoch_us) const;
  /// Goes on where save() was: nothing comes back that was spent, for those limits that are still there.
  /// `entries`: of all its parts, those of an account under account_entry().
  void restore(Budget& budget, const std::vector<StoredEntry>& entries, std::int64_t epoch_us, TimePoint now);
  static std::string account_entry(std::string_view account, std::string_view entry);
  /// A reservation that was made before, and is in what was restored: but for its place among those that run.
  Reservation adopt(BudgetSet set, const Amounts& amounts, std::string_view key, TimePoint taken_at);

  // A job that is not on disk is sent without waiting for a disk, and a crash must not forget what it took.
  // So what is saved of limits that such jobs use is a debit ahead of what was taken: half of each burst.
  // While no more than that has gone out since the last save that is known to be on disk, nothing waits.

  /// Whether what was reserved may be used before it is saved: it is covered by what is on disk. If not, it
  /// may be when what is saved next is on disk, and must_save().
  bool use_ahead(const Reservation& reservation);
  /// All that is unsaved is being saved now. True if saved() is to be called when it is on disk.
  bool saving() { return marks_.begin(); }
  void saved() { marks_.end(); }
  /// Nothing is handed over any more: what is saved next is what was taken, and no more.
  void end_leases();

  /// Whether an operator paused a budget of the set.
  bool paused(BudgetSet set) const {
    return std::any_of(sets_[set].budgets.begin(), sets_[set].budgets.end(),
                       [&](std::size_t i) { return budgets_[i].paused; });
  }
  /// All of them, for reports.
  std::vector<Budget>& all() { return budgets_; }
  const std::vector<Budget>& all() const { return budgets_; }

 private:
  struct Set {
    std::vector<std::size_t> budgets;
    std::size_t pool = kNoPool;    ///< the budget whose keys its jobs get
    std::size_t model = kNoModel;  ///< which one of those that are apart it is for
    bool counts_tokens = false, counts_bound = false;
  };

  static constexpr std::size_t kNoPool = static_cast<std::size_t>(-1);

  /// A model that has sets of its own, and what pauses it: budgets, or accounts of their keys.
  struct ModelApart {
    struct Pause {
      std::size_t budget = 0, account = kOwnLimits;
      TimePoint until{};
      Duration length{};  ///< when it was last lengthened
    };
    std::string name, client;  ///< whose job brought it about
    std::vector<Pause> pauses;
    bool paused(std::size_t budget, std::size_t account, TimePoint now) const;
    bool is_over(TimePoint now) const;
  };

  /// The budget whose keys the set's jobs get; null when they get none.
  const Budget* pool_of(BudgetSet set) const {
    const std::size_t pool = sets_[set].pool;
    return pool == kNoPool || budgets_[pool].options.keys.empty() ? nullptr : &budgets_[pool];
  }
  Budget* pool_of(BudgetSet set) {
    const Budget* const pool = std::as_const(*this).pool_of(set);
    return pool == nullptr ? nullptr : &budgets_[sets_[set].pool];
  }
  void describe(Set& set) const;
  BudgetSet intern(Set set);
  Key* best_key(BudgetSet set, const Claim& claim, TimePoint now);
  Account* first_account(BudgetSet set, const Claim& claim, TimePoint now);
  bool account_paused(BudgetSet set, std::size_t account, TimePoint now) const {
    const Set& of = sets_[set];
    return of.model != kNoModel && apart_[of.model].paused(of.pool, account, now);
  }
  const Quota& quota_of(const Part& part) const {
    const Budget& budget = budgets_[part.budget];
    return part.account == kOwnLimits ? budget.quota : budget.accounts[part.account].quota;
  }
  Quota& quota_of(const Part& part) { return const_cast<Quota&>(std::as_const(*this).quota_of(part)); }
  bool pauses_all(const Part& part, const Limited& limited, TimePoint now) const;
  bool is_short(const Part& part, const Limited& limited, TimePoint now) const;
  bool pause_part(const Part& part, const Limited& limited, TimePoint now,
                  const std::function<bool(std::size_t)>& in_use);
  void pause_model(std::size_t model, const ModelApart::Pause& pause);
  void restore_model(const Budget& budget, const StoredEntry& entry, std::int64_t epoch_us, TimePoint now);
  static bool is_earmarked(const Account& account, const Claim& claim) {
    return claim.number != 0 && account.earmarked_from == claim.number;
  }
  Obstacle key_obstacle(BudgetSet set, const Claim& claim, TimePoint now);
  void ease(std::size_t budget);
  void note_change(std::size_t budget, std::size_t account);
  Key& key_at(const Reservation& reservation);
  const Key& key_at(const Reservation& reservation) const;
  Quota& account_of(const Reservation& reservation);
  /// Calls `change` with every quota that the reservation was taken from, and its place.
  template <class Change>
  void for_parts(const Reservation& reservation, Change change);
  /// The same, where that changes something; with the place of its budget.
  template <class Change>
  void for_quotas(const Reservation& reservation, Change change);

  std::vector<Budget> budgets_;
  std::vector<std::size_t> eased_;
  std::vector<Part> unsaved_;
  bool must_save_ = false;
  bool tried_ = false;
  SaveMarks marks_;
  std::vector<Set> sets_;
  std::map<std::pair<std::vector<std::size_t>, std::size_t>, BudgetSet> interned_;  // budgets, and the model
  std::vector<ModelApart> apart_;
  absl::flat_hash_map<std::string, std::size_t, StringHash, StringEqual> apart_by_name_;
};

template <class Change>
void Budgets::for_parts(const Reservation& reservation, Change change) {
  const Set& set = sets_[reservation.set];
  for (const std::size_t i : set.budgets)
    change(budgets_[i].quota, Part{.budget = i});
  if (reservation.key != Reservation::kNoKey)
    change(account_of(reservation), Part{.budget = set.pool, .account = key_at(reservation).account});
}

template <class Change>
void Budgets::for_quotas(const Reservation& reservation, Change change) {
  for_parts(reservation, [&](Quota& quota, const Part& part) {
    note_change(part.budget, part.account);
    change(quota, part.budget);
  });
}

}  // namespace lanemq::core
