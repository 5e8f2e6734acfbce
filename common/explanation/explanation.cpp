// SPDX-License-Identifier: Apache-2.0
#include "common/explanation/explanation.hpp"

#include <cstdio>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

#include "common/explanation/unserved.hpp"

namespace lanemq {
namespace {

/// The text behind `prefix`; empty: it begins otherwise.
std::string_view behind(std::string_view prefix, std::string_view text) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string_view{};
}

std::string in_quotes(std::string_view name) {
  return "\"" + printable(name) + "\"";
}

/// The end of a sentence that says when the wait may be over.
std::string until(const JobNow& status, const char* when_known, const char* when_not) {
  return status.eta ? when_known + short_duration(*status.eta) : std::string(when_not);
}

/// A job that waits for a budget which several shards share. `of`: the budget's name, and its limit where
/// that is used up; `why`: what else the bank says.
Explanation waits_at_bank(std::string_view of, std::string_view why) {
  const std::size_t space = of.rfind(' ');
  const std::string_view limit = space == std::string_view::npos ? std::string_view() : of.substr(space + 1);
  const bool names_limit = limit == "concurrency" || limit.find("_per_") != std::string_view::npos;
  const std::string name = in_quotes(names_limit ? of.substr(0, space) : of);
  const std::string help = "All shards have the limit together; lanemq limits shows what is where.";
  if (names_limit)
    return {.what = "waits for budget " + name + ": its bank has not enough left of its " + printable(limit) +
                    ".",
            .help = help};
  if (why.ends_with("lanes above"))
    return {.what = "waits for budget " + name + ": jobs of higher lanes, here or at other shards, go first.",
            .help = help};
  if (why.ends_with("other shards"))
    return {.what = "waits for budget " + name + ": it is the turn of other shards.", .help = help};
  if (why.ends_with("lost draws"))
    return {.what = "waits for budget " + name + ": its bank does not know what it has granted before.",
            .help =
                "It grants again once that counts no more; lanemq resume budget has it go on at once. See "
                "bank.away in the broker's log."};
  if (why.ends_with("another broker draws"))
    return {.what = "waits for budget " + name + ": another broker draws for this shard.",
            .help = "See bank.away in the broker's log."};
  return {
      .what = "waits for budget " + name + ": its bank has not granted anything yet.",
      .help =
          "It does within a second; if not, the bank's database is away: see bank.away in the broker's log."};
}

/// A job that waits for a budget. `blocker`: the budget's name and limit, or its pause.
constexpr std::string_view kLearntHelp =
    " lanemq limits shows from what that is known, and lanemq resume budget forgets it.";

/// The number behind `learnt=` at the blocker's end, which is cut off there: what its upstream has stated or
/// shown of the limit. Empty: it is the configured one.
std::string cut_learnt(std::string_view& blocker) {
  constexpr std::string_view kLearnt = " learnt=";
  const std::size_t at = blocker.rfind(kLearnt);
  if (at == std::string_view::npos) return {};
  const std::string number = printable(blocker.substr(at + kLearnt.size()));
  blocker = blocker.substr(0, at);
  return number;
}

Explanation waits_for_budget(const JobNow& status, std::string_view blocker) {
  constexpr std::string_view kPaused = " paused by its upstream",
                             kModel = " paused by model=", kBank = " at the bank";
  if (blocker.ends_with(kPaused)) {
    const std::string name = in_quotes(blocker.substr(0, blocker.size() - kPaused.size()));
    return {.what = "waits because the upstream of budget " + name + " asked for a pause" +
                    until(status, ", which is over in ", "") + ".",
            .help =
                "Waiting helps. If it happens often, the upstream allows less than the budget says: lower "
                "its limits."};
  }
  if (const std::size_t at = blocker.find(kModel); at != std::string_view::npos)
    return {.what = "waits because the upstream of budget " + in_quotes(blocker.substr(0, at)) +
                    " asked for a pause of model " + in_quotes(blocker.substr(at + kModel.size())) +
                    until(status, ", which is over in ", "") + ".",
            .help = "Waiting helps, or another model. lanemq resume budget takes the upstream's word back."};
  if (blocker.ends_with(" keys"))
    return {
        .what = "waits because every key of budget " + in_quotes(blocker.substr(0, blocker.size() - 5)) +
                " was refused by its upstream and rests, or is drained" +
                until(status, "; the next one is tried in ", "") + ".",
        .help =
            "Add a key, or see to the accounts; SIGHUP has the broker try them at once, and lanemq limits "
            "shows them."};
  if (const std::size_t at = blocker.find(kBank); at != std::string_view::npos)
    return waits_at_bank(blocker.substr(0, at), blocker.substr(at + kBank.size()));
  const std::string learnt = cut_learnt(blocker);
  const std::size_t space = blocker.rfind(' ');
  const std::string name = in_quotes(blocker.substr(0, space));
  const std::string limit = space == std::string_view::npos ? "limit" : printable(blocker.substr(space + 1));
  if (!learnt.empty() && limit == "concurrency")
    return {.what = "waits because the upstream of budget " + name + " takes " + learnt + " jobs at once.",
            .help = "It goes when one of them ends; a higher lane puts a job in front." +
                    std::string(kLearntHelp)};
  if (!learnt.empty())
    return {.what = "waits for budget " + name + ": not enough is left of its " + limit + ", which is " +
                    learnt + " by its upstream" +
                    until(status, "; there may be in ", ", and what comes free goes to jobs before it") + ".",
            .help = "A higher lane puts a job in front." + std::string(kLearntHelp)};
  if (limit == "concurrency")
    return {.what = "waits because as many jobs run as budget " + name + " allows at once (concurrency).",
            .help =
                "It goes when one of them ends; a higher concurrency helps if the upstream allows it, a "
                "higher lane "
                "puts a job in front."};
  return {.what = "waits for budget " + name + ": not enough is left of its " + limit +
                  until(status, "; there may be in ", ", and what comes free goes to jobs before it") + ".",
          .help =
              "A higher limit helps if the upstream allows it (lanemq limits shows what is left), a higher "
              "lane puts "
              "a job in front."};
}

/// A job that waits for a failed upstream. `blocker`: the service, model and client concerned.
Explanation waits_for_upstream(const JobNow& status, std::string_view blocker) {
  constexpr std::string_view kModel = " model=", kClient = " client=";
  const auto cut_off = [&](std::string_view mark) {
    const std::size_t at = blocker.find(mark);
    if (at == std::string_view::npos) return std::string_view{};
    const std::string_view name = blocker.substr(at + mark.size());
    blocker = blocker.substr(0, at);
    return name;
  };
  const std::string_view client = cut_off(kClient), model = cut_off(kModel);
  return {.what = "waits because the upstream of " + in_quotes(blocker) + " failed" +
                  (model.empty() ? "" : " for model " + in_quotes(model)) + " and is left alone" +
                  (client.empty() ? "" : ", as far as client " + in_quotes(client) + " is concerned") +
                  until(status, "; it is tried again in ", "") + ".",
          .help = "The logs of its workers say how it failed; lanemq stats shows the upstreams in trouble."};
}

Explanation waits(const JobNow& status) {
  const std::string_view blocker = status.blocked_by;
  if (std::string_view service = behind("worker ", blocker); !service.empty()) {
    if (constexpr std::string_view kAlone = " alone"; service.ends_with(kAlone)) {
      service.remove_suffix(kAlone.size());
      return {
          .what = "waits for a worker that serves " + in_quotes(service) +
                  " and holds nothing else: a worker was lost that had this job and others, and any of them "
                  "may be why.",
          .help =
              "It goes as any again when it is known which one was; one more worker for that service "
              "lets others go on meanwhile."};
    }
    return {
        .what = "waits for a free place at a worker that serves " + in_quotes(service) + ".",
        .help =
            "Start a worker for that service, or give one more --capacity; lanemq stats shows the places."};
  }
  if (const std::optional<Unserved> unserved = unserved_of(blocker))
    return {.what = "waits because no worker serves " + name_of(*unserved, "\"") + ".",
            .help = help_of(*unserved)};
  if (const std::string_view upstream = behind("upstream ", blocker); !upstream.empty())
    return waits_for_upstream(status, upstream);
  if (const std::string_view client = behind("client ", blocker); !client.empty())
    return {.what = "waits because its client, " + in_quotes(client.substr(0, client.rfind(' '))) +
                    ", has as many jobs at workers as it may (in_flight_max).",
            .help = "It goes when one of them ends."};
  if (std::string_view reserve = behind("reserve ", blocker); !reserve.empty()) {
    cut_learnt(reserve);
    return {.what = "waits because what is left of budget " +
                    in_quotes(reserve.substr(0, reserve.rfind(' '))) + " (" +
                    printable(reserve.substr(reserve.rfind(' ') + 1)) + ") is reserved for higher lanes" +
                    until(status, "; there may be more in ", "") + ".",
            .help = "A higher lane may use it, a higher limit helps if the upstream allows it."};
  }
  if (const std::string_view budget = behind("budget ", blocker); !budget.empty())
    return waits_for_budget(status, budget);
  if (const std::string_view pause = behind("paused ", blocker); !pause.empty()) {
    const std::size_t colon = pause.find(": ");
    const std::string reason = colon == std::string_view::npos
                                   ? ""
                                   : ": " + printable(pause.substr(colon + 2), limits::reason_bytes_max);
    const std::string_view thing = pause.substr(0, colon), name = thing.substr(thing.find(' ') + 1);
    const std::string_view kind = thing.substr(0, thing.find(' '));
    return {
        .what = "waits because an operator paused " + printable(kind) + " " + in_quotes(name) + reason + ".",
        .help = "lanemq resume " + printable(kind) + " " + printable(name) + " takes the pause back."};
  }
  if (const std::string_view lane = behind("lane ", blocker); !lane.empty())
    return {.what = "waits for its turn: there are jobs before it in lane " + in_quotes(lane) +
                    " or in higher ones.",
            .help = "Nothing is used up; a higher lane puts a job in front."};
  if (blocker == "retry")
    return {.what = "failed at attempt " + std::to_string(status.attempts) + " and waits to be tried again" +
                    until(status, " in ", "") + ".",
            .help = "Waiting helps if the cause passes; the log of its worker names it."};
  if (blocker.empty()) return {.what = "waits, and the broker does not say for what.", .help = {}};
  return {.what = "waits for " + in_quotes(blocker) + until(status, "; that may be over in ", "") + ".",
          .help = {}};
}

std::string error_text(const JobNow& status) {
  const std::string code = printable(status.error_code, limits::text_bytes_max),
                    message = printable(status.error_message, limits::text_bytes_max);
  return code.empty() ? "" : ": " + code + (message.empty() ? "" : ", " + message);
}

std::string help_of_failed(const JobNow& status) {
  // The worker's code stands in front of the message.
  const bool key_is_refused = status.error_message.starts_with("upstream_auth: ");
  return key_is_refused
             ? std::string(kKeyHelp) + " lanemq redrive " + printable(status.id) + " runs it again."
             : std::string();
}

Explanation state_of(const JobNow& status) {
  if (status.state == "queued" || status.state == "delayed") return waits(status);
  if (status.state == "running")
    return {.what = "runs" + (status.worker.empty() ? "" : " at worker " + in_quotes(status.worker)) +
                    ", attempt " + std::to_string(status.attempts) + ".",
            .help = "lanemq fetch ID --wait 30s waits for its answer."};
  if (status.state == "succeeded")
    return {.what = "has succeeded.", .help = "lanemq fetch ID prints its answer."};
  if (status.state == "cancelled") return {.what = "was cancelled.", .help = {}};
  if (status.state == "expired")
    return {.what = "ended because its time was over" + error_text(status) + ".",
            .help = "A longer --timeout or a higher lane helps; lanemq stats shows what the lane waits."};
  if (status.state == "failed")
    return {.what = "has failed" + error_text(status) + ".", .help = help_of_failed(status)};
  if (status.state == "unknown")
    return {.what = "is not known: no such job came, or it has ended and is no longer kept.",
            .help = "A job that is to be found longer is submitted with a longer retain_ms."};
  return {.what = "is " + printable(status.state) + ".", .help = {}};
}

}  // namespace

Explanation explain(const JobNow& status) {
  Explanation explanation = state_of(status);
  const std::string lane = status.lane.empty() ? "" : " of lane " + in_quotes(status.lane);
  explanation.what = "Job " + printable(status.id) + lane + " " + explanation.what;
  return explanation;
}

std::string short_duration(std::chrono::milliseconds duration) {
  const long long ms = duration.count();
  char text[32];
  if (ms < 1'000)
    std::snprintf(text, sizeof text, "%lldms", ms);
  else if (ms < 60'000)
    std::snprintf(text, sizeof text, "%lld.%llds", ms / 1'000, ms % 1'000 / 100);
  else if (ms < 3'600'000)
    std::snprintf(text, sizeof text, "%lldm%02llds", ms / 60'000, ms / 1'000 % 60);
  else
    std::snprintf(text, sizeof text, "%lldh%02lldm", ms / 3'600'000, ms / 60'000 % 60);
  return text;
}

}  // namespace lanemq
