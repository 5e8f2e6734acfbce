// SPDX-License-Identifier: Apache-2.0
#include <lanemq/error_table.hpp>

namespace lanemq {
namespace {

constexpr ErrorInfo kErrors[] = {
#define LANEMQ_ERROR_ROW(code, http, retry, meaning) {ErrorCode::code, #code, http, retry, meaning},
    LANEMQ_ERROR_TABLE(LANEMQ_ERROR_ROW)
#undef LANEMQ_ERROR_ROW
};

constexpr std::string_view kClasses[] = {
#define LANEMQ_CLASS_NAME(name, meaning) #name,
    LANEMQ_ERROR_CLASS_TABLE(LANEMQ_CLASS_NAME)
#undef LANEMQ_CLASS_NAME
};

constexpr std::string_view kRefusals[] = {
#define LANEMQ_REFUSAL_NAME(code, meaning) #code,
    LANEMQ_REFUSAL_TABLE(LANEMQ_REFUSAL_NAME)
#undef LANEMQ_REFUSAL_NAME
};

constexpr std::string_view kLimitedBy[] = {
#define LANEMQ_LIMITED_BY_NAME(word, meaning) #word,
    LANEMQ_LIMITED_BY_TABLE(LANEMQ_LIMITED_BY_NAME)
#undef LANEMQ_LIMITED_BY_NAME
};

/// The value of `Enum` whose place among the names `name` has.
template <class Enum, std::size_t N>
std::optional<Enum> named(const std::string_view (&names)[N], std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::span<const ErrorInfo> error_table() {
  return kErrors;
}

const ErrorInfo& error_info(ErrorCode code) {
  return kErrors[static_cast<std::size_t>(code)];
}

std::string_view name_of(ErrorCode code) {
  return error_info(code).name;
}

std::optional<ErrorCode> error_code(std::string_view name) {
  for (const ErrorInfo& row : kErrors)
    if (row.name == name) return row.code;
  return std::nullopt;
}

bool is_refusal(ErrorCode code) {
  switch (code) {
    case ErrorCode::lane_full:
    case ErrorCode::client_full:
    case ErrorCode::bytes_full:
    case ErrorCode::store_full:
    case ErrorCode::draining:
    case ErrorCode::paused:
    case ErrorCode::not_owner:
    case ErrorCode::unavailable:
      return true;
    default:
      return false;
  }
}

std::string_view name_of(RefusalCode code) {
  return kRefusals[static_cast<std::size_t>(code)];
}

std::optional<RefusalCode> refusal_code(std::string_view name) {
  return named<RefusalCode>(kRefusals, name);
}

RefusalCode refusal_of(ErrorCode code) {
  return code == ErrorCode::too_large ? RefusalCode::too_large : RefusalCode::bad_request;
}

std::string_view name_of(ErrorClass error_class) {
  return kClasses[static_cast<std::size_t>(error_class)];
}

std::optional<ErrorClass> error_class(std::string_view name) {
  return named<ErrorClass>(kClasses, name);
}

std::string_view name_of(LimitedBy kind) {
  return kLimitedBy[static_cast<std::size_t>(kind)];
}

std::optional<LimitedBy> limited_by(std::string_view name) {
  return named<LimitedBy>(kLimitedBy, name);
}

}  // namespace lanemq
