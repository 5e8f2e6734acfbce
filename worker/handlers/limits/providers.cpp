// SPDX-License-Identifier: Apache-2.0
#include "worker/handlers/limits/providers.hpp"

#include <algorithm>

#include <lanemq/words.hpp>

#include "provider_rows.hpp"

namespace lanemq::worker {
namespace {

/// The host of a URL: of `https://API.groq.com:443/openai/v1` `API.groq.com`.
std::string_view host_of(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme != std::string_view::npos) url.remove_prefix(scheme + 3);
  return url.substr(0, url.find_first_of(":/?#"));
}

}  // namespace

std::span<const Provider> providers() {
  return kProviders;
}

const Provider* provider_of(std::string_view url) {
  const std::string_view host = host_of(url);
  const auto same = [](char a, char b) { return lower(a) == b; };
  for (const Provider& provider : kProviders)
    if (std::equal(host.begin(), host.end(), provider.host.begin(), provider.host.end(), same))
      return &provider;
  return nullptr;
}

}  // namespace lanemq::worker
