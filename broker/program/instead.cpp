// SPDX-License-Identifier: Apache-2.0
#include "broker/program/instead.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

#include <lanemq/text.hpp>

#include "broker/config/settings.hpp"
#include "broker/io/offline/store_check.hpp"
#include "broker/io/offline/store_copy.hpp"
#include "broker/io/offline/store_fence.hpp"
#include "broker/io/offline/store_move.hpp"
#include "broker/io/store/open/open_store.hpp"
#include "broker/program/store_choice.hpp"
#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq::program {
namespace {

void check_store(const Config& config) {
  const auto summary = io::check_store(store_options(config));
  if (!summary) refuse_store(summary.error());
  std::cout << io::to_text(*summary);
}

void fence_store(const Config& config) {
  const auto fenced = io::fence_store(store_options(config));
  if (!fenced) refuse_store(fenced.error());
  std::cout << fenced->store << ": epoch " << fenced->before
            << (fenced->owner.empty() ? "" : " of \"" + printable(fenced->owner) + '"') << " is "
            << fenced->after
            << " now; no owner from before can commit, and whoever waits or starts goes on\n";
}

void copy_store(const Config& config, const std::string& to) {
  const io::StoreOptions from = store_options(config);
  io::StoreOptions target = from;
  target.specification = to;
  const auto copied = io::copy_store(from, target);
  if (!copied) refuse_store(copied.error());
  std::cout << "copied " << copied->jobs << " jobs, " << copied->results << " results and " << copied->notes
            << " notes\n";
}

/// The value of a flag that counts once; empty: it was not given.
std::string value_of(const settings::Asked& asked, const char* flag) {
  const auto given = asked.flags.find(flag);
  return given == asked.flags.end() ? "" : given->second.back();
}

/// A word for a shell.
std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=.:/@%+,";
  if (word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + '\'';
}

/// Reads `tenant=NAME` or `service=NAME` into the order.
void set_scope(const std::string& what, io::MoveOrder& order) {
  const std::size_t equals = std::min(what.find('='), what.size());
  const std::string kind = what.substr(0, equals), name = what.substr(std::min(equals + 1, what.size()));
  if ((kind != "tenant" && kind != "service") || name.empty())
    throw ConfigError("--move \"" + printable(what, 64) +
                      "\" is not understood; write tenant=NAME or service=NAME");
  (kind == "tenant" ? order.scope.tenant : order.scope.service) = name;
  order.what = kind + " \"" + printable(name) + '"';
}

/// The same order as a command, whatever folder it is said in.
std::string command_of(const io::MoveOrder& order, const Config& config, const settings::Asked& asked) {
  std::string command = "lanemq-broker";
  const auto add = [&](const char* flag, const std::string& value) {
    command += std::string(" ") + flag + " " + quoted(value);
  };
  const auto store = [](const io::StoreOptions& options) {
    const auto path = io::path_of_store(options);
    return path ? "sqlite:" + *path : options.specification;
  };
  if (!asked.file.empty()) add("--config", std::filesystem::absolute(asked.file).string());
  if (!config.core.shard.empty()) add("--shard", config.core.shard);
  add("--store", store(order.from));
  if (io::has_owners(order.from)) add("--store-schema", order.from.schema);
  add("--move", value_of(asked, "--move"));
  add("--to", store(order.to));
  if (io::has_owners(order.to)) add("--to-schema", order.to.schema);
  return command;
}

void move_rows(const Config& config, const settings::Asked& asked) {
  io::MoveOrder order;
  order.from = order.to = store_options(config);
  order.to.specification = value_of(asked, "--to");
  if (order.to.specification.empty())
    throw ConfigError("--move needs to know where to; name the store with --to");
  if (!io::path_of_store(order.to) && !io::has_owners(order.to))
    throw ConfigError("--to \"" + printable(order.to.specification, 64) +
                      "\" names no store that keeps anything; write sqlite:PATH or postgres:CONNINFO" +
                      (order.to.specification == "memory"
                           ? ""
                           : ", as in --to sqlite:" + printable(order.to.specification, 64)));
  if (const std::string schema = value_of(asked, "--to-schema"); !schema.empty()) order.to.schema = schema;
  io::ignore_environment_of_store(order.to);
  set_scope(value_of(asked, "--move"), order);
  order.scope.clients = config.core.clients;
  order.scope.shards = core::shards_for_clients(config.core);
  order.scope.webhook_service = config.core.webhook_service;
  order.shard = config.core.shard;
  // The budget that would count the scope alone.
  core::BudgetOptions of_scope;
  of_scope.service = order.scope.service;
  of_scope.tenant = order.scope.tenant;
  order.shards = config::shards_of(of_scope, config.core.shards);
  order.rows_max = config.core.jobs_max;
  order.command = settings::without_secrets(command_of(order, config, asked));
  const auto moved = io::move_rows(order);
  if (!moved) refuse_store(moved.error());
  const auto& counts = moved->counts;
  const std::uint64_t went = counts.jobs + counts.dead + counts.results + counts.groups;
  std::cout << (moved->went_on ? "went on, and moved " : "moved ") << counts.jobs << " jobs, " << counts.dead
            << " dead jobs, " << counts.results << " results and " << counts.groups << " groups of "
            << order.what << "; copied the history of " << counts.budgets << " limits"
            << (went > 0 ? ""
                         : "; it has gone before: the store to move to has " + std::to_string(counts.there) +
                               " of its jobs and results")
            << "\n";
}

}  // namespace

bool do_instead(const Config& config, const settings::Asked& asked) {
  if (asked.flags.contains("--check-store")) return check_store(config), true;
  if (asked.flags.contains("--fence")) return fence_store(config), true;
  if (asked.flags.contains("--move")) return move_rows(config, asked), true;
  for (const char* const flag : {"--to", "--to-schema"})
    if (asked.flags.contains(flag)) throw ConfigError(std::string(flag) + " means nothing without --move");
  const auto copy = asked.flags.find("--copy-store");
  if (copy == asked.flags.end()) return false;
  copy_store(config, copy->second.front());
  return true;
}

}  // namespace lanemq::program
