// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include <lanemq/error_table.hpp>
#include <lanemq/messages.hpp>

#include "broker/core/base/mark.hpp"
#include "broker/core/base/options.hpp"
#include "broker/core/base/string_hash.hpp"
#include "broker/core/base/time.hpp"
#include "broker/core/budgets/last_two.hpp"
#include "broker/core/budgets/learnt_budgets.hpp"
#include "broker/core/budgets/model_apart.hpp"
#include "broker/core/budgets/quota.hpp"
#include "broker/core/budgets/shared/shared_budgets.hpp"
#include "broker/core/budgets/shared/slices.hpp"

namespace lanemq::core {

struct StoredEntry;

/// One key of a budget's pool.
struct Key {
  enum class State : std::uint8_t {
    active,
    draining,  ///< no job gets it any more
    spent,     ///< the upstream refused it: it rests, and then one job tries it
  };
  std::string name;
  std::uint32_t weight = 1;
  std::size_t account = 0;  ///< place among the budget's accounts
  State state = State::active;
  std::int64_t running = 0;
  std::uint64_t given = 0;    ///< jobs that got this key
  TimePoint since{};          ///< words about calls handed over before this are out of date
  int refusals = 0;           ///< since the last answer: each makes the rest longer
  TimePoint rests_until{};    ///< of a spent key
  bool tried = false;         ///< of a spent key: a job is under way that tries it
  LastTwo answered, refused;  ///< clients whose jobs were answered, or refused, of late
  /// For a spent key: the only client whose jobs were refused; kNoMark: several clients, or unknown.
  std::uint64_t spent_by = kNoMark;

  /// The first rest. Each rest in a row is twice as long, up to kRestMax.
  static constexpr Duration kRestMin = std::chrono::minutes(1), kRestMax = std::chrono::hours(1);
  Duration rest() const;
  /// Starts the key's state at `at`, when it was configured: nothing is known of the key.
  void begin(bool draining, TimePoint at) {
    since = at;
    refusals = 0;
    state = draining ? State::draining : State::active;
  }
  /// From when a job may get it, limits aside; kNever where only a settle or an operator changes that.
  TimePoint open_from() const {
    return state == State::active ? TimePoint{} : state == State::spent && !tried ? rests_until : kNever;
  }
};
std::string_view name_of(Key::State state);

/// An account at the upstream: the limits that its keys share.
struct Account {
  std::string name;  ///< the quota_group, or the key's
  Quota quota;
  std::uint64_t earmarked_from = 0;  ///< the last claim that was told to leave the account to others
  bool unsaved = false;              ///< as Budget::unsaved
};

/// One configured budget with the state of its limits, accounts and keys.
struct Budget {
  explicit Budget(const BudgetOptions& options);
  /// One that is learnt, without limits yet. Limits that are added stay at their address.
  explicit Budget(LearntFor whose);

  BudgetOptions options;
  Quota quota;                    ///< of all its keys together
  std::vector<Account> accounts;  ///< never removed, so that places stay
  std::vector<Key> keys;          ///< likewise
  bool paused = false;            ///< by an operator
  bool eased = false;             ///< listed in Budgets::eased_
  bool unsaved = false;           ///< its own limits have changed since they were last saved
  /// The slices that this shard holds of a budget shared by several shards, in place of the windows; null:
  /// not shared. With slices, only the pauses in `quota` and `accounts` count, which this shard has seen
  /// itself.
  std::unique_ptr<Slices> slices{};
  std::unique_ptr<LearntFor> learnt{};  ///< null: it is configured
  std::int64_t drawn_for = 0;           ///< jobs that went since the last draw
  /// This shard's part of the offline_share, which it counts itself; null: there is none.
  std::unique_ptr<Quota> offline{};
  /// The limits that this broker counts; null: the bank counts all of them.
  Quota* counted() { return slices == nullptr ? &quota : offline.get(); }
  const Quota* counted() const { return slices == nullptr ? &quota : offline.get(); }

