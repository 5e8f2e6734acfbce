// SPDX-License-Identifier: Apache-2.0
#include "broker/http/feeds/sampler.hpp"

#include <utility>

namespace lanemq::admin {
namespace {

constexpr const char* kLanes = "lanes";

std::int64_t wall_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Takes the first page whole, and the budgets and keys of a later one; the keys of one budget may be on
/// several.
void add_page(Json& whole, Json page) {
  if (whole.is_null()) {
    whole = std::move(page);
    return;
  }
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
  if (!std::exchange(asking_, true)) ask_statistics();
}

void Sampler::ask_statistics() {
  growing_ = Json();
  ask_pages(
      link_, {.op = "stats", .who = "http"}, [this](Json page) { add_page(growing_, std::move(page)); },
      [this](bool whole) {
        asking_ = whole;
        if (whole) ask_lanes();
      });
}

void Sampler::ask_lanes() {
  ask_pages(
      link_, {.op = "admin", .fields = {{"do", kLanes}}, .who = "http"},
      [this](Json page) {
        for (Json& row : page[kLanes]) {
          Json& lane = growing_[kLanes][row.value("name", std::string())];
          add_row(lane, std::move(row));
        }
      },
      [this](bool whole) {
        asking_ = false;
        if (whole) publish();
      });
}

void Sampler::publish() {
  last_ = std::make_shared<const Sample>(Sample{
      .number = ++numbers_, .at_ms = wall_ms(), .at = loop_.now(), .stats = std::exchange(growing_, Json())});
  for (const Take& take : takers_)
    take(last_);
}

}  // namespace lanemq::admin
