// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/apis/http_words.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::gateway {

struct ApiError;
struct BodyFields;
struct StoredReference;

/// What a route's requests have.
enum class Takes : unsigned char { body_with_model, body_with_optional_model, no_body };

/// A path of an API whose requests become jobs, while their callers wait.
struct ApiRoute {
  const char* method;
  const char* pattern;  ///< as in Route
  Takes takes = Takes::no_body;
  bool may_be_left = false;   ///< at /v1/jobs
  bool names_stored = false;  ///< what is left may name what an upstream stores
};

/// What keys may be for: this path, with all below it.
struct ApiOp {
  std::string_view path, name;
};

/// How much is left of a limit of a caller's key.
struct LimitLevel {
  std::string what{};  ///< requests or tokens
  std::int64_t limit = 0;
  std::string remaining{};
  std::chrono::milliseconds until_full{0};
};

/// What the gateway must know about an API. One is chosen for each request (api_of()); LaneMQ's own paths
/// have OpenAI's.
///
/// Where one is defined, -Wmissing-field-initializers is an error: the compiler names what is left out.
struct Api {
  // Its names.
  int number;                         ///< in what is stored, and its place in kApis; it never changes
  std::string_view name;              ///< in the configuration: `openai`
  std::string_view maker;             ///< in messages: `OpenAI`
  std::string_view service;           ///< of the broker, where none is configured
  std::string_view service_option;    ///< which configures it
  std::string_view service_sentence;  ///< of that option

  // Its requests.
  std::string_view prefix;  ///< which stands before its paths, where others have the same; empty: none
  std::string_view version_header;  ///< by which its requests are known; empty: none
  /// Whether a request is one of this API. Each is asked after those behind it in kApis.
  bool (*claims)(const HttpRequest& request);
  std::span<const ApiRoute> routes;
  std::span<const ApiOp> ops;
  std::string_view models_path;  ///< of the list of models; that of one is below it
  std::string_view base_path;  ///< with which an upstream's base URL ends: the worker gets the path behind it
  std::span<const std::string_view> forwarded_headers;  ///< which go on to the upstream
  /// What a request asks for: its model and whether it is streamed, wherever the API says so, and members of
  /// its body. Beside the loop for long bodies.
  tl::expected<BodyFields, ApiError> (*read_call)(const HttpRequest& request, Takes takes);
  /// Adds what a body refers to beside what read_call() finds.
  void (*add_references)(std::string_view path, std::string_view body, std::vector<StoredReference>& found);
  /// Whether the upstream keeps parts of the answer for this caller, as far as the request shows it.
  bool (*keeps_parts)(std::string_view path, std::string_view body);

  // Its answers.
  int (*status)(const ApiError& error);  ///< of errors that are not an upstream's
  std::string (*error_body)(const ApiError& error, std::string_view request_id);
  std::string_view error_event;        ///< stands before the error's body in a stream
  std::string_view request_id_header;  ///< besides x-request-id; empty: none
  /// What is written into a silent stream, in a form that the API's SDKs ignore between events.
  std::string_view keep_alive;
  void (*add_limit)(const LimitLevel& level, Headers& headers);
  std::string (*model_document)(std::string_view name);
  std::string (*model_list)(const std::vector<std::string>& names);
  std::string_view models_member, model_id_member;  ///< in an upstream's list: its models, and the id of one
  /// The events of a stream for a whole answer: the caller asked for a stream, and the upstream has none.
  /// None: the answer is not of that path.
  std::optional<std::string> (*events_of_whole)(std::string_view path, std::string_view answer);
};

extern const Api kOpenai, kAnthropic;

/// All, by their numbers. The first claims what no other does.
inline constexpr const Api* kApis[] = {&kOpenai, &kAnthropic};
inline constexpr std::size_t kApiCount = std::size(kApis);

/// The API of a request.
const Api& api_of(const HttpRequest& request);
/// The API of that name; null: there is none.
const Api* api_named(std::string_view name);
/// The API of that number; null: this gateway knows none.
const Api* api_numbered(std::int64_t number);
/// The makers of all: `OpenAI and Anthropic`, or with another word between the last two.
std::string api_makers();

/// The headers of all APIs that go on to upstreams, those of the last one first.
const std::vector<std::string_view>& forwarded_headers();

/// A JSON array of what stands for the names.
std::string json_list(const std::vector<std::string>& names, std::string (*document)(std::string_view name));

/// A value for each API.
template <class T>
class ByApi {
 public:
  T& operator[](const Api& api) { return values_[static_cast<std::size_t>(api.number)]; }
  const T& operator[](const Api& api) const { return values_[static_cast<std::size_t>(api.number)]; }

 private:
  T values_[kApiCount]{};
};

}  // namespace lanemq::gateway
