// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/limits/providers.hpp"

#include <algorithm>

#include <toml++/toml.h>

#include <lanemq/words.hpp>

#include "providers_toml.hpp"

namespace lanemq::worker {
namespace {

/// The host of a URL, in lower case: of `https://API.groq.com:443/openai/v1` `api.groq.com`.
std::string host_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  std::string host(url.substr(0, url.find_first_of(":/?#")));
  std::transform(host.begin(), host.end(), host.begin(), lower);
  return host;
}

std::vector<Provider> read_providers() {
  std::vector<Provider> all;
  const toml::table table = toml::parse(kProvidersToml);
  for (const auto& [name, row] : table) {
    const toml::table* const about = row.as_table();
    if (about == nullptr) continue;
    all.push_back({.name = std::string(name.str()),
                   .host = host_of((*about)["base_url"].value_or(std::string_view())),
                   .requests_period_ms = (*about)["requests_period_s"].value_or(std::int64_t{0}) * 1000});
  }
  return all;
}

}  // namespace

const std::vector<Provider>& providers() {
  static const std::vector<Provider> all = read_providers();
  return all;
}

const Provider* provider_of(std::string_view url) {
  const std::string host = host_of(url);
  for (const Provider& provider : providers())
    if (provider.host == host) return &provider;
  return nullptr;
}

}  // namespace lanemq::worker
