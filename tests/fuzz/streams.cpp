// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/streams.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "worker/handlers/anthropic/anthropic_api.hpp"
#include "worker/handlers/model/request_body.hpp"
#include "worker/handlers/openai/openai_api.hpp"
#include "worker/handlers/sse/sse_parser.hpp"

namespace lanemq::fuzz {
namespace {

using worker::SseEvent, worker::SseParser;

void demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

bool lies_in(std::string_view part, std::string_view whole) {
  return part.empty() ||
         (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

struct Cut {
  std::string said;  ///< names and data of all events
  std::string raw;
  bool too_long = false;
};

void read_as_models_do(const SseEvent& event) {
  for (const worker::ModelApi* const api : {&worker::kOpenaiApi, &worker::kAnthropicApi}) {
    const worker::EventFacts facts = api->read_event(event);
    demand(lies_in(facts.usage, event.data) && lies_in(facts.error, event.data),
           "facts lie inside the event");
  }
}

void take_in(SseParser& parser, std::string_view bytes, Cut& cut) {
  SseEvent event;
  parser.feed(bytes);
  for (;;) {
    const SseParser::Found found = parser.next(event);
    cut.too_long = found == SseParser::Found::too_long;
    if (found != SseParser::Found::event) return;
    cut.raw.append(event.raw);
    if (!event.has_data) continue;
    cut.said.append(event.name).append(1, '\0').append(event.data).append(1, '\0');
    read_as_models_do(event);
  }
}

}  // namespace

void check_events(std::string_view bytes) {
  SseParser whole_parser, piece_parser;
  Cut whole, pieces;
  take_in(whole_parser, bytes, whole);
  std::size_t seed = bytes.size();
  for (std::size_t at = 0; at < bytes.size() && !pieces.too_long;) {
    seed = seed * 31 + static_cast<unsigned char>(bytes[at]);
    const std::string piece(bytes.substr(at, 1 + seed % 11));  // of its own: nothing may be kept of it
    take_in(piece_parser, piece, pieces);
    at += piece.size();
  }
  demand(whole.said == pieces.said, "events do not depend on where their bytes are cut");
  if (whole.too_long || pieces.too_long) return;
  demand(whole.raw + std::string(whole_parser.rest()) == bytes, "no byte is lost");
  demand(pieces.raw + std::string(piece_parser.rest()) == bytes, "no byte is lost in pieces");
}

void check_request(std::string_view bytes) {
  const worker::BodyEdits edits{.model = "m", .ask_usage = true};
  const worker::RequestBody once = worker::edit_request(bytes, edits);
  if (!once.text) return;
  const worker::RequestBody twice = worker::edit_request(*once.text, edits);
  demand(!twice.text, "an edited body needs no edit");
  demand(once.streams == twice.streams, "edits leave the rest as it is");
}

std::vector<std::string> event_seeds() {
  return {
      "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: "
      "{\"choices\":[{\"delta\":{\"content\":"
      "\"\xC3\xA9\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\ndata: [DONE]\n\n",
      "event: message_start\r\ndata: "
      "{\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1}}}\r\n"
      "\r\nevent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\nevent: error\r\ndata: "
      "{\"type\":\"error\",\"error\":{"
      "\"type\":\"overloaded_error\"}}\r\n\r\n",
      "\xEF\xBB\xBF: comment\rdata: "
      "{\"type\":\"response.completed\",\"response\":{\"usage\":{},\"error\":null}}\r"
      "\rdata:a\r\ndata: b\n\nid: 1\nretry: 5\n\n",
      "data: "
      "{\"choices\":[{\"finish_reason\":\"stop\",\"delta\":{\"tool_calls\":[{\"x\":\"\\\"]\"}]}}]}\n\n"};
}

std::vector<std::string> request_seeds() {
  return {R"({"model":"m@batch","stream":true,"messages":[{"role":"user","content":"a\"b\\"}]})",
          R"( {"stream_options":{"x":[]},"service_tier":"auto","stream":true,"service_tier":"flex"} )",
          R"({"service_tier":1,"a":-1e5,"b":[true,null,{"model":"x"}],"\u006dodel":"y"})",
          R"({"stream":true,"stream_options":null,"service_tier":"auto"})"};
}

}  // namespace lanemq::fuzz