  void add_key(const KeyOptions& key);
  void add_limit(const RateOptions& rate);
};

/// The budgets that match a job, interned: jobs with equal sets share a flow. An index that stays valid.
using BudgetSet = std::uint32_t;

/// The amounts one running job has taken. Belongs to the job, and is settled exactly once.
struct Reservation {
  static constexpr std::uint16_t kNoKey = Claim::kNoKey;

  BudgetSet set = 0;
  bool held = false;
  bool tries_key = false;      ///< its key has rested: this job finds out whether the upstream takes it again
  std::uint16_t key = kNoKey;  ///< place in the set's pool
  TimePoint taken_at{};
  std::uint32_t input_tokens = 0, output_tokens = 0;
  std::uint64_t shared = 0;  ///< names its uses of shared budgets (SharedBudgets); 0: there are none

  Amounts amounts() const { return {.input_tokens = input_tokens, .output_tokens = output_tokens}; }
};

/// The limits of all upstreams. All or nothing: a job takes from every budget that matches it, or from none.
class Budgets {
 public:
  static constexpr std::size_t kKeysMax = 256;                     ///< of a budget
  static constexpr std::size_t kKeysSinceStartMax = 4 * kKeysMax;  ///< with those that were reloaded away

  /// `learns`: makes budgets where upstreams say or show limits that no budget counts.
  explicit Budgets(const std::vector<BudgetOptions>& options, bool learns = false);
  Budgets(const Budgets&) = delete;
  Budgets& operator=(const Budgets&) = delete;

  /// The set of the budgets that match. There are few sets: each is a combination of configured budgets.
  /// `tenant`: of the client.
  BudgetSet match(std::string_view service, std::string_view model, std::string_view client,
                  std::string_view lane, std::string_view tenant = {});
  /// Whether some limit of the set counts tokens, so that jobs need an estimate.
  bool counts_tokens(BudgetSet set) const { return sets_[set].counts_tokens; }
  /// Whether some budget of the set counts max_tokens and not the answer's tokens.
  bool counts_bound(BudgetSet set) const { return sets_[set].counts_bound; }
  /// A limit of the set that is smaller than `amounts`, so that it can never grant them; no budget: none is.
  /// In a pool the limits of every key in use must be too small.
  Obstacle unsatisfiable(BudgetSet set, const Amounts& amounts) const;
  /// Lowers a guessed output to what full bursts of the set's limits have room for. A larger guess would make
  /// the job, and all jobs queued behind it, wait for an empty window.
  void cut_output(BudgetSet set, Amounts& amounts) const;

  // Limits that no configured budget counts are learnt: the first limit an upstream states, or its first
  // refusal, makes a budget for its service and model.

  /// Whether what the set's upstreams allow would be learnt.
  bool learns(BudgetSet set) const { return lines_ > configured_ && sets_[set].budgets.empty(); }
  /// Whether the set's budget was learnt.
  bool is_learnt(BudgetSet set) const {
    return !sets_[set].budgets.empty() && sets_[set].budgets.front() >= configured_;
  }
  /// Where the last refusals of what a budget of the set counts were of the same few jobs again: of how many
  /// (RefusedJobs); else 0.
  std::size_t refuses_again(BudgetSet set) const {
    std::size_t jobs = 0;
    for (const std::size_t i : sets_[set].budgets)
      jobs = std::max(jobs, budgets_[i].quota.refuses_again());
    return jobs;
  }
  /// The set with a budget that is learnt for these calls; `set` where no more can be made. `limits`: what
  /// the upstream states; may be null. `sent`: calls of the last minute that no budget counted. `in_use`:
  /// whether jobs wait that the budget at that place counts, so that it stays.
  BudgetSet begin_to_learn(BudgetSet set, LearntFor whose, const wire::UpstreamLimits* limits,
                           std::int64_t sent, const std::function<bool(std::size_t)>& in_use);
  /// Counts a call that is over in the set that was learnt from it.
  void count(const Reservation& reservation, TimePoint now);
  /// Counts a running job in a set that was learnt meanwhile. Requires: its own set has no budget.
  void move(Reservation& reservation, BudgetSet to, TimePoint now);
  /// Whether, since the last call, the limits of a set became others, so that jobs may cost another amount.
  bool take_relearnt() { return std::exchange(relearnt_, false); }
  /// Makes a learnt budget again of what save() returned for it.
  void restore_learnt(const std::vector<StoredEntry>& entries, std::int64_t epoch_us, TimePoint now);

