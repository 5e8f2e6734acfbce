// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/redaction.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <utility>

namespace lanemq::worker {
namespace {

constexpr std::string_view kInsteadOfSecret = "[secret]";

/// A text without JSON's escapes, and the position in the original of each byte and of the end. Escapes
/// beyond ASCII stay: no key has any.
struct Unescaped {
  std::string text{};
  std::vector<std::size_t> places{};
};

Unescaped unescaped(std::string_view text) {
  Unescaped said;
  for (std::size_t at = 0; at < text.size();) {
    said.places.push_back(at);
    unsigned code = 0;
    const std::string_view escape = text.substr(at, 6);
    const char* const digits_end = escape.data() + escape.size();
    if (escape.size() == 6 && escape.starts_with("\\u") &&
        std::from_chars(escape.data() + 2, digits_end, code, 16).ptr == digits_end && code < 0x80) {
      said.text += static_cast<char>(code);
      at += 6;
    } else if (escape.size() > 1 && escape[0] == '\\' && (escape[1] == '/' || escape[1] == '\\')) {
      said.text += escape[1];
      at += 2;
    } else {
      said.text += text[at++];
    }
  }
  said.places.push_back(text.size());
  return said;
}

std::string redacted_escapes(std::string_view text, const Unescaped& said,
                             const std::vector<std::string>& secrets) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t at = 0; at < said.text.size();) {
    const auto found = std::find_if(secrets.begin(), secrets.end(), [&](const std::string& secret) {
      return std::string_view(said.text).substr(at).starts_with(secret);
    });
    if (found == secrets.end()) {
      ++at;
      continue;
    }
    result.append(text.substr(done, said.places[at] - done)).append(kInsteadOfSecret);
    at += found->size();
    done = said.places[at];
  }
  return result.append(text.substr(done));
}

}  // namespace

Redaction::Redaction(std::vector<std::string> secrets) : secrets_(std::move(secrets)) {
  std::erase_if(secrets_, [](const std::string& secret) { return secret.size() < kBytesMin; });
  std::sort(secrets_.begin(), secrets_.end(),
            [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
}

bool Redaction::betrayed_by(std::string_view text) const {
  return std::any_of(secrets_.begin(), secrets_.end(), [&](const std::string& secret) {
    return ::memmem(text.data(), text.size(), secret.data(), secret.size()) != nullptr;
  });
}

std::string Redaction::redacted(std::string text) const {
  for (const std::string& secret : secrets_)
    for (std::size_t at = text.find(secret); at != std::string::npos;
         at = text.find(secret, at + kInsteadOfSecret.size()))
      text.replace(at, secret.size(), kInsteadOfSecret);
  if (secrets_.empty() || text.find('\\') == std::string::npos) return text;
  const Unescaped said = unescaped(text);
  for (const std::string& secret : secrets_)
    if (said.text.find(secret) != std::string::npos) return redacted_escapes(text, said, secrets_);
  return text;
}

}  // namespace lanemq::worker
