// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/run/access_log.hpp"

#include <optional>

#include <lanemq/text.hpp>

#include "common/log/log.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::size_t kPathShown = 256;

std::string text_of(const std::optional<std::chrono::milliseconds>& time) {
  return time ? std::to_string(time->count()) : std::string();
}
std::string text_of(const std::optional<std::int64_t>& number) {
  return number ? std::to_string(*number) : std::string();
}

}  // namespace

void AccessLog::note(const Answered& answered, std::string_view trace, Loop::TimePoint now) {
  if (!lines_.may_write(now)) return;
  const AnswerFacts& facts = answered.facts;
  log::event(log::Level::info, "request.answered",
             {{"id", answered.request_id},
              {"key", access_.name_of(secret_hash_of(answered.request))},
              {"address", answered.request.peer},
              {"method", printable(answered.request.method, 16)},
              {"path", printable(answered.request.path, kPathShown)},
              {"status", answered.status},
              {"whole", answered.whole ? "yes" : "no"},
              {"took_ms", answered.took.count()},
              {"lane", facts.lane},
              {"model", printable(facts.model, kPathShown)},
              {"waited_ms", text_of(facts.waited)},
              {"ran_ms", text_of(facts.ran)},
              {"input_tokens", text_of(facts.input_tokens)},
              {"output_tokens", text_of(facts.output_tokens)},
              {"trace", trace},
              {"left_out", lines_.take_left_out()}},
             log::Settle::no);
}

}  // namespace lanemq::gateway