  // A model that an upstream refuses while it answers others is apart: paused alone. Its jobs get sets of
  // their own, with the same budgets, so that they keep no other job waiting.

  /// How many models may be apart. A refusal for one more pauses only the refused job.
  static constexpr std::size_t kModelsApartMax = 64;
  /// How many of these may be apart because of one client's jobs.
  static constexpr std::size_t kModelsApartOfClient = kModelsApartMax / 4;
  static constexpr std::size_t kNoModel = static_cast<std::size_t>(-1);

  /// The line where jobs of an apart model wait. These lines follow those of the budgets.
  std::size_t line_of(std::size_t model) const { return lines_ + model; }
  /// So many budgets are configured; those that were learnt follow.
  std::size_t configured() const { return configured_; }
  /// How many lines there are for budgets: of those that may still be learnt, too.
  std::size_t lines() const { return lines_; }
  bool any_apart() const { return !apart_.empty(); }
  /// Whether jobs may be in another set than home() says.
  bool may_move() const { return any_apart() || any_learnt(); }
  /// Sets the model apart, and returns its place; kNoModel where there is none. `client`: whose job was
  /// refused. `in_use`: whether jobs still wait in a place whose model is not paused any more, so that it
  /// stays.
  std::size_t go_apart(std::string_view model, std::string_view client, TimePoint now,
                       const std::function<bool(std::size_t)>& in_use);
  /// The set that jobs of the service and model have instead of `set`, which they had when they came: the
  /// model may be apart since then, or a budget was learnt.
  BudgetSet home(BudgetSet set, std::string_view service, std::string_view model);
  /// The place of the apart model that the set is for; kNoModel: it is for the other models.
  std::size_t model_of(BudgetSet set) const { return sets_[set].model; }
  const std::string& model_name(std::size_t model) const { return apart_[model].name; }
  /// An upstream asked to be left alone, or refuses every key.
  struct UpstreamPause {
    const Budget* budget = nullptr;
    TimePoint until{};
    std::string_view model{};  ///< paused alone; empty: all models are paused
    bool no_key = false;       ///< all keys of the budget rest
    bool tried = false;  ///< a job is under way that finds out whether the pause holds: it may end any moment
    std::string name() const {
      return Obstacle{.budget = budget, .paused = !no_key, .no_key = no_key, .model = model}.name();
    }
  };
  /// The pause of the set's model alone; no budget where there is none.
  UpstreamPause model_pause(BudgetSet set, TimePoint now) const;
  /// The models paused alone by a budget or an account of its keys, each with the end of its pause.
  std::vector<std::pair<std::string_view, TimePoint>> paused_models(std::size_t budget, TimePoint now) const;

