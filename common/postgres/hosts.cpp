// SPDX-License-Identifier: Apache-2.0
#include "common/postgres/hosts.hpp"

#include <algorithm>
#include <string_view>

namespace lanemq::postgres {
namespace {

/// How many values commas divide; 0: the keyword is not there.
std::size_t count_of(const Words& words, const char* keyword) {
  const auto found = words.find(keyword);
  if (found == words.end()) return 0;
  return 1 + static_cast<std::size_t>(std::count(found->second.begin(), found->second.end(), ','));
}

std::string part_of(std::string_view list, std::size_t at) {
  for (; at > 0; --at)
    list.remove_prefix(list.find(',') + 1);
  return std::string(list.substr(0, list.find(',')));
}

}  // namespace

std::vector<Words> each_host(const Words& words) {
  const std::size_t names = count_of(words, "host"), addresses = count_of(words, "hostaddr");
  const std::size_t ports = count_of(words, "port"), count = std::max(names, addresses);
  const bool fit = (names == 0 || addresses == 0 || names == addresses) && (ports <= 1 || ports == count);
  if (count <= 1 || !fit) return {words};
  std::vector<Words> hosts(std::min(count, kHostsMax), words);
  for (std::size_t at = 0; at < hosts.size(); ++at) {
    for (const char* keyword : {"host", "hostaddr", "port"}) {
      const bool for_all = count_of(words, keyword) <= 1;
      if (!for_all) hosts[at][keyword] = part_of(words.at(keyword), at);
    }
  }
  return hosts;
}

}  // namespace lanemq::postgres
