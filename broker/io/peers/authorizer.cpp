// SPDX-License-Identifier: Apache-2.0
#include "broker/io/peers/authorizer.hpp"

#include <variant>

#include "broker/io/peers/key_ring.hpp"

namespace lanemq::io {
namespace {

using core::Identity;

/// libzmq's own addresses: a zero and a number that no peer is told.
constexpr std::size_t kOwnAddressBytes = 5;

/// Bound on names in messages to a worker: with a tenant's space in front, an id has to fit a name.
constexpr std::size_t kNameMax = limits::name_bytes_max;

bool is_marked(std::string_view name) {
  return !name.empty() && name.front() == core::kSpaceMark;
}

Authorizer::Refusal reserved(const char* field) {
  return {ErrorCode::bad_request,
          std::string("field \"") + field +
              "\" begins with @, which marks the spaces of tenants; begin it otherwise"};
}

Authorizer::Refusal too_long(const Identity& identity, const char* field) {
  return {ErrorCode::bad_request, std::string("field \"") + field + "\" has more than " +
                                      std::to_string(kNameMax - identity.space.size()) +
                                      " bytes, as many as the tenant of key \"" + identity.name +
                                      "\" leaves"};
}

}  // namespace

std::string_view Authorizer::identify(const Incoming& message, Router& router, Door door) {
  sender_ = nullptr;
  if (!asks_) return {};
  const Identity* const identity = keys_.find(message.user_id());
  if (identity == nullptr)
    return "the key of this connection does not count any more; ask the broker's operator for one";
  // The role may have changed since the handshake.
  if (!opens(*identity, door))
    return "the key of this connection has another role now; connect where it is for";
  // A peer that chose its address could take that of a client that is away, and get its answers.
  if (message.address().size() != kOwnAddressBytes || message.address().front() != '\0')
    return "the socket has a routing id of its own; leave ZMQ_ROUTING_ID (IDENTITY) unset";
  router.let_in(message.address());
  sender_ = identity;
  return {};
}

std::optional<Authorizer::Refusal> Authorizer::rename(std::string_view& name, std::string& place,
                                                      const char* field) const {
  if (is_marked(name)) return reserved(field);
  if (sender_ == nullptr || sender_->space.empty() || name.empty()) return std::nullopt;
  if (sender_->space.size() + name.size() > kNameMax) return too_long(*sender_, field);
  place = sender_->space;
  name = place += name;
  return std::nullopt;
}

std::optional<Authorizer::Refusal> Authorizer::admit_submit(wire::Submit& submit) {
  if (auto why = rename(submit.id, id_)) return why;
  if (auto why = rename(submit.group, group_, "group")) return why;
  if (is_marked(submit.client)) return reserved("client");
  if (sender_ == nullptr) return std::nullopt;
  if (submit.cost)
    submit.cost->certain =
        sender_->may_state_cost() ? std::optional(wire::Cost::kInput | wire::Cost::kOutput) : std::nullopt;
  if (sender_->role == Identity::Role::client && !submit.client.empty() && submit.client != sender_->name)
    return Refusal{.message = "key \"" + sender_->name +
                              "\" may not name another client (field \"client\"): that "
                              "is for keys of gateways"};
  if (sender_->space.size() + submit.client.size() > kNameMax) return too_long(*sender_, "client");
  client_ = sender_->space;
  submit.client = client_ += submit.client.empty() ? std::string_view(sender_->name) : submit.client;
  return std::nullopt;
}

std::optional<Authorizer::Refusal> Authorizer::admit_spend(wire::Spend& spend) {
  if (is_marked(spend.key)) return reserved("key");
  if (is_marked(spend.session)) return reserved("session");
  if (sender_ == nullptr || sender_->space.empty()) return std::nullopt;
  const std::size_t room = kNameMax - std::min(kNameMax, sender_->space.size());
  if (spend.key.size() > room) return too_long(*sender_, "key");
  if (spend.session.size() > room) return too_long(*sender_, "session");
  key_ = sender_->space;
  spend.key = key_ += spend.key;
  session_ = sender_->space;
  spend.session = session_ += spend.session;
  return std::nullopt;
}

/// Ids, clients and groups that a watch names are those of its tenant. Of no other's it is told.
std::optional<Authorizer::Refusal> Authorizer::admit_watch(wire::Watch& watch) {
  if (auto why = rename(watch.id, id_)) return why;
  if (auto why = rename(watch.group, group_, "group")) return why;
  if (is_marked(watch.client)) return reserved("client");
  if (sender_ == nullptr || sender_->space.empty() || watch.client.empty()) return std::nullopt;
  if (sender_->space.size() + watch.client.size() > kNameMax) return too_long(*sender_, "client");
  client_ = sender_->space;
  watch.client = client_ += watch.client;
  return std::nullopt;
}

std::optional<Authorizer::Refusal> Authorizer::admit(wire::ClientRequest& request) {
  if (auto* const submit = std::get_if<wire::Submit>(&request)) return admit_submit(*submit);
  if (auto* const cancel = std::get_if<wire::Cancel>(&request)) return rename(cancel->id, id_);
  if (auto* const fetch = std::get_if<wire::Fetch>(&request)) return rename(fetch->id, id_);
  if (auto* const seen = std::get_if<wire::Seen>(&request)) return rename(seen->id, id_);
  if (auto* const watch = std::get_if<wire::Watch>(&request)) return admit_watch(*watch);
  if (auto* const status = std::get_if<wire::StatusQuery>(&request)) {
    ids_.resize(status->ids.size());
    for (std::size_t i = 0; i < ids_.size(); ++i)
      if (auto why = rename(status->ids[i], ids_[i])) return why;
    return rename(status->id, id_);
  }
  auto* const spend = std::get_if<wire::Spend>(&request);
  // The statistics name everybody's clients, services and keys; who spends for a key bounds what others get.
  if (sender_ != nullptr && sender_->role == Identity::Role::client &&
      (spend != nullptr || std::holds_alternative<wire::StatsQuery>(request)))
    return Refusal{.message = "key \"" + sender_->name + "\" does not allow op \"" +
                              (spend != nullptr ? "spend\": that is for gateways"
                                                : "stats\": that is for gateways and operators")};
  return spend != nullptr ? admit_spend(*spend) : std::nullopt;
}

}  // namespace lanemq::io
