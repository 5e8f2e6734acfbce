// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "worker/handlers/redaction.hpp"

struct curl_slist;

namespace lanemq::worker {

/// The headers of a service's calls, ready for libcurl. Immutable, so that a running call keeps its own while
/// later ones carry newer secrets; may be shared between threads. Must not be logged.
class HttpHeaders {
 public:
  /// `lines`: `Name: value` with secrets filled in. `secrets`: these secrets.
  explicit HttpHeaders(const std::vector<std::string>& lines = {}, std::vector<std::string> secrets = {});
  ~HttpHeaders();
  HttpHeaders(const HttpHeaders&) = delete;
  HttpHeaders& operator=(const HttpHeaders&) = delete;

  /// For CURLOPT_HTTPHEADER, which only reads it. Valid as long as this object.
  curl_slist* list() const { return list_.get(); }
  /// Whether there is a header `name`. Requires: `name` is in lower case.
  bool has(std::string_view name) const;
  /// See Redaction: some upstreams repeat the key that they refuse.
  bool betrayed_by(std::string_view text) const { return secrets_.betrayed_by(text); }
  std::string redacted(std::string text) const { return secrets_.redacted(std::move(text)); }

 private:
  struct FreeList {
    void operator()(curl_slist* list) const;
  };

  void append(const char* line);

  std::unique_ptr<curl_slist, FreeList> list_;
  Redaction secrets_;
};

}  // namespace lanemq::worker
