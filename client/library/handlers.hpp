// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <variant>

#include <lanemq/client.hpp>

#include "client/library/session.hpp"

namespace lanemq::client {

/// Converts a reply to the one type of the request's replies.
template <class T>
Reply<T> narrow(Outcome&& outcome) {
  if (!outcome) return std::move(outcome).error();
  return std::get<T>(*std::move(outcome));
}

using Fetched = std::variant<JobDone, JobStatus>;
template <>
inline Reply<Fetched> narrow(Outcome&& outcome) {
  if (!outcome) return std::move(outcome).error();
  if (auto* done = std::get_if<JobDone>(&*outcome)) return std::move(*done);
  return std::get<JobStatus>(*std::move(outcome));
}

template <class T>
Handler calling(std::function<void(Reply<T>)> callback) {
  return [callback = std::move(callback)](Outcome&& outcome) { callback(narrow<T>(std::move(outcome))); };
}

}  // namespace lanemq::client
