// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/batches/batch_store.hpp"

namespace lanemq::gateway {

// Files and batches as JSON of the two APIs.

/// OpenAI's File object.
std::string file_document(const StoredFile& file);
/// {"id", "object": "file", "deleted": true}
std::string file_deleted_document(std::string_view id);

/// OpenAI's Batch, and Anthropic's MessageBatch. `base_url`: in front of the link to the results.
std::string openai_batch_document(const StoredBatch& batch, std::string_view base_url);
std::string anthropic_batch_document(const StoredBatch& batch, std::string_view base_url);
std::string batch_deleted_document(std::string_view id);

/// Why a batch's input was refused: an entry of `data` in `errors`.
struct BatchFault {
  std::string code{}, message{}, param{};
  std::int64_t line = 0;  ///< from 1; 0: none
};
std::string faults_document(const std::vector<BatchFault>& faults);

/// One page of a list. `head`: its members in front of the others.
std::string list_document(std::string_view head, const std::vector<std::string>& documents,
                          std::string_view first_id, std::string_view last_id, bool has_more);

/// A caller's parameters of an OpenAI batch.
struct BatchParams {
  std::string input_file_id{}, endpoint{};
  std::string metadata{};  ///< JSON; empty: none
  std::int64_t output_lifetime_ms = 0;
};
tl::expected<BatchParams, ApiError> read_batch_params(std::string_view json);

/// A lifetime in ms, from seconds within the API's bounds.
tl::expected<std::int64_t, ApiError> read_lifetime(std::int64_t seconds, const std::string& param);

}  // namespace lanemq::gateway
