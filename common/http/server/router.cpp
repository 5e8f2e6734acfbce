// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/router.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::http {
namespace {

constexpr std::string_view kLanePrefix = "/lane/";

/// The pieces of `/v1/files/{id}`: `v1`, `files`, `{id}`.
std::vector<std::string_view> pieces_of(std::string_view path) {
  std::vector<std::string_view> pieces;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = std::min(path.find('/'), path.size());
    pieces.push_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return pieces;
}

bool is_param(std::string_view piece) {
  return piece.size() > 2 && piece.front() == '{' && piece.back() == '}';
}
bool takes_rest(std::string_view piece) {
  return is_param(piece) && piece[piece.size() - 2] == '*';
}

/// Whether a path's pieces match a pattern's. A piece for `{name}` must not be empty.
bool fits(const std::vector<std::string>& pattern, const std::vector<std::string_view>& path) {
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (i >= path.size()) return false;
    if (is_param(pattern[i]) ? path[i].empty() : pattern[i] != path[i]) return false;
    if (takes_rest(pattern[i])) return true;
  }
  return pattern.size() == path.size();
}

std::vector<std::pair<std::string, std::string>> params_of(const std::vector<std::string>& pattern,
                                                           const std::vector<std::string_view>& path) {
  std::vector<std::pair<std::string, std::string>> params;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_param(pattern[i])) continue;
    const std::string_view name = std::string_view(pattern[i]).substr(1, pattern[i].size() - 2);
    if (!takes_rest(pattern[i])) {
      params.emplace_back(std::string(name), percent_decoded(path[i]));
      continue;
    }
    const std::string_view rest(
        path[i].data(), static_cast<std::size_t>(path.back().data() + path.back().size() - path[i].data()));
    params.emplace_back(std::string(name.substr(0, name.size() - 1)), percent_decoded(rest));
  }
  return params;
}

}  // namespace

void Router::take_prefixes(HttpRequest& request) const {
  if (prefixes_ == Prefixes::taken && request.path.starts_with(kLanePrefix)) {
    const std::size_t end = request.path.find('/', kLanePrefix.size());
    if (end != std::string::npos && end > kLanePrefix.size()) {
      request.lane_prefix = percent_decoded(
          std::string_view(request.path).substr(kLanePrefix.size(), end - kLanePrefix.size()));
      request.path.erase(0, end);
    }
  }
  for (const std::string_view prefix : own_prefixes_) {
    if (!request.path.starts_with(prefix) || request.path.size() <= prefix.size() ||
        request.path[prefix.size()] != '/')
      continue;
    request.prefix = prefix;
    request.path.erase(0, prefix.size());
    return;
  }
}

void Router::add(Route route) {
  Entry entry{.route = std::move(route), .pieces = {}, .fixed = 0};
  for (const std::string_view piece : pieces_of(entry.route.pattern))
    entry.pieces.emplace_back(piece);
  entry.fixed = static_cast<std::size_t>(std::count_if(entry.pieces.begin(), entry.pieces.end(),
                                                       [](const std::string& p) { return !is_param(p); }));
  entries_.push_back(std::move(entry));
}

Router::Found Router::find(HttpRequest& request) const {
  if (request.path.empty() || request.path.front() != '/') return {};
  take_prefixes(request);
  if (std::find(hidden_.begin(), hidden_.end(), request.path) != hidden_.end()) return {};
  const std::vector<std::string_view> path = pieces_of(request.path);
  Found found;
  const Entry *exact = nullptr, *get = nullptr;
  for (const Entry& entry : entries_) {
    if (!fits(entry.pieces, path)) continue;
    found.allowed += (found.allowed.empty() ? "" : ", ") + entry.route.method;
    if (entry.route.method == "GET") found.allowed += ", HEAD";
    if (entry.route.method == request.method && (!exact || entry.fixed > exact->fixed)) exact = &entry;
    if (entry.route.method == "GET" && (!get || entry.fixed > get->fixed)) get = &entry;
  }
  if (!exact && request.method == "HEAD") exact = get;
  if (!exact) return found;
  found.route = &exact->route;
  request.params = params_of(exact->pieces, path);
  return found;
}

}  // namespace lanemq::http
