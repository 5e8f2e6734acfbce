// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include <lanemq/blob.hpp>

#include "client/gateway/apis/api.hpp"
#include "client/gateway/apis/api_error.hpp"
#include "client/gateway/apis/asked_again.hpp"
#include "client/gateway/batches/batch_engine.hpp"
#include "client/gateway/batches/batch_store.hpp"
#include "client/gateway/door/batch_settings.hpp"

namespace lanemq::gateway {

/// The caller of a request for files or batches, by value: another thread uses it.
struct BatchCaller {
  std::string owner{};     ///< callers with one owner see the same files and batches
  std::string client{};    ///< in whose share of the broker the lines count
  std::string models{};    ///< as StoredBatch
  std::string headers{};   ///< as StoredBatch
  std::string base_url{};  ///< in front of links
  /// Of its files together, of whatever key stands behind it; 0: as BatchSettings has it for all.
  std::int64_t files_bytes_max = 0;
  // How a request for a batch is known again:
  AskedAgain asked{};
  std::string request{};                      ///< a hash of its path and body; empty: nobody asks again
  std::chrono::milliseconds asked_retain{0};  ///< how long its Idempotency-Key is known
};

/// A caller's request for a page of a list.
struct ListRequest {
  std::string after{}, before{}, limit{}, order{}, purpose{};  ///< as in the query; empty: not given
};

/// An open file.
struct OpenFile {
  int fd = -1;  ///< the caller closes it
  std::int64_t bytes = 0;
  std::string filename{};
};

/// Bytes that become a file when a row names them; until then they are deleted with this. Filled from the
/// caller's body, off the engine's thread.
struct Upload {
  std::string id{};
  std::unique_ptr<BatchStore::Writing> writing{};
  std::string filename{};
  std::int64_t lifetime_ms = 0;
  std::int64_t lines = 0;                        ///< of a batch of messages
  std::string model{};                           ///< of the first line
  std::map<std::string, std::int64_t> models{};  ///< the models of the lines, with the first line of each
  std::string_view content{};  ///< without the form around it; while the request's body is there
};

/// Read a caller's body, write it and sync it. On any thread; may throw StoreFault. `form`: the whole body,
/// multipart/form-data.
tl::expected<void, ApiError> read_file_form(const BatchSettings& settings, std::string_view content_type,
                                            std::string_view form, Upload& upload);
/// `body`: {"requests": [...]}.
tl::expected<void, ApiError> read_message_batch(const BatchSettings& settings, std::string_view body,
                                                Upload& upload);

/// Answers requests for files and batches. Belongs to the engine's thread; may throw StoreFault.
class BatchDesk {
 public:
  /// The document of a 200, or an error.
  using Reply = tl::expected<std::string, ApiError>;

  BatchDesk(const BatchSettings& settings, BatchStore& store, BatchEngine& engine)
      : settings_(settings), store_(store), engine_(engine) {}

  /// Begins an upload: of a file, or of a batch of messages (`api` is then Anthropic's). `bytes`: the most
  /// that it may need.
  tl::expected<Upload, ApiError> begin_upload(const BatchCaller& caller, const Api& api, std::size_t bytes);

  // ---- OpenAI's files ----
  Reply create_file(const BatchCaller& caller, const Upload& upload, WallTime now);
  Reply file(const BatchCaller& caller, const std::string& id);
  Reply files(const BatchCaller& caller, const ListRequest& list);
  Reply delete_file(const BatchCaller& caller, const std::string& id);
  tl::expected<OpenFile, ApiError> open_file(const BatchCaller& caller, const std::string& id);

  // ---- batches of both APIs ----
  Reply create_batch(const BatchCaller& caller, std::string_view body, WallTime now);
  Reply create_message_batch(const BatchCaller& caller, const Upload& upload, WallTime now);
  Reply batch(const BatchCaller& caller, const Api& api, const std::string& id);
  Reply batches(const BatchCaller& caller, const Api& api, const ListRequest& list);
  Reply cancel_batch(const BatchCaller& caller, const Api& api, const std::string& id, WallTime now);
  /// Cancels all running batches of an owner; returns how many.
  std::size_t cancel_all_of(const std::string& owner, WallTime now);
  Reply delete_message_batch(const BatchCaller& caller, const std::string& id);
  tl::expected<OpenFile, ApiError> open_results(const BatchCaller& caller, const std::string& id);

 private:
  tl::expected<StoredFile, ApiError> own_file(const BatchCaller& caller, const std::string& id);
  tl::expected<std::string, ApiError> made_before(const BatchCaller& caller, WallTime now);
  std::optional<Reply> batch_made_before(const BatchCaller& caller, const Api& api, WallTime now);
  void remember(const BatchCaller& caller, const std::string& made, std::int64_t now);
  tl::expected<StoredBatch, ApiError> own_batch(const BatchCaller& caller, const Api& api,
                                                const std::string& id);
  tl::expected<void, ApiError> disk_takes() const;
  tl::expected<void, ApiError> room_for(const BatchCaller& caller, std::size_t bytes);
  tl::expected<void, ApiError> room_for_batch(const BatchCaller& caller);
  StoredBatch new_batch(const BatchCaller& caller, const Api& api, WallTime now);

  const BatchSettings& settings_;
  BatchStore& store_;
  BatchEngine& engine_;
};

}  // namespace lanemq::gateway
