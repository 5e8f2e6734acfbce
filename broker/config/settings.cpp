// SPDX-License-Identifier: Apache-2.0
#include "broker/config/settings.hpp"

#include <string_view>

#include "common/http/server/access/caller_key.hpp"

namespace lanemq::config {

using core::BudgetOptions;
using core::ClientOptions;
using core::KeyOptions;
using core::LaneOptions;
using core::RateOptions;
using settings::kAnyDuration;
using settings::kCountMax;
using settings::Options;

const Options<LaneOptions>& lane_table() {
  using namespace settings::rows;
  static const Options<LaneOptions> kTable{
      duration(
          "timeout", kAnyDuration,
          "How long a job may take, queueing included; a stream until its first piece, then between two.",
          &LaneOptions::timeout),
      duration("stall_timeout", kAnyDuration,
               "How long a job whose worker says progress may be without; 0: for ever.",
               &LaneOptions::stall_timeout),
      count("depth_max", "jobs", {1, kCountMax}, "Jobs that may wait.", &LaneOptions::depth_max),
      size("bytes_max", {0, kCountMax}, "Bytes that may wait; 0B: no bound.", &LaneOptions::bytes_max),
      count("reserved_slots", "places", {0, kCountMax},
            "Places of each service held for this lane and those above.", &LaneOptions::reserved_slots),
      share("reserve", "Share of each budget's burst that lower lanes leave.", &LaneOptions::reserve),
      share("share_min", "Share of what a service hands over that this lane gets at least.",
            &LaneOptions::share_min),
      duration("boost_after", kAnyDuration, "A job that waited so long competes a lane higher; 0: never.",
               &LaneOptions::boost_after),
      yes_or_no("durable", "Its jobs outlive the broker, where the store does.", &LaneOptions::durable),
      yes_or_no("default", "Takes jobs that name no lane.", &LaneOptions::is_default)};
  return kTable;
}

const Options<ClientOptions>& client_table() {
  using namespace settings::rows;
  static const Options<ClientOptions> kTable{
      count("weight", "weight", {1, ClientOptions::kWeightMax},
            "Its share of what the clients of a lane get, to that of others.", &ClientOptions::weight),
      count("in_flight_max", "jobs", {1, kCountMax}, "Jobs that may be at workers at once.",
            &ClientOptions::in_flight_max),
      count("depth_max", "jobs", {1, kCountMax}, "Jobs that may wait.", &ClientOptions::depth_max),
      text("lane_max", "lane", "The highest lane that it may use.", &ClientOptions::lane_max)
          .when_empty("any"),
      text("tenant", "text", "Whose it is: its clients share as one, and budgets can match it.",
           &ClientOptions::tenant)
          .when_empty("nobody's")};
  return kTable;
}

const Options<core::ShardOptions>& shard_table() {
  using namespace settings::rows;
  using core::ShardOptions;
  static const Options<ShardOptions> kTable{
      list("match.service", "patterns", "Services whose jobs it takes, as globs.", &ShardOptions::services)
          .when_empty("all"),
      list("match.tenant", "patterns", "Tenants whose clients' jobs it takes, as globs.",
           &ShardOptions::tenants)
          .when_empty("all"),
      list("clients", "endpoints", "Where clients reach its brokers.", &ShardOptions::clients),
      list("workers", "endpoints", "Where workers reach its brokers.", &ShardOptions::workers)};
  return kTable;
}

const Options<io::PluginOptions>& plugin_table() {
  using namespace settings::rows;
  static const Options<io::PluginOptions> kTable{
      text("name", "text", "For the log and for operators.", &io::PluginOptions::name),
      text("file", "path", "A shared library that exports what lanemq/broker_plugin.h declares.",
           &io::PluginOptions::file),
      row(
          {.key = "when_off",
           .unit = "accept|refuse",
           .sentence = "What becomes of submits while it is switched off."},
          [](const std::string& text) {
            if (text != "accept" && text != "refuse")
              throw ConfigError("when_off \"" + text + "\" is not known; write accept or refuse");
            return text == "refuse";
          },
          [](bool refuse) { return refuse ? "refuse" : "accept"; }, &io::PluginOptions::refuse_when_off)};
  return kTable;
}

const settings::Options<admin::HttpKey>& http_key_table() {
  using namespace settings::rows;
  static const settings::Options<admin::HttpKey> kTable{
      name("name", "text", "Its name.", &admin::HttpKey::name),
      text("secret", "source", "Where it stands: env:VARIABLE, file:PATH or credential:NAME.",
           &admin::HttpKey::secret),
      row({.key = "sha256", .unit = "digits", .sentence = "Of the secret, instead of it."}, http::parse_hash,
          std::identity(), &admin::HttpKey::sha256),
      row(
          {.key = "role", .unit = "viewer|operator", .sentence = "Whether its holder may change anything."},
          [](const std::string& text) {
            if (text != "viewer" && text != "operator")
              throw ConfigError("role \"" + text + "\" is not known; write viewer or operator");
            return text == "operator" ? admin::Role::manager : admin::Role::viewer;
          },
          [](admin::Role role) { return admin::name_of(role); }, &admin::HttpKey::role),
      moment("not_after",
             "A date, whose last second is the key's (UTC), or a date with a time: then it counts no more.",
             &admin::HttpKey::not_after)};
  return kTable;
}

namespace {

core::WindowKind parse_window(const std::string& text) {
  if (text == "sliding") return core::WindowKind::sliding;
  if (text == "bucket") return core::WindowKind::bucket;
  if (text == "auto") return core::WindowKind::automatic;
  throw ConfigError("window \"" + text + "\" is not known; write auto, sliding or bucket");
}

core::OutputCount parse_output(const std::string& text) {
  if (text == "used") return core::OutputCount::used;
  if (text == "max_tokens") return core::OutputCount::bound;
  throw ConfigError("output \"" + text + "\" is not known; write used or max_tokens");
}

settings::Option<BudgetOptions> pattern(std::string_view key, std::string BudgetOptions::*member) {
  return settings::rows::text(key, "pattern", "A glob.", member).when_empty("all");
}

RateOptions& rate_of(std::vector<RateOptions>& rates, const core::RateKind& kind) {
  for (RateOptions& rate : rates)
    if (rate.name == kind.name) return rate;
  return rates.emplace_back(RateOptions{std::string(kind.name), 0, kind.period, 0, kind.resource});
}

/// Sets the pool's keys from names separated by commas.
void set_keys(BudgetOptions& budget, const std::string& text) {
  budget.keys.clear();
  for (const std::string& name : settings::parse_words({text}))
    budget.keys.push_back({.name = name});
}

}  // namespace

const Options<BudgetOptions>& budget_table() {
  using namespace settings::rows;
  static const Options<BudgetOptions> kTable{
      pattern("match.service", &BudgetOptions::service),
      pattern("match.model", &BudgetOptions::model),
      pattern("match.client", &BudgetOptions::client),
      pattern("match.tenant", &BudgetOptions::tenant),
      pattern("match.lane", &BudgetOptions::lane),
      yes_or_no("per_shard", "Each shard whose jobs it counts has so much for itself.",
                &BudgetOptions::per_shard),
      share("offline_share", "Share of a shared budget's limits that its bank grants nobody.",
            &BudgetOptions::offline_share),
      row(
          {.key = "output", .unit = "used|max_tokens", .sentence = "What its upstream counts of an answer."},
          parse_output,
          [](core::OutputCount output) { return output == core::OutputCount::bound ? "max_tokens" : "used"; },
          &BudgetOptions::output),
      row(
          {.key = "window", .unit = "auto|sliding|bucket", .sentence = "How its upstream counts."},
          parse_window, [](core::WindowKind window) { return core::name_of(window); },
          &BudgetOptions::window)};
  return kTable;
}

const Options<KeyOptions>& key_table() {
  using namespace settings::rows;
  static const Options<KeyOptions> kTable{
      count("weight", "weight", {1, KeyOptions::kWeightMax}, "Its share where keys have equal room.",
            &KeyOptions::weight),
      text("quota_group", "text", "Keys of one account upstream, which share its limits.",
           &KeyOptions::quota_group)
          .when_empty("one of its own"),
      yes_or_no("draining", "It is given to no job any more.", &KeyOptions::draining)};
  return kTable;
}

template <class Limited>
void set_limit(Limited& limited, const std::string& key, const std::string& text) {
  if (key == "concurrency") {
    limited.concurrency = settings::parse_count(text, 1);
  } else if (const core::RateKind* rate = core::rate_kind(key)) {
    rate_of(limited.rates, *rate).limit = settings::parse_count(text, 1);
  } else {
    throw ConfigError("limit \"" + key +
                      "\" is not known; there are concurrency, and requests, tokens, input_tokens and "
                      "output_tokens each _per_second, _per_minute and _per_day");
  }
}

template <class Limited>
void set_capacity(Limited& limited, const std::string& key, const std::string& text) {
  const core::RateKind* rate = core::rate_kind(key);
  if (rate == nullptr)
    throw ConfigError("capacity \"" + key + "\" belongs to no limit; name one of those that are given");
  rate_of(limited.rates, *rate).capacity = settings::parse_count(text, 1);
}

template void set_limit(core::BudgetOptions&, const std::string&, const std::string&);
template void set_limit(core::KeyOptions&, const std::string&, const std::string&);
template void set_capacity(core::BudgetOptions&, const std::string&, const std::string&);
template void set_capacity(core::KeyOptions&, const std::string&, const std::string&);

void set_lane_key(LaneOptions& lane, const std::string& key, const std::string& text) {
  set_one(lane_table(), lane, "key of a lane", key, text, {"name"});
}

void set_client_key(ClientOptions& client, const std::string& key, const std::string& text) {
  set_one(client_table(), client, "key of a client", key, text);
}

ClientOptions& client_of(Config& config, const std::string& name) {
  for (ClientOptions& client : config.core.clients)
    if (client.name == name) return client;
  return config.core.clients.emplace_back(ClientOptions{.name = name});
}

namespace {

/// Adds the names of limits to the table's keys, so that a message can suggest them.
std::vector<std::string> with_limits(std::vector<std::string> keys) {
  keys.emplace_back("concurrency");
  for (const core::RateKind& kind : core::rate_kinds())
    keys.emplace_back(kind.name);
  return keys;
}

/// Sets `limits.NAME`, `capacity.NAME` or a bare limit's name; false for any other key.
template <class Limited>
bool set_amount(Limited& limited, const std::string& key, const std::string& text) {
  constexpr std::string_view kLimits = "limits.", kCapacity = "capacity.";
  if (key == "concurrency" || core::rate_kind(key) != nullptr)
    set_limit(limited, key, text);
  else if (key.starts_with(kLimits))
    set_limit(limited, key.substr(kLimits.size()), text);
  else if (key.starts_with(kCapacity))
    set_capacity(limited, key.substr(kCapacity.size()), text);
  else
    return false;
  return true;
}

}  // namespace

void set_budget_key(BudgetOptions& budget, const std::string& key, const std::string& text) {
  if (key == "keys") return set_keys(budget, text);
  if (!set_amount(budget, key, text))
    set_one(budget_table(), budget, "key of a budget", key, text,
            with_limits({"name", "limits", "capacity", "keys"}));
}

void set_key_key(KeyOptions& key, const std::string& name, const std::string& text) {
  if (!set_amount(key, name, text))
    set_one(key_table(), key, "key of an upstream's key", name, text,
            with_limits({"name", "limits", "capacity"}));
}

}  // namespace lanemq::config
