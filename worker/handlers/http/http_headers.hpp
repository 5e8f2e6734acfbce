// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct curl_slist;

namespace lanemq::worker {

/// The headers that a service's calls carry, ready for libcurl. They never change, so that a call under way
/// keeps its own while later ones carry newer secrets; safe to share between threads. Never to be logged.
class HttpHeaders {
 public:
  /// A shorter secret is not looked for: its bytes stand in ordinary text too.
  static constexpr std::size_t kRedactedBytesMin = 8;

  /// `lines` are `Name: value`, secrets filled in; `secrets` are those.
  explicit HttpHeaders(const std::vector<std::string>& lines = {}, std::vector<std::string> secrets = {});
  ~HttpHeaders();
  HttpHeaders(const HttpHeaders&) = delete;
  HttpHeaders& operator=(const HttpHeaders&) = delete;

  /// For CURLOPT_HTTPHEADER. Lives as long as this; libcurl only reads it.
  curl_slist* list() const { return list_.get(); }
  /// Whether there is a header of this name, which is in lower case.
  bool has(std::string_view name) const;
  /// Whether a text says a secret as it is: so quickly told that answers are looked through, too.
  bool betrayed_by(std::string_view text) const;
  /// The text with `[secret]` for each secret in it, behind JSON's escapes too: some upstreams repeat the key
  /// that they refuse.
  std::string redacted(std::string text) const;

 private:
  struct FreeList {
    void operator()(curl_slist* list) const;
  };

  void append(const char* line);

  std::unique_ptr<curl_slist, FreeList> list_;
  std::vector<std::string> secrets_;  ///< the longest first, as one may stand in another
};

}  // namespace lanemq::worker
