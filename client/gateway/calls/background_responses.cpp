// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/calls/background_responses.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include "client/gateway/calls/upstream_meta.hpp"
#include "common/json/cursor.hpp"
#include "common/json/members.hpp"
#include "common/url/percent.hpp"

namespace lanemq::gateway {
namespace {

/// Larger answers are read beside the loop.
constexpr std::size_t kStateAsideFrom = std::size_t{64} * 1024;

std::int64_t said_number(std::string_view value) {
  std::int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return std::max<std::int64_t>(number, 0);
}

}  // namespace

std::string response_of(std::string_view path) {
  if (!path.starts_with(kStoredResponses)) return {};
  const std::string_view rest = path.substr(kStoredResponses.size());
  return percent_decoded(rest.substr(0, rest.find('/')));
}

ResponseState state_of_response(std::string_view answer) {
  ResponseState state;
  state.id = unquoted_json(member_bytes(answer, "id")).value_or("");
  const std::string_view status = member_bytes(answer, "status");
  state.goes_on = status == "\"queued\"" || status == "\"in_progress\"";
  const std::string_view usage = member_bytes(answer, "usage");
  if (usage.starts_with('{'))
    state.tokens =
        said_number(member_bytes(usage, "input_tokens")) + said_number(member_bytes(usage, "output_tokens"));
  return state;
}

struct BackgroundResponses::One : std::enable_shared_from_this<One> {
  One(ResponseAsker who, std::string its_id, std::int64_t tokens, Loop& loop)
      : asker(std::move(who)),
        id(std::move(its_id)),
        taken(tokens),
        until(loop.now() + kFollowedFor),
        timer(loop.timer()) {}

  const ResponseAsker asker;
  const std::string id;
  const std::int64_t taken;
  const Loop::TimePoint until;
  std::chrono::milliseconds pause = kLookAfter;
  const std::unique_ptr<Loop::Timer> timer;
};

bool BackgroundResponses::knows(std::string_view id, std::string_view caller) const {
  const auto at = ones_.find(id);
  return at != ones_.end() && at->second->asker.caller.name == caller;
}

void BackgroundResponses::begin(ResponseAsker asker, std::string_view id, std::int64_t taken) {
  if (id.empty() || ones_.contains(id) || full(asker.caller)) return;
  limits_.hold(asker.caller);
  places_.take(asker.caller.name);
  auto one = std::make_shared<One>(std::move(asker), std::string(id), taken, loop_);
  look_later(*one);
  ones_.emplace(one->id, std::move(one));
}

void BackgroundResponses::look_later(One& one) {
  one.timer->after(one.pause, [this, at = &one] { look(*at); });
}

void BackgroundResponses::look(One& one) {
  if (loop_.now() >= one.until) return take_in(one.id, false, std::nullopt);
  one.pause = std::min(2 * one.pause, kLookAfterMost);
  look_later(one);  // also where nobody answers
  ask(Asks::state, one);
}

std::size_t BackgroundResponses::stop_all_of(std::string_view caller) {
  std::size_t stopped = 0;
  for (const auto& [id, one] : ones_) {
    if (one->asker.caller.name != caller) continue;
    ++stopped;
    ask(Asks::cancel, *one);
  }
  return stopped;
}

void BackgroundResponses::ask(Asks what, One& one) {
  ask_(what, one.asker, one.id, [this, weak = one.weak_from_this()](const Answer& answer) {
    const std::shared_ptr<One> held = weak.lock();
    if (!held || !ones_.contains(held->id)) return;
    if (answer) return told(held->id, answer->body);
    // It is not there any more: nobody can know.
    if (answer.error().upstream_status == 404) take_in(held->id, false, std::nullopt);
  });
}

void BackgroundResponses::heard(std::string_view id, const Blob& answer) {
  const auto at = ones_.find(id);
  if (at == ones_.end()) return;
  at->second->pause = kLookAfter;  // its caller asks for it
  look_later(*at->second);
  told(at->first, answer);
}

void BackgroundResponses::told(const std::string& id, const Blob& answer) {
  if (answer.size() <= kStateAsideFrom) {
    const ResponseState state = state_of_response(answer.bytes());
    return state.id == id ? take_in(id, state.goes_on, state.tokens) : void();
  }
  struct Large {
    std::string id;
    Blob answer;
    ResponseState state{};
  };
  auto large = std::make_shared<Large>(Large{id, answer.owned()});
  loop_.aside(
      Loop::Side::texts, [large] { large->state = state_of_response(large->answer.bytes()); },
      [this, large] {
        if (large->state.id == large->id) take_in(large->id, large->state.goes_on, large->state.tokens);
      });
}

void BackgroundResponses::take_in(std::string_view id, bool goes_on, std::optional<std::int64_t> tokens) {
  const auto at = ones_.find(id);
  if (at == ones_.end() || goes_on) return;
  const std::shared_ptr<One> one = at->second;
  ones_.erase(at);
  const Caller& caller = one->asker.caller;
  places_.give_back(caller.name);
  limits_.release(caller);
  limits_.spend_tokens(caller, tokens.value_or(one->taken) - one->taken, loop_.now());
}

BackgroundResponses::Ask ask_by_job(Gateway& gateway) {
  return [&gateway](BackgroundResponses::Asks what, const ResponseAsker& asker, const std::string& id,
                    BackgroundResponses::Told told) {
    const bool cancels = what == BackgroundResponses::Asks::cancel;
    const HttpRequest request{.method = cancels ? "POST" : "GET",
                              .path = std::string(kStoredResponses) + id + (cancels ? "/cancel" : "")};
    JobRequest job{.service = asker.service, .lane = asker.lane, .model = asker.model};
    job.client = asker.caller.client;
    job.cost = stated_cost(request.method, request.path);
    job.timeout = BackgroundResponses::kLookAfter;
    job.cancel_when_gone = true;
    job.meta = upstream_meta(kOpenai, request, ServiceTier::stays);
    gateway.broker.submit(std::move(job), {}, std::move(told));
  };
}

}  // namespace lanemq::gateway
