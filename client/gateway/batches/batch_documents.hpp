// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/api_error.hpp"
#include "client/gateway/batches/batch_store.hpp"

namespace lanemq::gateway {

// Files and batches as JSON, in the shapes of the two APIs.

/// OpenAI's File object.
std::string file_document(const StoredFile& file);
/// {"id", "object": "file", "deleted": true}
std::string file_deleted_document(std::string_view id);

/// OpenAI's Batch or Anthropic's MessageBatch. `base_url`: what the link to the results begins with.
std::string batch_document(const StoredBatch& batch, std::string_view base_url);
std::string batch_deleted_document(std::string_view id);

/// What a batch's input was refused for, as the member `data` of `errors`.
struct BatchFault {
  std::string code{}, message{}, param{};
  std::int64_t line = 0;  ///< from 1; 0: none
};
std::string faults_document(const std::vector<BatchFault>& faults);

/// One page of a list, of documents.
std::string list_document(Api api, const std::vector<std::string>& documents, std::string_view first_id,
                          std::string_view last_id, bool has_more);

/// What a caller says to make an OpenAI batch.
struct BatchParams {
  std::string input_file_id{}, endpoint{};
  std::string metadata{};  ///< JSON; empty: none
  std::int64_t output_lifetime_ms = 0;
};
tl::expected<BatchParams, ApiError> read_batch_params(std::string_view json);

/// A lifetime in seconds as callers may ask for it, in milliseconds.
tl::expected<std::int64_t, ApiError> read_lifetime(std::int64_t seconds, const std::string& param);

}  // namespace lanemq::gateway
