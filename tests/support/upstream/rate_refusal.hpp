// SPDX-License-Identifier: Apache-2.0
// What a call is told that the limits refuse; the status is 429.
#pragma once

#include <optional>
#include <string>

#include "tests/support/upstream/limit_headers.hpp"

namespace lanemq::upstream {

struct RefusedCall {
  Tongue tongue = Tongue::openai;  ///< Not by_endpoint.
  Tells tells = Tells::all;
  Verdict verdict{};
  std::optional<Gauge> gauge{};  ///< Of the limit that refused it, where that has one.
  Duration period{};
  std::string model{};
  std::string request_id{};
  Duration now_unix{};
};

struct RateRefusal {
  HeaderFields headers{};  ///< Beside those of all answers.
  std::string body{};
};

RateRefusal refuse_rate(const RefusedCall& call);

}  // namespace lanemq::upstream
