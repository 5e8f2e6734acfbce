// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/batch_desk.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include <lanemq/text.hpp>

#include "client/gateway/apis/named_models.hpp"
#include "client/gateway/batches/batch_api.hpp"
#include "client/gateway/batches/batch_documents.hpp"
#include "client/gateway/batches/multipart.hpp"
#include "common/json/members.hpp"

namespace lanemq::gateway {
namespace {

constexpr std::size_t kFilenameBytesMax = 255;
constexpr const char* kMessages = "/v1/messages";
constexpr std::chrono::seconds kDiskRetryAfter{60};
constexpr std::string_view kEndpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                           "/v1/responses"};
/// OpenAI's gives 10,000; making so many documents would stop all batches for a tenth of a second.
constexpr PageBounds kFilesPage{1'000, 1'000, 10'000};

tl::unexpected<ApiError> refused(std::string name, std::string message, std::string param = {}) {
  return tl::unexpected(
      ApiError{.name = std::move(name), .message = std::move(message), .param = std::move(param)});
}
tl::unexpected<ApiError> no_such(const std::string& what, const std::string& id) {
  return refused("not_found", "there is no " + what + " \"" + printable(id, 64) + "\", or not any more");
}

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

tl::expected<std::size_t, ApiError> read_limit(const ListRequest& list, PageBounds bounds) {
  if (list.limit.empty()) return bounds.usual;
  const std::optional<std::int64_t> number = number_of(list.limit);
  if (!number || *number < 1 || *number > static_cast<std::int64_t>(bounds.askable))
    return wrong("`limit` is a number from 1 to " + std::to_string(bounds.askable), "limit");
  return std::min(static_cast<std::size_t>(*number), bounds.most);
}

/// Whether a list can continue at `id`. The item may have been deleted: a caller that deletes what a page
/// showed continues from there.
tl::expected<void, ApiError> place_in_list(std::string_view id, std::string_view prefix, std::string param) {
  if (id.empty() || is_made_id(id, prefix)) return {};
  const std::string message = "`" + param + "` must be an id of this list, as an earlier page had it";
  return wrong(message, std::move(param));
}

/// Reads one item more than the page holds, which shows whether more follow.
template <class Items>
bool cut_to_page(Items& items, const ListPage& page, std::size_t limit) {
  if (items.size() <= limit) return false;
  // Pages that end before an item have the surplus one at their start.
  items.erase(!page.before.empty() ? items.begin() : items.end() - 1);
  return true;
}

}  // namespace

// ---- what is whose, and what there is room for
// -------------------------------------------------------------

tl::expected<StoredFile, ApiError> BatchDesk::own_file(const BatchCaller& caller, const std::string& id) {
  std::optional<StoredFile> file = store_.file(id);
  if (!file || file->owner != caller.owner || file->hidden) return no_such("file", id);
  return *std::move(file);
}

tl::expected<StoredBatch, ApiError> BatchDesk::own_batch(const BatchCaller& caller, const Api& api,
                                                         const std::string& id) {
  // The engine's state of a running batch is newer than the disk's, and it has all of them.
  std::optional<StoredBatch> batch;
  if (const StoredBatch* const running = engine_.find(id))
    batch = *running;
  else
    batch = store_.batch(id);
  if (!batch || batch->owner != caller.owner || batch->api != &api) return no_such("batch", id);
  return *std::move(batch);
}

/// While answers of lines wait for the disk the rest of its room is for them.
tl::expected<void, ApiError> BatchDesk::disk_takes() const {
  if (engine_.trouble().empty()) return {};
  ApiError error{.name = "store_full",
                 .message =
                     "batches that run wait for the gateway's disk, and no new work is taken; its log "
                     "says why; try again later"};
  error.retry_after = kDiskRetryAfter;
  return tl::unexpected(std::move(error));
}

tl::expected<void, ApiError> BatchDesk::room_for(const BatchCaller& caller, std::size_t bytes) {
  if (auto takes = disk_takes(); !takes) return takes;
  if (store_.files_count(caller.owner) >= settings_.files_max)
    return refused("too_large", "there are " + std::to_string(settings_.files_max) +
                                    " files already (files_per_caller_max); delete some");
  const auto more = static_cast<std::int64_t>(bytes);
  const bool has_its_own = caller.files_bytes_max > 0;
  const std::int64_t most = has_its_own ? caller.files_bytes_max : settings_.caller_files_bytes_max;
  if (store_.files_bytes(caller.owner) + more > most)
    return refused("too_large", "your files may have up to " + std::to_string(most) + " bytes together (" +
                                    (has_its_own ? "files_bytes_max" : "files_bytes_per_caller_max") +
                                    "); delete some");
  if (store_.files_bytes() + more > settings_.files_bytes_max)
    return refused("store_full",
                   "the gateway keeps up to " + std::to_string(settings_.files_bytes_max) +
                       " bytes of files (files_total_bytes_max); delete some, or try again later");
  return {};
}

tl::expected<void, ApiError> BatchDesk::room_for_batch(const BatchCaller& caller) {
  if (auto takes = disk_takes(); !takes) return takes;
  if (std::ssize(engine_.ids_of(caller.owner)) < settings_.batches_max) return {};
  ApiError error{.name = "caller_limit",
                 .message = "there are " + std::to_string(settings_.batches_max) +
                            " batches under way already (batches_per_caller_max); wait until one is over"};
  error.retry_after = std::chrono::seconds(60);
  return tl::unexpected(std::move(error));
}

StoredBatch BatchDesk::new_batch(const BatchCaller& caller, const Api& api, WallTime now) {
  return {.id = store_.make_id(batch_api_of(api).id_prefix),
          .owner = caller.owner,
          .api = &api,
          .client = caller.client,
          .lane = settings_.lane,
          .models = caller.models,
          .headers = caller.headers,
          .created_at = ms_of(now),
          .deadline = ms_of(now + settings_.window)};
}

// ---- what is asked again ----------------------------------------------------------------------------------

namespace {

/// How long an SDK's own retry finds what it made.
constexpr std::chrono::milliseconds kRetryRetain{2 * 60 * 1000};

std::string name_of_key(const BatchCaller& caller) {
  return "key " + name_of_asked(caller.owner, caller.asked.idempotency_key);
}
std::string name_of_body(const BatchCaller& caller) {
  return "body " + name_of_asked(caller.owner, caller.request);
}

}  // namespace

/// The id of what the same request has made before; empty: it is new.
tl::expected<std::string, ApiError> BatchDesk::made_before(const BatchCaller& caller, WallTime now) {
  std::optional<AskedBefore> before;
  if (!caller.asked.idempotency_key.empty()) {
    before = store_.asked_before(name_of_key(caller), ms_of(now));
    if (before && before->request != caller.request)
      return refused("conflict", "this Idempotency-Key came with another path or body before; use a new key");
  } else if (caller.asked.is_retry) {
    before = store_.asked_before(name_of_body(caller), ms_of(now));
  }
  return before ? std::move(before->made) : std::string();
}

/// The answer to a request that made a batch before; none: it is new, or that batch is deleted since.
std::optional<BatchDesk::Reply> BatchDesk::batch_made_before(const BatchCaller& caller, const Api& api,
                                                             WallTime now) {
  const auto before = made_before(caller, now);
  if (!before) return tl::unexpected(before.error());
  if (before->empty()) return std::nullopt;
  const auto made = own_batch(caller, api, *before);
  if (!made) return std::nullopt;
  return batch_document(*made, caller.base_url);
}

/// Requires: in a transaction.
void BatchDesk::remember(const BatchCaller& caller, const std::string& made, std::int64_t now) {
  const auto add = [&](std::string name, std::chrono::milliseconds retain) {
    store_.add_asked(
        {.name = std::move(name), .request = caller.request, .made = made, .until = now + retain.count()},
        now);
  };
  if (!caller.asked.idempotency_key.empty()) add(name_of_key(caller), caller.asked_retain);
  if (caller.asked.sdk_retries) add(name_of_body(caller), kRetryRetain);
}

// ---- files ------------------------------------------------------------------------------------------------

tl::expected<Upload, ApiError> BatchDesk::begin_upload(const BatchCaller& caller, const Api& api,
                                                       std::size_t bytes) {
  if (!batch_api_of(api).has_files)
    if (const auto room = room_for_batch(caller); !room) return tl::unexpected(room.error());
  if (const auto room = room_for(caller, bytes); !room) return tl::unexpected(room.error());
  Upload upload{.id = store_.make_id(kFileIdPrefix)};
  upload.writing = std::make_unique<BatchStore::Writing>(store_, upload.id);
  return upload;
}

tl::expected<void, ApiError> read_file_form(const BatchSettings& settings, std::string_view content_type,
                                            std::string_view form, Upload& upload) {
  const std::string boundary = form_boundary(content_type);
  if (boundary.empty()) return wrong("the body must be multipart/form-data with a boundary");
  const auto parts = read_form(form, boundary);
  if (!parts) return wrong(parts.error());
  const FormPart* const content = find_part(*parts, "file");
  const FormPart* const purpose = find_part(*parts, "purpose");
  if (content == nullptr || !content->is_file) return wrong("`file` is missing: a file", "file");
  if (purpose == nullptr || purpose->bytes != "batch")
    return wrong("`purpose` must be \"batch\": this gateway keeps no other files", "purpose");
  upload.lifetime_ms = settings.keep.count();
  if (const FormPart* const seconds = find_part(*parts, "expires_after[seconds]")) {
    const auto asked = read_lifetime(number_of(seconds->bytes).value_or(0), "expires_after[seconds]");
    if (!asked) return tl::unexpected(asked.error());
    upload.lifetime_ms = *asked;
  }
  if (content->bytes.size() > settings.file_bytes_max)
    return refused(
        "too_large",
        "a file holds up to " + std::to_string(settings.file_bytes_max) + " bytes (file_bytes_max)", "file");
  upload.filename = beginning(content->filename, kFilenameBytesMax);
  upload.content = content->bytes;
  upload.writing->write(content->bytes);
  upload.writing->sync();
  return {};
}

BatchDesk::Reply BatchDesk::create_file(const BatchCaller& caller, const Upload& upload, WallTime now) {
  const auto before = made_before(caller, now);
  if (!before) return tl::unexpected(before.error());
  if (!before->empty())
    if (const auto made = own_file(caller, *before)) return file_document(*made);
  if (const auto room = room_for(caller, static_cast<std::size_t>(upload.writing->bytes())); !room)
    return tl::unexpected(room.error());
  StoredFile file{.id = upload.id,
                  .owner = caller.owner,
                  .purpose = "batch",
                  .filename = upload.filename,
                  .bytes = upload.writing->bytes(),
                  .created_at = ms_of(now),
                  .expires_at = ms_of(now) + upload.lifetime_ms};
  store_.transaction([&] {
    store_.add_file(file);
    remember(caller, file.id, file.created_at);
  });
  upload.writing->keep();
  return file_document(file);
}

BatchDesk::Reply BatchDesk::file(const BatchCaller& caller, const std::string& id) {
  return own_file(caller, id).map([](const StoredFile& file) { return file_document(file); });
}

BatchDesk::Reply BatchDesk::files(const BatchCaller& caller, const ListRequest& list) {
  const auto limit = read_limit(list, kFilesPage);
  if (!limit) return tl::unexpected(limit.error());
  if (!list.order.empty() && list.order != "asc" && list.order != "desc")
    return wrong("`order` is asc or desc", "order");
  const ListPage page{.after = list.after, .limit = *limit + 1, .newest_first = list.order != "asc"};
  if (auto place = place_in_list(list.after, kFileIdPrefix, "after"); !place)
    return tl::unexpected(place.error());
  std::vector<StoredFile> items = store_.files(caller.owner, list.purpose, page);
  const bool more = cut_to_page(items, page, *limit);
  std::vector<std::string> documents;
  for (const StoredFile& item : items)
    documents.push_back(file_document(item));
  return list_document(kOpenaiBatches.list_head, documents, items.empty() ? "" : items.front().id,
                       items.empty() ? "" : items.back().id, more);
}

BatchDesk::Reply BatchDesk::delete_file(const BatchCaller& caller, const std::string& id) {
  const auto file = own_file(caller, id);
  if (!file) return tl::unexpected(file.error());
  if (const std::string user = engine_.user_of(id); !user.empty())
    return refused("conflict", "file \"" + id + "\" is the input of batch \"" + user +
                                   "\", which is not over; cancel that first");
  store_.transaction([&] { store_.remove_file(id); });
  store_.drop_bytes(id);
  return file_deleted_document(id);
}

tl::expected<OpenFile, ApiError> BatchDesk::open_file(const BatchCaller& caller, const std::string& id) {
  const auto file = own_file(caller, id);
  if (!file) return tl::unexpected(file.error());
  return OpenFile{.fd = store_.open_bytes(id), .bytes = file->bytes, .filename = file->filename};
}

// ---- batches ----------------------------------------------------------------------------------------------

BatchDesk::Reply BatchDesk::create_batch(const BatchCaller& caller, std::string_view body, WallTime now) {
  if (auto before = batch_made_before(caller, kOpenai, now)) return *std::move(before);
  const auto params = read_batch_params(body);
  if (!params) return tl::unexpected(params.error());
  if (std::find(std::begin(kEndpoints), std::end(kEndpoints), params->endpoint) == std::end(kEndpoints)) {
    std::string all;
    for (const std::string_view endpoint : kEndpoints)
      all += (all.empty() ? "" : ", ") + std::string(endpoint);
    return wrong("`endpoint` must be one of " + all, "endpoint");
  }
  const auto file = own_file(caller, params->input_file_id);
  if (!file) return tl::unexpected(file.error());
  if (file->purpose != "batch")
    return wrong("`input_file_id` must be a file with the purpose \"batch\"", "input_file_id");
  if (const auto room = room_for_batch(caller); !room) return tl::unexpected(room.error());

  StoredBatch batch = new_batch(caller, kOpenai, now);
  batch.endpoint = params->endpoint;
  batch.metadata = params->metadata;
  batch.input_file = params->input_file_id;
  batch.output_lifetime_ms = params->output_lifetime_ms;
  store_.transaction([&] {
    store_.add_batch(batch);
    remember(caller, batch.id, batch.created_at);
  });
  std::string document = batch_document(batch, caller.base_url);
  engine_.start(std::move(batch));
  return document;
}

tl::expected<void, ApiError> read_message_batch(const BatchSettings& settings, std::string_view body,
                                                Upload& upload) {
  JsonMember picked[] = {{.key = "requests"}};
  const JsonLook look = look_into_json(body, picked);
  if (!look.valid || !look.is_object)
    return wrong("the body " + (look.valid ? "must be a JSON object" : look.problem));
  const std::string_view requests = member_bytes(body, "requests");
  upload.content = body;
  if (picked[0].twice || !requests.starts_with('['))
    return wrong("requests: an array of {\"custom_id\", \"params\"}", "requests");
  std::unordered_set<std::string> ids;
  JsonElements elements(requests);
  for (std::string_view element = elements.next(); !element.empty(); element = elements.next()) {
    const std::string place = "requests." + std::to_string(upload.lines);
    if (++upload.lines > settings.message_requests_max)
      return refused("too_large", "requests: a batch holds up to " +
                                      std::to_string(settings.message_requests_max) + " requests");
    auto request = read_batch_line(kAnthropic, kMessages, element);
    if (!request) return wrong(place + ": " + request.error().message, place);
    upload.models.emplace(request->model, upload.lines - 1);
    for (const NamedModel& named : named_models_of(request->body))
      upload.models.emplace(named.model, upload.lines - 1);
    if (upload.model.empty()) upload.model = request->model;
    if (!ids.insert(std::move(request->custom_id)).second)
      return wrong(place + ".custom_id: every custom_id must be used once", place + ".custom_id");
    upload.writing->write(in_one_line(element));
    upload.writing->write("\n");
  }
  if (upload.lines == 0) return wrong("requests: at least one request is needed", "requests");
  upload.writing->sync();
  return {};
}

BatchDesk::Reply BatchDesk::create_message_batch(const BatchCaller& caller, const Upload& upload,
                                                 WallTime now) {
  if (auto before = batch_made_before(caller, kAnthropic, now)) return *std::move(before);
  for (const auto& [model, line] : upload.models)
    if (!engine_.model_allowed(caller.models, model)) {
      const std::string place = "requests." + std::to_string(line);
      return refused("forbidden",
                     place + ": model \"" + printable(model, 64) + "\" is not allowed with this key");
    }
  if (const auto room = room_for_batch(caller); !room) return tl::unexpected(room.error());
  if (const auto room = room_for(caller, static_cast<std::size_t>(upload.writing->bytes())); !room)
    return tl::unexpected(room.error());
  StoredBatch batch = new_batch(caller, kAnthropic, now);
  batch.endpoint = kMessages;
  batch.state = BatchState::in_progress;
  batch.in_progress_at = batch.created_at;
  batch.model = upload.model;
  batch.lines = upload.lines;
  StoredFile input{.id = upload.id,
                   .owner = caller.owner,
                   .purpose = "message_batch",
                   .filename = batch.id + ".jsonl",
                   .bytes = upload.writing->bytes(),
                   .created_at = batch.created_at,
                   .hidden = true};
  batch.input_file = input.id;
  store_.transaction([&] {
    store_.add_file(input);
    store_.add_batch(batch);
    remember(caller, batch.id, batch.created_at);
  });
  upload.writing->keep();
  std::string document = batch_document(batch, caller.base_url);
  engine_.start(std::move(batch));
  return document;
}

BatchDesk::Reply BatchDesk::batch(const BatchCaller& caller, const Api& api, const std::string& id) {
  return own_batch(caller, api, id).map([&](const StoredBatch& batch) {
    return batch_document(batch, caller.base_url);
  });
}

BatchDesk::Reply BatchDesk::batches(const BatchCaller& caller, const Api& api, const ListRequest& list) {
  const BatchApi& shape = batch_api_of(api);
  const auto limit = read_limit(list, shape.page);
  if (!limit) return tl::unexpected(limit.error());
  if (!list.after.empty() && !list.before.empty())
    return wrong("a list goes on behind an item or in front of one, not both");
  if (auto place = place_in_list(list.after, shape.id_prefix, std::string(shape.after)); !place)
    return tl::unexpected(place.error());
  if (auto place = place_in_list(list.before, shape.id_prefix, std::string(shape.before)); !place)
    return tl::unexpected(place.error());
  const ListPage page{.after = list.after, .before = list.before, .limit = *limit + 1};
  std::vector<StoredBatch> items = store_.batches(caller.owner, api, page);
  const bool more = cut_to_page(items, page, *limit);
  std::vector<std::string> documents;
  for (const StoredBatch& item : items) {
    const StoredBatch* const running = engine_.find(item.id);
    documents.push_back(batch_document(running != nullptr ? *running : item, caller.base_url));
  }
  return list_document(shape.list_head, documents, items.empty() ? "" : items.front().id,
                       items.empty() ? "" : items.back().id, more);
}

BatchDesk::Reply BatchDesk::cancel_batch(const BatchCaller& caller, const Api& api, const std::string& id,
                                         WallTime now) {
  const auto batch = own_batch(caller, api, id);
  if (!batch) return tl::unexpected(batch.error());
  if (is_over(batch->state))
    return refused("over", "batch \"" + id + "\" is over already: nothing is left to cancel");
  engine_.cancel({id}, now);
  return batch_document(*engine_.find(id), caller.base_url);
}

std::size_t BatchDesk::cancel_all_of(const std::string& owner, WallTime now) {
  const std::vector<std::string> ids = engine_.ids_of(owner);
  engine_.cancel(ids, now);
  return ids.size();
}

BatchDesk::Reply BatchDesk::delete_message_batch(const BatchCaller& caller, const std::string& id) {
  const auto batch = own_batch(caller, kAnthropic, id);
  if (!batch) return tl::unexpected(batch.error());
  if (!is_over(batch->state))
    return wrong("batch \"" + id + "\" is not over; cancel it first, and delete it when it has ended");
  store_.transaction([&] {
    store_.remove_batch(batch->number);
    store_.remove_file(batch->output_file);
  });
  store_.drop_bytes(batch->output_file);
  return batch_deleted_document(id);
}

tl::expected<OpenFile, ApiError> BatchDesk::open_results(const BatchCaller& caller, const std::string& id) {
  const auto batch = own_batch(caller, kAnthropic, id);
  if (!batch) return tl::unexpected(batch.error());
  const auto file = store_.file(batch->output_file);
  if (!is_over(batch->state) || !file)
    return refused("not_found",
                   "batch \"" + id + "\" has no results " + (is_over(batch->state) ? "any more" : "yet"));
  return OpenFile{.fd = store_.open_bytes(file->id), .bytes = file->bytes, .filename = id + "_results.jsonl"};
}

}  // namespace lanemq::gateway
