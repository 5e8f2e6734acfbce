// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lanemq/codec.hpp>

#include "tests/costs/chat.hpp"
#include "tests/costs/paths.hpp"

namespace lanemq::costs {
namespace {

constexpr int kTimes = 1000;
constexpr std::string_view kId = "01J8Z3K5Q2W7N4R6T8V0X2Y4Z6";
// A ref of 7.
constexpr std::string_view kRef("\x07");

wire::Usage usage() {
  return {.requests = 1, .input_tokens = 420, .output_tokens = 137};
}

wire::UpstreamLimits limits_of_upstream() {
  wire::UpstreamLimits limits;
  limits.limit_requests = 10'000;
  limits.remaining_requests = 9'999;
  limits.reset_requests_ms = 6;
  limits.limit_tokens = 2'000'000;
  limits.remaining_tokens = 1'999'443;
  limits.reset_tokens_ms = 17;
  return limits;
}

/// The paths of one message, as one side writes it and the other reads it. `Any`: what that side may hear.
template <class Any, class Message>
void add(std::vector<Path>& paths, const std::string& name, Message message, std::size_t body_bytes = 0) {
  const auto write = [message, body = std::string(body_bytes, 'x')](Buffer& out) {
    out.clear();
    body.empty() ? encode(message, out) : encode(message, body, out);
  };
  paths.push_back({"wire: encode " + name, kTimes,
                   [write] { return [write, out = std::make_shared<Buffer>()] { write(*out); }; }});
  struct Reader {
    Buffer bytes;
    Decoder decoder;
    Items<Any> items;
  };
  paths.push_back({"wire: decode " + name, kTimes, [write] {
                     auto reader = std::make_shared<Reader>();
                     write(reader->bytes);
                     return [reader = std::move(reader)] {
                       reader->decoder.decode(reader->bytes.view(), {}, reader->items);
                     };
                   }});
}

wire::Submit submit() {
  wire::Submit submit;
  submit.service = "openai";
  submit.id = kId;
  submit.lane = "high";
  submit.model = "gpt-4o-mini";
  submit.client = "team-a";
  submit.cost = wire::Cost{.input_tokens = 420, .output_tokens = 500};
  submit.timeout_ms = 60'000;
  submit.batch = 16;
  submit.meta = {kChatMeta};
  submit.ref = {kRef};
  return submit;
}

wire::JobOffer offer() {
  wire::JobOffer offer;
  offer.job = 1'234'567;
  offer.id = kId;
  offer.service = "openai";
  offer.lane = "high";
  offer.model = "gpt-4o-mini";
  offer.client = "team-a";
  offer.timeout_ms = 59'990;
  offer.cost = wire::Cost{.input_tokens = 420, .output_tokens = 500};
  offer.stream = true;
  offer.meta = {kChatMeta};
  return offer;
}

}  // namespace

std::vector<Path> wire_paths() {
  std::vector<Path> paths;
  using wire::ClientReply, wire::ClientRequest, wire::WorkerCommand, wire::WorkerReport;

  add<ClientRequest>(paths, "submit", submit(), 1024);
  add<ClientRequest>(paths, "seen", wire::Seen{kId, 31, {kRef}});
  add<ClientRequest>(paths, "ping", wire::Ping{.ref = {kRef}});

  add<ClientReply>(paths, "accepted", wire::Accepted{kId, "high", true, false, 12, 900, {kRef}});
  add<ClientReply>(paths, "chunk to a client", wire::ChunkReply{.id = kId, .seq = 17, .ref = {kRef}}, 256);
  add<ClientReply>(paths, "result to a client", wire::JobResult{kId, "high", 1, 12, 1830, usage(), 0, {kRef}},
                   1024);
  add<ClientReply>(paths, "error to a client",
                   wire::ErrorReply{.id = kId,
                                    .code = "lane_full",
                                    .message = "lane \"high\" holds 10000 jobs (lane_depth_max); retry later",
                                    .retry_after_ms = 2000,
                                    .ref = {kRef}});
  add<ClientReply>(paths, "pong", wire::Pong{.now_ms = 1'700'000'000'000, .version = "1.2.3", .ref = {kRef}});

  add<WorkerReport>(paths, "chunk of a worker", wire::Chunk{1'234'567, 1, 17}, 256);
  add<WorkerReport>(paths, "result of a worker", wire::Outcome{1'234'567, 1, usage(), limits_of_upstream()},
                    1024);
  add<WorkerReport>(paths, "error of a worker",
                    wire::Failure{.job = 1'234'567,
                                  .error_class = "limited",
                                  .code = "upstream_429",
                                  .message = "Rate limit reached for gpt-4o-mini; try again in 8.64s",
                                  .retry_after_ms = 8640,
                                  .usage = usage(),
                                  .limits = limits_of_upstream()});
  add<WorkerReport>(paths, "heartbeat", wire::Heartbeat{{{1'234'567, 1}, {1'234'568, 1}, {1'234'569, 2}}});

  add<WorkerCommand>(paths, "job", offer(), 1024);
  add<WorkerCommand>(paths, "acked", wire::Acked{{{1'234'567, 1}, {1'234'568, 1}}});
  add<WorkerCommand>(paths, "window", wire::Window{1'234'567, 1, 63});
  return paths;
}

}  // namespace lanemq::costs
