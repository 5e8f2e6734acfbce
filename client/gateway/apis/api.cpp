// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/api.hpp"

#include <algorithm>
#include <iterator>

namespace lanemq::gateway {

const Api& api_of(const HttpRequest& request) {
  for (std::size_t i = kApiCount - 1; i > 0; --i)
    if (kApis[i]->claims(request)) return *kApis[i];
  return *kApis[0];
}

const Api* api_named(std::string_view name) {
  const auto* const at =
      std::find_if(std::begin(kApis), std::end(kApis), [&](const Api* api) { return api->name == name; });
  return at == std::end(kApis) ? nullptr : *at;
}

const Api* api_numbered(std::int64_t number) {
  return number >= 0 && number < std::ssize(kApis) ? kApis[number] : nullptr;
}

const std::vector<std::string_view>& forwarded_headers() {
  static const std::vector<std::string_view> kAll = [] {
    std::vector<std::string_view> all;
    for (std::size_t i = kApiCount; i > 0; --i)
      all.insert(all.end(), kApis[i - 1]->forwarded_headers.begin(), kApis[i - 1]->forwarded_headers.end());
    return all;
  }();
  return kAll;
}

std::string json_list(const std::vector<std::string>& names, std::string (*document)(std::string_view name)) {
  std::string list = "[";
  for (const std::string& name : names)
    list.append(list.size() > 1 ? "," : "").append(document(name));
  return list + "]";
}

std::string api_makers() {
  std::string text(kApis[0]->maker);
  for (std::size_t i = 1; i < kApiCount; ++i)
    text.append(i + 1 < kApiCount ? ", " : " and ").append(kApis[i]->maker);
  return text;
}

}  // namespace lanemq::gateway
