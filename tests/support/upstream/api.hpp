// SPDX-License-Identifier: Apache-2.0
// What the double serves: one Api for each path that takes work, each in a file of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tests/support/upstream/answer.hpp"
#include "tests/support/upstream/json.hpp"

namespace lanemq::upstream {

/// Whose manners a path has: the shape of errors, the names of the limits' headers, how a key is carried.
enum class Dialect { openai, anthropic };

/// Writes one answer as server-sent events; each function returns whole events. The completion must outlive
/// it.
class EventWriter {
 public:
  virtual ~EventWriter() = default;
  /// What stands before the first delta.
  virtual std::string opening() = 0;
  virtual std::string delta(const Delta& delta) = 0;
  /// What follows the last delta, to the end of the stream.
  virtual std::string closing() = 0;
  /// An error in the midst of the stream, which ends it.
  virtual std::string error(const ApiError& error) = 0;
};

/// One path that takes work. Stateless.
class Api {
 public:
  virtual ~Api() = default;
  virtual std::string_view path() const = 0;
  virtual Dialect dialect() const = 0;
  /// Every top-level parameter that the service knows; another one is refused, for a gateway must not pass
  /// its own on.
  virtual std::span<const std::string_view> parameters() const = 0;
  /// Reads a request. Throws a Refusal.
  virtual ModelRequest parse(const Json& body) const = 0;
  /// The whole answer, where it is no stream.
  virtual std::string body(const Completion& completion) const = 0;
  /// Null where the path does not stream; parse() refuses to then.
  virtual std::unique_ptr<EventWriter> events(const Completion& completion) const;
};

const Api& chat_api();
const Api& completions_api();
const Api& embeddings_api();
const Api& responses_api();
const Api& messages_api();
const Api& count_tokens_api();

/// Null where nothing takes work.
const Api* find_api(std::string_view path);

}  // namespace lanemq::upstream