  /// The reason why a job cannot have what it claims now.
  Obstacle obstacle(BudgetSet set, const Claim& claim, TimePoint now);
  /// The reason why one budget of the set refuses the claim, and when that may be over.
  Obstacle obstacle_of(BudgetSet set, std::size_t budget, const Claim& claim, TimePoint now);
  /// The refusals that the budget's keys gave this claim.
  KeysRefused refused_of(BudgetSet set, std::size_t budget, const Claim& claim) const {
    return budget == sets_[set].pool ? keys_refused(claim) : KeysRefused{};
  }
  /// Earmarks the account for a flow ahead that saves it up: this claim may not take from it. Requires:
  /// claim.number is not 0.
  void earmark(std::size_t budget, std::size_t account, const Claim& claim) {
    budgets_[budget].accounts[account].earmarked_from = claim.number;
  }
  /// Whether the claim can leave its hold to higher lanes: not where amount and hold are more than a burst.
  bool leaves_hold(BudgetSet set, const Claim& claim) const;
  /// The places of a set's budgets among all().
  const std::vector<std::size_t>& of(BudgetSet set) const { return sets_[set].budgets; }
  /// The lines that may move for another reason than time, since the last call: places of budgets, and
  /// line_of() models.
  std::vector<std::size_t> take_eased();
  /// Debits one job, and gives it the key with the most room where a budget has keys. Requires: obstacle()
  /// found none.
  Reservation reserve(BudgetSet set, const Claim& claim, TimePoint now);
  /// The name of the reservation's key; empty where it has none.
  std::string_view key_of(const Reservation& reservation) const;
  /// Ends an attempt that was sent: frees its place, and replaces the expected amounts by the used ones.
  /// Without `used` the expected ones stay debited.
  void settle(Reservation& reservation, const std::optional<Amounts>& used, TimePoint now);
  /// Whether, since the last call, a job was settled that had to find out if a pause still holds.
  bool take_tried() { return std::exchange(tried_, false); }
  /// Ends an attempt that was handed back untouched: frees its place and gives everything back.
  void release(Reservation& reservation, TimePoint now);
  /// When the claim can be had if nothing is taken, given or learnt until then: for people. kNever where that
  /// is unknown, or the pool has more than kForeseenKeys keys, which would take long.
  TimePoint foreseen(BudgetSet set, const Claim& claim, TimePoint now) const;
  static constexpr std::size_t kForeseenKeys = 16;

  /// An upstream refused a job for its rate.
  struct Limited {
    std::string_view model, client;  ///< of the job
    TimePoint until{};               ///< the upstream asks to be left alone until then
    bool shared = false;             ///< the upstream says that nothing is left of what all models share
    bool told = false;               ///< the upstream says what its limits are
    std::optional<LimitedBy> by{};   ///< which limit, where it says so
    bool waits = true;               ///< `until` is the upstream's own word
    std::uint64_t job = kNoMark;     ///< its number

    /// Whether the refusal states nothing at all.
    bool is_bare() const { return !by && !told && !waits; }
  };
  /// The jobs that a refusal holds back: that job alone, its model's, or all.
  enum class HeldBack : std::uint8_t { nobody, model, all };
  /// Pauses the account of the job's key; without a key every budget with rates. Pauses the job's model
  /// alone, unless another model was refused within kOthersWithin and none was answered since, nor within
  /// kAnsweredLately; or unless nothing is left of what all share, where none was answered since the model
  /// was last refused. Where a refusal pauses all the model is set apart as well, and waits kOthersFirst
  /// longer: so another model finds out whether the pause holds. After its pause a model begins with one
  /// job; a pause is only ever lengthened. A refusal that states no limits also lowers them (cut()). One for
  /// a pace that rises too fast lowers the pace alone, and pauses nothing where it may come again soon. One
  /// that says nothing at all, or that it is for too many at once, may lower the concurrency instead
  /// (ConcurrencyLimit::refused()), of budgets without rates, too, where none has any; then nothing is paused
  /// but for the time that the upstream names. `in_use`: as of go_apart().
  HeldBack pause(const Reservation& reservation, const Limited& limited, TimePoint now,
                 const std::function<bool(std::size_t)>& in_use);
  static constexpr Duration kOthersWithin = std::chrono::minutes(1);
  static constexpr Duration kOthersFirst = ModelApart::kOthersFirst;
  static constexpr Duration kAnsweredLately = std::chrono::seconds(10);
  /// The end of the set's pause, or when a job may probe it. A budget with keys is paused if all keys are;
  /// that all rest is keys_rest(). The longest pause of those that no job probes now, if there are such. No
  /// budget: no pause.
  UpstreamPause upstream_pause(BudgetSet set, TimePoint now) const;
  /// Until when all keys of the set's pool rest; no budget where one is active or all drain.
  UpstreamPause keys_rest(BudgetSet set, TimePoint now) const;
  /// The upstream refuses the job's key. A spent key rests again if this job tried it. Another one rests if
  /// `may_spend`, unless other clients were answered by it within kAnsweredLately and none was refused: then
  /// this client's request may be the reason. Requires: the job has a key.
  struct Spending {
    bool news = false;      ///< the key begins to rest
    bool key_left = false;  ///< another key is active, so that the job can go on with it
    Duration rest{};        ///< of a key that begins to rest: for how long
  };
  Spending spend_key(const Reservation& reservation, bool may_spend, TimePoint now,
                     std::uint64_t client = kNoMark);
  /// The upstream accepted the job's key; `answered`: and did what the client asked. True if the key was
  /// spent and is active again.
  bool take_key(const Reservation& reservation, bool answered, TimePoint now = {},
                std::uint64_t client = kNoMark);
  /// A job of this client needs a key. Where all keys rest, those may be tried now that only another client
  /// found spent.
  void try_keys_for(BudgetSet set, std::uint64_t client, TimePoint now);

