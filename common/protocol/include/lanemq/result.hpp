// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <tl/expected.hpp>

#include <lanemq/error_table.hpp>

namespace lanemq {

/// Why something was refused: a code for programs and a text for people.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

/// A value or the reason why there is none. The names are std::expected's, which replaces this one day.
template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> failure(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace lanemq
