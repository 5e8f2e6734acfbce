// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lanemq::http::test {

/// A row of the table of requests; README.md says how it is written.
struct Shape {
  std::string name{};
  std::string bytes{};
  std::string wants{};  ///< of RFC 9110 and 9112, as `does` is written; `any`: they leave it open
  std::string where{};  ///< they say so
  std::string does{};   ///< what the reader makes of it
  std::string why{};    ///< the two differ
};

/// Throws std::runtime_error, which names the line.
std::vector<Shape> read_shapes(const std::string& path);

/// How large the next piece is; at least 1, and more than is left for all of it.
using Cuts = std::function<std::size_t()>;

/// What the reader makes of bytes that come in such pieces: a request by its method and, where it has a body,
/// `:` and its length; a refusal by its status; `close` where the connection ends behind a request; `waits`
/// where one is not over. Bodies over a million bytes are refused.
struct Reading {
  std::string does{};
  std::string all{};  ///< every field, every byte of bodies, every reason
};
Reading reading_of(std::string_view bytes, const Cuts& cuts);
/// Calls `check` with the reading of the bytes cut in two at each place.
void for_every_cut(std::string_view bytes,
                   const std::function<void(std::size_t place, const Reading&)>& check);

}  // namespace lanemq::http::test
