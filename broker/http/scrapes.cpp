// SPDX-License-Identifier: Apache-2.0
#include "broker/http/scrapes.hpp"

#include <utility>

namespace lanemq::admin {

void Scrapes::ask(Then then) {
  if (last_ && loop_.now() < fresh_until_) return then(last_);
  waiting_.push_back(std::move(then));
  if (waiting_.size() > 1) return;
  growing_.clear();
  ask_pages(
      link_, {.op = "admin", .fields = {{"do", "services"}}, .who = "http"},
      [this](Json page) {
        for (Json& row : page["services"])
          growing_.push_back(std::move(row));
      },
      [this](bool whole) {
        if (!whole) return end(nullptr);
        fresh_until_ = loop_.now() + kFreshFor;
        end(std::make_shared<const std::vector<Json>>(std::exchange(growing_, {})));
      });
}

void Scrapes::end(Rows services) {
  last_ = std::move(services);
  for (const Then& then : std::exchange(waiting_, {}))
    then(last_);
}

}  // namespace lanemq::admin
