// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/check/finding.hpp"

namespace lanemq::cli {

/// A broker of several that share a store, as it was seen at one of its endpoints. Texts are safe for a
/// terminal.
struct Member {
  std::string at;          ///< the endpoint, or the address of its HTTP
  std::string role;        ///< `owner`, `candidate`; empty: it did not say
  std::string shard{};     ///< whose broker it is; empty: there are none, or it is not known
  std::string instance;    ///< its name; empty: it did not say
  std::string owner;       ///< who owns the store, as a candidate has seen; empty: nobody knows
  std::int64_t epoch = 0;  ///< of the store; 0: it did not say
  std::optional<std::int64_t> since_commit_ms;  ///< of the owner
  std::string says;                             ///< how it is, or why it did not answer
  bool answers = true;
  bool shares_no_store = false;  ///< it serves from a store that is its own
  bool by_http = false;          ///< it was seen by its HTTP, and may be seen at an endpoint, too
};

// What was asked, as members. Pure.

/// `stats`: the broker's document, as the owner answers it at the clients' endpoint.
Member member_of_stats(const std::string& endpoint, const std::string& stats);
/// `looked`: what came of `/readyz`, which owner and candidates serve over HTTP.
Member member_of_http(const GatewayFacts& looked);
/// `shard`: of the brokers that may be there, where it is known.
Member silent_member(const std::string& endpoint, const std::string& why, const std::string& shard = {});

/// What all of them say together.
struct ClusterVerdict {
  bool good = false;      ///< exactly one broker owns the store, or that of each shard
  bool answered = false;  ///< at least one
  std::string says;       ///< a sentence, or one of each shard in lines
};
ClusterVerdict judge_cluster(const std::vector<Member>& members);

/// A line for each member, and the verdict; lines fit into `columns`.
std::string cluster_text(const std::vector<Member>& members, bool colour, std::size_t columns);
/// The same as one line of JSON.
std::string cluster_json(const std::vector<Member>& members);

}  // namespace lanemq::cli