  /// Takes the upstream's per-minute limits from the answer to the job that has taken `reservation`.
  /// `refused`: the model of a job that it refused for its rate; while others are answered such limits are
  /// that model's alone, and not taken.
  void learn(const Reservation& reservation, const wire::UpstreamLimits& limits, TimePoint now,
             std::string_view refused = {});
  /// Lowers the limits: the upstream refused for its rate and did not state them.
  void cut(const Reservation& reservation, TimePoint now);
  /// The upstream answered the job, or was overloaded: raises or lowers the concurrency. `model`: its mark.
  /// `calls`: the number of calls reported at once, this one the last.
  void succeeded(const Reservation& reservation, std::uint64_t model, TimePoint now, std::int64_t calls = 1);
  void overloaded(const Reservation& reservation, TimePoint now);
  /// A call of the model (by mark) that was handed over at `taken_at` was answered, perhaps to another
  /// broker: its pauses are over that began before. succeeded() does that for sets of its own.
  void model_answered(std::uint64_t model, TimePoint taken_at, TimePoint now);

  /// Applies new limits, concurrencies and keys, by the names of budgets. Keys that are no longer configured
  /// drain, spent ones are tried again. No budget is added or removed.
  void configure(const std::vector<BudgetOptions>& options, TimePoint now);

  /// Applies new limits and concurrencies to one budget and its keys, which keep their states. Requires: the
  /// same names.
  void change_limits(const BudgetOptions& options, TimePoint now);

  /// Forgets what the upstream said and showed of a budget and its accounts: pauses, lower limits, lower
  /// concurrencies. True if there was something to forget.
  bool lift(std::size_t place, TimePoint now);
  /// Whether lift() would find something.
  bool can_lift(std::size_t place, TimePoint now);

  /// The unit of saving: a budget's own limits and its keys' states, or the limits of one account.
  struct Part {
    std::size_t budget = 0, account = kOwnLimits;
  };
  static constexpr std::size_t kOwnLimits = static_cast<std::size_t>(-1);

