// SPDX-License-Identifier: Apache-2.0
#include "broker/http/scrapes.hpp"

#include <utility>

namespace lanemq::admin {

void Scrapes::ask(Then then) {
  if (last_ && loop_.now() < fresh_until_) return then(last_);
  waiting_.push_back(std::move(then));
  if (waiting_.size() > 1) return;
  growing_ = {};
  const auto whole = [this] {
    fresh_until_ = loop_.now() + kFreshFor;
    end(std::make_shared<const MetricsRows>(std::exchange(growing_, {})));
  };
  ask_rows("services", {}, &MetricsRows::services, [this, whole] {
    if (clients_ == 0) return whole();
    ask_rows("clients", {{"top", static_cast<std::int64_t>(clients_)}}, &MetricsRows::clients, whole);
  });
}

/// All pages of a verb's rows, then `then`; an end of the scrape where the loop does not answer.
void Scrapes::ask_rows(const char* verb, Fields fields, std::vector<Json> MetricsRows::*rows,
                       std::function<void()> then) {
  fields.emplace_back("do", verb);
  ask_pages(
      link_, {.op = "admin", .fields = std::move(fields), .who = "http"},
      [this, verb, rows](Json page) {
        for (Json& row : page[verb])
          (growing_.*rows).push_back(std::move(row));
      },
      [this, then = std::move(then)](bool whole) {
        if (!whole) return end(nullptr);
        then();
      });
}

void Scrapes::end(Rows rows) {
  last_ = std::move(rows);
  for (const Then& then : std::exchange(waiting_, {}))
    then(last_);
}

}  // namespace lanemq::admin
