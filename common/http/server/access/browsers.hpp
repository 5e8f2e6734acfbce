// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/http/server/base/message.hpp"

namespace lanemq::http {

/// Who answers without keys.
struct OpenServer {
  std::string_view name;                  ///< for messages: `gateway`
  std::string_view cure;                  ///< what to do instead: `add keys, or say --hosts`
  const std::vector<std::string>& hosts;  ///< names besides this machine's own, with * and ?
  std::string_view uploads{};             ///< the end of the path that takes forms with files; empty: none
};

/// Why a request is refused.
struct Unwelcome {
  bool is_form = false;  ///< its content type is that of a form; else it comes from where it may not
  std::string message{};
  std::string param{};  ///< the header at fault
};

/// Why a request is refused where no key is needed. Any page may have its visitor's browser send requests to
/// this machine, and may make its own name lead here (DNS rebinding). So a request must name this machine or
/// one of `hosts`, must not come from a page of another origin, and must not send JSON with the content type
/// of a form. Other programs pass.
std::optional<Unwelcome> why_not_without_keys(const HttpRequest& head, const OpenServer& server);

}  // namespace lanemq::http
