// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace lanemq::costs {

// A chat, as gateway and worker see it.

/// A `meta` as the gateway writes it: {"http": {"path": "/chat/completions"}}.
inline constexpr std::string_view kChatMeta("\x81\xA4http\x81\xA4path\xB1/chat/completions");

inline constexpr std::string_view kChatAnswer =
    R"({"id":"chatcmpl-9","object":"chat.completion","created":1700000000,"model":"gpt-4o-mini",)"
    R"("choices":[{"index":0,"message":{"role":"assistant","content":"Natalia sold 48 + 24 = 72 clips."},)"
    R"("finish_reason":"stop"}],"usage":{"prompt_tokens":420,"completion_tokens":17,"total_tokens":437}})";

/// The event of a piece of a streamed answer; `rest`: its last members.
inline std::string chat_event(std::string_view rest) {
  return R"(data: {"id":"chatcmpl-9","object":"chat.completion.chunk","created":1700000000,)"
         R"("model":"gpt-4o-mini",)" +
         std::string(rest) + "\n\n";
}
inline std::string chat_word() {
  return chat_event(R"("choices":[{"index":0,"delta":{"content":" clips"},"finish_reason":null}]})");
}

/// A request's body of about a kilobyte.
inline std::string chat_request(std::string_view model, bool stream) {
  std::string body =
      R"({"messages":[{"role":"system","content":"You are a helpful assistant."},{"role":"user","content":")";
  while (body.size() < 900)
    body += "Natalia sold clips to 48 of her friends in April, and then half as many in May. ";
  body += R"("}],"model":")" + std::string(model) + R"(","max_tokens":500,"temperature":0.2)";
  return body + (stream ? R"(,"stream":true})" : "}");
}

}  // namespace lanemq::costs