  /// The parts that have changed since the last call.
  std::vector<Part> take_unsaved();
  bool any_unsaved() const { return !unsaved_.empty(); }
  /// Whether a hand-over waits for a save, so that it must not be delayed.
  bool must_save() const { return must_save_; }
  /// Marks all parts as unsaved.
  void save_all();
  /// The history of a part for restore(). Times count from `epoch_us`, the Unix time of time zero. Errs on
  /// the side of the limit: by a hundredth of a period, and by what is debited ahead.
  std::vector<StoredEntry> save(const Part& part, std::int64_t epoch_us, Detail detail = Detail::few) const;
  /// Continues from what save() returned: what was spent stays spent, for limits that still exist. `entries`:
  /// of all parts, those of an account under account_entry().
  void restore(Budget& budget, const std::vector<StoredEntry>& entries, std::int64_t epoch_us, TimePoint now);
  static std::string account_entry(std::string_view account, std::string_view entry);
  /// The reservation of a job that ran before a restart. Its amounts were restored; only its place is taken
  /// again.
  Reservation adopt(BudgetSet set, const Amounts& amounts, std::string_view key, TimePoint taken_at);

  // A job that is not on disk is sent without waiting for the disk, and a crash must not forget what it took.
  // So the saved state of its limits debits half of each burst ahead of what was taken. While less than that
  // has gone out since the last save on disk, nothing waits.

  /// Whether the reservation is covered by what is on disk. If not, it will be when the next save is on disk,
  /// and must_save() becomes true. `store_shared`: another broker may go on from the store, so nothing is
  /// debited ahead, and all that a limit counts waits.
  bool use_ahead(const Reservation& reservation, bool store_shared = false);
  /// Begins a save of all unsaved parts. True if saved() is to be called when they are on disk.
  bool saving() { return marks_.begin(); }
  void saved() { marks_.end(); }
  /// No job is handed over any more: the next save debits nothing ahead.
  void end_leases();

  /// Whether an operator paused a budget of the set.
  bool paused(BudgetSet set) const {
    return std::any_of(sets_[set].budgets.begin(), sets_[set].budgets.end(),
                       [&](std::size_t i) { return budgets_[i].paused; });
  }
  /// All of them, for reports.
  std::vector<Budget>& all() { return budgets_; }
  const std::vector<Budget>& all() const { return budgets_; }

  /// Those that several shards share.
  SharedBudgets shared{budgets_};

 private:
  struct Set {
    std::vector<std::size_t> budgets;
    std::size_t pool = kNoPool;    ///< the budget whose keys its jobs get
    std::size_t model = kNoModel;  ///< the place of the apart model that it is for
    bool counts_tokens = false, counts_bound = false;
  };

  static constexpr std::size_t kNoPool = static_cast<std::size_t>(-1);

  /// The budget whose keys the set's jobs get; null: they get none.
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
  BudgetSet apart(BudgetSet set, std::string_view model);
  BudgetSet learnt(BudgetSet set, std::string_view service, std::string_view model);
  bool any_learnt() const { return budgets_.size() > configured_; }
  std::size_t find_learnt(std::string_view service, std::string_view model) const;
  /// Whether a configured budget counts all jobs of that service and model, from any client.
  bool counts_all(std::string_view service, std::string_view model) const;
  std::size_t place_to_learn(const LearntFor& whose, const std::function<bool(std::size_t)>& in_use) const;
  void add_limits(Budget& budget, const wire::UpstreamLimits* limits, std::int64_t sent = 0);
  Key* best_key(BudgetSet set, const Claim& claim, TimePoint now);
  Account* first_account(BudgetSet set, const Claim& claim, TimePoint now);
  /// When the account of the set's pool is open for the set's model; `now`: it is.
  TimePoint account_opens_at(BudgetSet set, std::size_t account, TimePoint now) const;
  /// Calls `tell` with each pause of the apart model that the reservation's set is for.
  template <class Tell>
  void for_pauses(const Reservation& reservation, Tell tell);
  const Quota& quota_of(const Part& part) const {
    const Budget& budget = budgets_[part.budget];
    return part.account == kOwnLimits ? budget.quota : budget.accounts[part.account].quota;
  }
  Quota& quota_of(const Part& part) { return const_cast<Quota&>(std::as_const(*this).quota_of(part)); }
  bool shows_places(const Part& part, TimePoint taken_at, const Limited& limited, TimePoint now);
  void refused_ones_last(const Part& part, TimePoint until, TimePoint now);
  void refused_ones_probe_last(const Part& part, TimePoint from, TimePoint now);
  void take_from_pauses(const Reservation& reservation, TimePoint now);
  bool is_told_apart(const Part& part, std::string_view model, TimePoint now) const;
  bool pauses_all(const Part& part, const Limited& limited, TimePoint now) const;
  bool is_short(const Part& part, const Limited& limited, TimePoint now) const;
  HeldBack pause_part(const Part& part, const Limited& limited, TimePoint now,
                      const std::function<bool(std::size_t)>& in_use);
  void take_model_paused(const SharedBudgets::ModelPaused& told);
  void pause_model(std::size_t model, const Part& part, TimePoint until, TimePoint now);
  void restore_model(const Budget& budget, const StoredEntry& entry, std::int64_t epoch_us, TimePoint now);
  Obstacle key_obstacle(BudgetSet set, const Claim& claim, TimePoint now);
  void ease(std::size_t budget);
  void note_change(std::size_t budget, std::size_t account);
  Key& key_at(const Reservation& reservation);
  const Key& key_at(const Reservation& reservation) const;
  Quota& account_of(const Reservation& reservation);
  /// Calls `change` with every quota that the reservation was taken from, and its Part; not for shared ones.
  template <class Change>
  void for_parts(const Reservation& reservation, Change change);
  /// The same for a change that is to be saved, which it notes; with the place of the budget.
  template <class Change>
  void for_quotas(const Reservation& reservation, Change change);

