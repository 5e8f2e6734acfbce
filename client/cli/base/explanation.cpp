// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/explanation.hpp"

#include <nlohmann/json.hpp>

#include "common/json/members.hpp"

namespace lanemq::cli {
namespace {

/// A text of the error that a job ended with; empty: there is none.
std::string error_part(const JobStatus& status, const char* name) {
  const auto error = nlohmann::json::parse(status.error_json, nullptr, false);
  const bool there = error.is_object() && error.contains(name) && error[name].is_string();
  return there ? error[name].get<std::string>() : std::string();
}

using Document = nlohmann::ordered_json;

Document document_of(const JobStatus& status) {
  Document document{{"id", status.id}, {"state", status.state}};
  if (!status.lane.empty()) document["lane"] = status.lane;
  document["attempts"] = status.attempts;
  if (status.queued.count() > 0) document["queued_ms"] = status.queued.count();
  if (status.position) document["position"] = *status.position;
  if (!status.blocked_by.empty()) document["blocked_by"] = status.blocked_by;
  if (status.eta) document["eta_ms"] = status.eta->count();
  if (!status.worker.empty()) document["worker"] = status.worker;
  if (!status.group.empty()) document["group"] = status.group;
  if (status.pct) document["pct"] = *status.pct;
  if (!status.note.empty()) document["note"] = status.note;
  if (status.silent) document["silent_ms"] = status.silent->count();
  if (!status.error_json.empty()) document["error"] = Document::parse(status.error_json, nullptr, false);
  return document;
}

std::string line_of(const Document& document) {
  return document.dump(-1, ' ', false, Document::error_handler_t::replace) + "\n";
}

/// The document with `bytes` as its last member: unchanged where they are JSON.
std::string with_bytes(const Document& document, std::string_view key, const Blob& bytes) {
  std::string text = line_of(document);
  text.resize(text.size() - 2);
  return text + ",\"" + std::string(key) + "\":" + as_json_value(bytes.bytes()) + "}\n";
}

}  // namespace

Explanation explain_status(const JobStatus& status) {
  return explain({.id = status.id,
                  .lane = status.lane,
                  .state = status.state,
                  .blocked_by = status.blocked_by,
                  .worker = status.worker,
                  .attempts = status.attempts,
                  .eta = status.eta,
                  .error_code = error_part(status, "code"),
                  .error_message = error_part(status, "message")});
}

std::string status_json(const JobStatus& status) {
  return line_of(document_of(status));
}

std::string answer_json(const JobDone& done) {
  Document document{{"id", done.id}, {"state", "succeeded"}};
  if (!done.lane.empty()) document["lane"] = done.lane;
  document["attempts"] = done.attempts;
  document["queued_ms"] = done.queued.count();
  document["ran_ms"] = done.ran.count();
  if (done.usage)
    document["usage"] = {{"input_tokens", done.usage->input_tokens.value_or(0)},
                         {"output_tokens", done.usage->output_tokens.value_or(0)}};
  return with_bytes(document, "result", done.body);
}

std::string accepted_json(const JobAccepted& accepted) {
  Document document{{"id", accepted.id}};
  if (!accepted.lane.empty()) document["lane"] = accepted.lane;
  document["position"] = accepted.position;
  document["durable"] = accepted.durable;
  document["duplicate"] = accepted.duplicate;
  return line_of(document);
}

std::string error_json(const ClientError& error) {
  Document document;
  if (!error.id.empty()) document["id"] = error.id;
  document["code"] = error.code;
  document["message"] = error.message;
  if (error.attempts > 0) document["attempts"] = error.attempts;
  if (error.retry_after) document["retry_after_ms"] = error.retry_after->count();
  if (!error.limiter.empty()) document["limiter"] = error.limiter;
  if (error.upstream_status) document["upstream_status"] = *error.upstream_status;
  std::string text = error.body.empty() ? line_of(document) : with_bytes(document, "body", error.body);
  text.pop_back();
  return "{\"error\":" + text + "}\n";
}

std::vector<std::pair<const char*, std::int64_t>> ended_of(const JobChange& change) {
  return {{"succeeded", change.succeeded},
          {"failed", change.failed},
          {"cancelled", change.cancelled},
          {"expired", change.expired},
          {"died", change.died}};
}

std::string change_json(const JobChange& change) {
  Document document{{"what", change.what}, {"seq", change.seq}};
  if (change.gap) document["gap"] = true;
  if (change.left_out > 0) document["left_out"] = change.left_out;
  const std::pair<const char*, const std::string&> texts[] = {{"id", change.id},
                                                              {"state", change.state},
                                                              {"lane", change.lane},
                                                              {"service", change.service},
                                                              {"client", change.client},
                                                              {"model", change.model},
                                                              {"from_lane", change.from_lane},
                                                              {"worker", change.worker},
                                                              {"code", change.code},
                                                              {"group", change.group},
                                                              {"shard", change.shard}};
  for (const auto& [name, value] : texts)
    if (!value.empty()) document[name] = value;
  if (change.attempts > 0) document["attempts"] = change.attempts;
  if (change.delay) document["delay_ms"] = change.delay->count();
  if (change.queued) document["queued_ms"] = change.queued->count();
  if (change.ran) document["ran_ms"] = change.ran->count();
  if (change.dead) document["dead"] = true;
  if (change.pct) document["pct"] = *change.pct;
  if (!change.note.empty()) document["note"] = change.note;
  if (change.what == "group_over")
    for (const auto& [name, count] : ended_of(change))
      document[name] = count;
  if (change.incomplete) document["incomplete"] = true;
  if (change.at.count() > 0) document["at_ms"] = change.at.count();
  return line_of(document);
}

std::string explanation_json(const JobStatus& status) {
  const Explanation explanation = explain_status(status);
  Document document = document_of(status);
  document["what"] = explanation.what;
  if (!explanation.help.empty()) document["help"] = explanation.help;
  return line_of(document);
}

}  // namespace lanemq::cli
