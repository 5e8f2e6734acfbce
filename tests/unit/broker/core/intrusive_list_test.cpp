// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/intrusive_list.hpp"

#include <array>
#include <list>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

struct Element {
  ListHook<Element> hook;
};
using List = IntrusiveList<Element, &Element::hook>;

TEST(IntrusiveList, is_a_list_like_any_other) {
  const bool holds = rc::check([](const std::vector<std::uint8_t>& steps) {
    std::array<Element, 8> elements;
    List list;
    std::list<Element*> model;
    for (const std::uint8_t step : steps) {
      Element& element = elements[step % 8];
      const auto place = std::find(model.begin(), model.end(), &element);
      if (step >= 224) {
        Element* const first = list.pop_front();
        RC_ASSERT(first == (model.empty() ? nullptr : model.front()));
        if (!model.empty()) model.pop_front();
      } else if (place == model.end()) {
        list.push_back(element);
        model.push_back(&element);
      } else {
        list.remove(element);
        model.erase(place);
      }
      RC_ASSERT(list.size() == model.size());
      RC_ASSERT(list.empty() == model.empty());
      Element* walk = list.front();
      for (Element* expected : model) {
        RC_ASSERT(walk == expected);
        walk = list.next(*walk);
      }
      RC_ASSERT(walk == nullptr);
    }
  });
  EXPECT_TRUE(holds);
}

}  // namespace
}  // namespace lanemq::core
