// SPDX-License-Identifier: Apache-2.0
#include "broker/http/sampler.hpp"

#include <utility>

namespace lanemq::admin {
namespace {

constexpr const char* kNext = "next";
constexpr const char* kLanes = "lanes";

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Adds the budgets and keys of a later page; the keys of one budget may be on several.
void add_page(Json& whole, const Json& page) {
  whole["budgets"].update(page.at("budgets"));
  for (const auto& [budget, keys] : page.at("keys").items())
    whole["keys"][budget].update(keys);
}

/// Adds a lane's row to its statistics, which are a moment older; what both have stays as it is there, but
/// for durations, of which the row says more.
void add_row(Json& lane, Json row) {
  for (auto& [name, value] : row.items()) {
    if (name == "name") continue;
    if (name == "refused")
      lane["refused_by"] = std::move(value);
    else if (value.is_object() || !lane.contains(name))
      lane[name] = std::move(value);
  }
}

}  // namespace

Sampler::Sampler(OperatorLink& link, http::Loop& loop)
    : link_(link), loop_(loop), timer_(loop.timer()), began_(loop.now()) {}

std::chrono::milliseconds Sampler::age() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(loop_.now() - (last_ ? last_->at : began_));
}

void Sampler::look() {
  timer_->after(kEvery, [this] { look(); });
  if (!std::exchange(asking_, true)) ask(0, 1);
}

void Sampler::ask(std::int64_t from, int page) {
  Question question{.op = "stats", .who = "http"};
  if (from > 0) question.fields.emplace_back("from", from);
  link_.ask(question, [this, page](LoopAnswer answer) { add(std::move(answer), page); });
}

void Sampler::add(LoopAnswer answer, int page) {
  if (answer.status != 200) {
    asking_ = false;
    return;
  }
  const auto next = answer.document.value(kNext, std::int64_t{0});
  answer.document.erase(kNext);
  if (page == 1)
    growing_ = std::move(answer.document);
  else
    add_page(growing_, answer.document);
  if (next > 0 && page < kPagesMax) return ask(next, page + 1);
  ask_lanes(0, 1);
}

void Sampler::ask_lanes(std::int64_t from, int page) {
  Question question{.op = "admin", .fields = {{"do", kLanes}}, .who = "http"};
  if (from > 0) question.fields.emplace_back("from", from);
  link_.ask(question, [this, page](LoopAnswer answer) { add_lanes(std::move(answer), page); });
}

void Sampler::add_lanes(LoopAnswer answer, int page) {
  asking_ = answer.status == 200;
  if (!asking_) return;
  for (Json& row : answer.document[kLanes]) {
    Json& lane = growing_[kLanes][row.value("name", std::string())];
    add_row(lane, std::move(row));
  }
  const auto next = answer.document.value(kNext, std::int64_t{0});
  if (next > 0 && page < kPagesMax) return ask_lanes(next, page + 1);
  asking_ = false;
  publish();
}

void Sampler::publish() {
  last_ = std::make_shared<const Sample>(Sample{
      .number = ++numbers_, .at_ms = wall_ms(), .at = loop_.now(), .stats = std::exchange(growing_, Json())});
  for (const Take& take : takers_)
    take(last_);
}

}  // namespace lanemq::admin