  std::vector<Budget> budgets_;  // the configured ones, then those that were learnt; stay at their address
  std::size_t configured_, lines_;
  bool relearnt_ = false;

  std::vector<std::size_t> eased_;
  std::vector<Part> unsaved_;
  bool must_save_ = false;
  bool tried_ = false;
  SaveMarks marks_;
  std::vector<Set> sets_;
  std::map<std::pair<std::vector<std::size_t>, std::size_t>, BudgetSet> interned_;  // by budgets, model
  std::vector<ModelApart> apart_;
  absl::flat_hash_map<std::string, std::size_t, StringHash, StringEqual> apart_by_name_;
};

template <class Change>
void Budgets::for_parts(const Reservation& reservation, Change change) {
  const Set& set = sets_[reservation.set];
  for (const std::size_t i : set.budgets)
    if (budgets_[i].slices == nullptr || shared.is_of_offline_share(reservation, i))
      change(*budgets_[i].counted(), Part{.budget = i});
  if (reservation.key != Reservation::kNoKey && budgets_[set.pool].slices == nullptr)
    change(account_of(reservation), Part{.budget = set.pool, .account = key_at(reservation).account});
}

template <class Tell>
void Budgets::for_pauses(const Reservation& reservation, Tell tell) {
  const Set& set = sets_[reservation.set];
  if (set.model == kNoModel) return;
  const std::size_t account =
      reservation.key == Reservation::kNoKey ? kOwnLimits : key_at(reservation).account;
  for (ModelApart::Pause& pause : apart_[set.model].pauses)
    if (pause.account == kOwnLimits
            ? std::find(set.budgets.begin(), set.budgets.end(), pause.budget) != set.budgets.end()
            : pause.account == account && pause.budget == set.pool)
      tell(pause);
}

template <class Change>
void Budgets::for_quotas(const Reservation& reservation, Change change) {
  for_parts(reservation, [&](Quota& quota, const Part& part) {
    note_change(part.budget, part.account);
    change(quota, part.budget);
  });
}

/// Adds to the times of what Budgets::save() returned with Detail::few, for a store with another clock.
void shift_history(std::vector<StoredEntry>& entries, Duration by);

/// For people: why the budgets cannot be configured so while the broker runs; empty: they can. Requires: the
/// options are good for a broker that starts.
std::string cannot_configure(const Budgets& budgets, const std::vector<BudgetOptions>& options);

}  // namespace lanemq::core
