// SPDX-License-Identifier: Apache-2.0
#include "broker/http/scrapes.hpp"

#include <utility>

namespace lanemq::admin {

void Scrapes::ask(Then then) {
  if (last_ && loop_.now() < fresh_until_) return then(last_);
  waiting_.push_back(std::move(then));
  if (waiting_.size() > 1) return;
  growing_.clear();
  ask_page(0, 1);
}

void Scrapes::ask_page(std::int64_t from, int page) {
  Question question{.op = "admin", .fields = {{"do", "services"}}, .who = "http"};
  if (from > 0) question.fields.emplace_back("from", from);
  link_.ask(question, [this, page](LoopAnswer answer) { add(std::move(answer), page); });
}

void Scrapes::add(LoopAnswer answer, int page) {
  if (answer.status != 200) return end(nullptr);
  for (Json& row : answer.document["services"])
    growing_.push_back(std::move(row));
  const auto next = answer.document.value("next", std::int64_t{0});
  if (next > 0 && page < kPagesMax) return ask_page(next, page + 1);
  fresh_until_ = loop_.now() + kFreshFor;
  end(std::make_shared<const std::vector<Json>>(std::exchange(growing_, {})));
}

void Scrapes::end(Rows services) {
  last_ = std::move(services);
  for (const Then& then : std::exchange(waiting_, {}))
    then(last_);
}

}  // namespace lanemq::admin
