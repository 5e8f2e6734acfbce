// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/batches/batch_lines.hpp"
#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/door/batch_settings.hpp"

namespace lanemq::gateway {

/// Rows of a list: by default, at most, and the most that its API allows a caller to ask for.
struct PageBounds {
  std::size_t usual, most, askable;
};

/// What the gateway must know about an API's batches. An API may have none.
///
/// Where one is defined, -Wmissing-field-initializers is an error: the compiler names what is left out.
struct BatchApi {
  const Api* api;
  std::string_view path;       ///< of the list of batches; one of them, and its /cancel, is below it
  std::string_view id_prefix;  ///< of batches' ids
  PageBounds page;
  std::string_view after, before;  ///< in a list's query: behind which item it goes on, or in front of which
  std::string_view list_head;      ///< members of a list, in front of the others
  std::int64_t BatchSettings::*lines_max;
  /// Input and output are files of the caller, and lines that failed have one of their own. Else the upload
  /// is the batch itself, nobody sees its files, and the input goes with the batch's end.
  bool has_files;
  /// Why a request of these paths is refused as another API's; none: it is not.
  std::optional<ApiError> (*why_not)(const HttpRequest& request);
  /// Reads a line without its line end. Requires: the line outlives the result.
  tl::expected<LineRequest, LineFault> (*read_line)(std::string_view endpoint, std::string_view line);
  /// An answer's line in the output, with its line end; and that of a line without an answer.
  std::string (*answer_line)(const LineName& name, const Answer& answer);
  std::string (*given_up_line)(const LineName& name, GivenUp why);
  std::string (*document)(const StoredBatch& batch, std::string_view base_url);
};

extern const BatchApi kOpenaiBatches, kAnthropicBatches;

/// All that there are.
inline constexpr const BatchApi* kBatchApis[] = {&kOpenaiBatches, &kAnthropicBatches};

/// Requires: the API has batches.
const BatchApi& batch_api_of(const Api& api);

// As the batch's API has it.

tl::expected<LineRequest, LineFault> read_batch_line(const Api& api, std::string_view endpoint,
                                                     std::string_view line);
std::string answer_line(const LineName& name, const Answer& answer);
std::string given_up_line(const LineName& name, GivenUp why);
std::string batch_document(const StoredBatch& batch, std::string_view base_url);

}  // namespace lanemq::gateway
