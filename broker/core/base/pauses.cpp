// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/pauses.hpp"

namespace lanemq::core {
namespace {

constexpr std::pair<PauseKind, std::string_view> kPauseKinds[] = {{PauseKind::lane, "lane"},
                                                                  {PauseKind::service, "service"},
                                                                  {PauseKind::client, "client"},
                                                                  {PauseKind::budget, "budget"}};

}  // namespace

std::string_view name_of(PauseKind kind) {
  return kPauseKinds[static_cast<std::size_t>(kind)].second;
}

std::optional<PauseKind> pause_kind(std::string_view name) {
  for (const auto& [kind, known] : kPauseKinds)
    if (known == name) return kind;
  return std::nullopt;
}

}  // namespace lanemq::core
