// SPDX-License-Identifier: Apache-2.0
// Streams in tests: written as a whole, and taken apart again.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/upstream/api.hpp"

namespace lanemq::upstream {

struct Event {
  std::string name{};  ///< Empty: it has none.
  Json data{};         ///< The text "[DONE]" as such.
};

inline std::vector<Event> parse_events(const std::string& stream) {
  std::vector<Event> events;
  for (std::size_t at = 0; at < stream.size();) {
    const std::size_t end = stream.find("\n\n", at);
    std::string event = stream.substr(at, end - at);
    at = end + 2;
    Event& parsed = events.emplace_back();
    if (event.starts_with("event: ")) {
      parsed.name = event.substr(7, event.find('\n') - 7);
      event = event.substr(event.find('\n') + 1);
    }
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    parsed.data = event == "data: [DONE]" ? Json("[DONE]") : Json::parse(event.substr(6));
  }
  return events;
}

inline std::vector<Event> events_of(const Api& api, const Completion& completion) {
  const auto writer = api.events(completion);
  std::string stream = writer->opening();
  Deltas deltas(completion.answer);
  while (const auto delta = deltas.next())
    stream += writer->delta(*delta);
  return parse_events(stream + writer->closing());
}

inline std::vector<std::string> names_of(const std::vector<Event>& events) {
  std::vector<std::string> names;
  for (const Event& event : events)
    if (names.empty() || names.back() != event.name) names.push_back(event.name);
  return names;
}

/// What an API makes of a body.
inline tl::expected<ModelRequest, ApiError> parsed_by(const Api& api, std::string_view body) {
  const auto json = parse_object(body);
  if (!json) return tl::unexpected(json.error());
  try {
    return api.parse(*json);
  } catch (const Refusal& refusal) {
    return tl::unexpected(refusal.error);
  }
}

/// The parameter that is to blame, or "accepted".
inline std::string blamed_by(const Api& api, std::string_view body) {
  const auto request = parsed_by(api, body);
  return request ? "accepted" : request.error().param;
}

}  // namespace lanemq::upstream
