// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/messages.hpp>

namespace lanemq {

// The table of operators' requests with the op `admin`: X(verb, required fields, optional fields, meaning).
// The enumeration, the checks, the texts of refusals and docs/protocol/operating.md are made from it. A new
// verb is a row here and a case in broker/core/desks/operator_desk.cpp; a new field is one in AdminQuery and
// in the table of fields.
#define LANEMQ_ADMIN_TABLE(X)                                                                          \
  X(jobs, "", "lane service client model group state from limit",                                      \
    "list the jobs that are not over, or those of one state")                                          \
  X(job, "id", "", "all that is known of one job")                                                     \
  X(lanes, "", "from limit", "list the lanes with their settings")                                     \
  X(services, "", "from limit", "list the services that jobs or workers named")                        \
  X(workers, "", "service from limit", "list the workers")                                             \
  X(clients, "", "from limit top", "list the clients that have jobs, or had some lately")              \
  X(budgets, "", "name key service client model lane state from limit",                                \
    "list the budgets, each before its keys, with what is left of their limits")                       \
  X(dead, "", "id lane service client model code from limit",                                          \
    "list the jobs that failed or ran out of time, the oldest first")                                  \
  X(redrive, "", "id lane service client model code from limit dry_run", "run dead jobs again")        \
  X(purge, "", "id lane service client model code from limit dry_run", "forget dead jobs")             \
  X(pauses, "", "from limit", "list what is paused")                                                   \
  X(config, "", "from limit", "list the options with their values, and where each was set")            \
  X(changes, "", "from limit", "list what operators have changed and by whom, the newest first")       \
  X(pause, "what name", "reason dry_run", "hand over no job of a lane, service, client or budget")     \
  X(resume, "what name", "dry_run", "take a pause back, or the drain of a worker")                     \
  X(drain, "name", "dry_run", "hand over no job to a worker, or to all workers of that name")          \
  X(move, "id lane", "dry_run", "put a job that waits into another lane, at the place of its arrival") \
  X(limit, "name setting value", "key dry_run", "change a limit of a budget, or of one of its keys")   \
  X(lane, "name setting value", "dry_run", "change a setting of a lane")                               \
  X(backup, "path", "", "copy the store to a new file on the broker's machine, while it goes on")      \
  X(reload, "", "dry_run", "read the configuration again, and say what that changes")                  \
  X(plugin, "", "name value dry_run", "list the broker's plugins, or switch one on or off")            \
  X(handover, "", "dry_run", "end, so that a broker that waits for the same store goes on")

enum class AdminVerb : unsigned char {
#define LANEMQ_ADMIN_ENUMERATOR(verb, needs, takes, meaning) verb,
  LANEMQ_ADMIN_TABLE(LANEMQ_ADMIN_ENUMERATOR)
#undef LANEMQ_ADMIN_ENUMERATOR
};

/// One row of the table.
struct AdminInfo {
  AdminVerb verb;
  std::string_view name;   ///< the field `do` on the wire
  std::string_view needs;  ///< fields, with a space between them
  std::string_view takes;  ///< optional fields
  std::string_view meaning;
};

/// The names in a text of AdminInfo, which has a space between them.
std::vector<std::string_view> fields_of(std::string_view names);
/// All rows, in the order of the enumeration.
std::span<const AdminInfo> admin_table();
std::string_view name_of(AdminVerb verb);
/// The row of a query's verb; null: unknown.
const AdminInfo* admin_info(const wire::AdminQuery& query);

/// What the table finds wrong with a query, for people: an unknown verb, a missing field, or one without
/// effect. Empty: nothing.
std::optional<std::string> admin_fault(const wire::AdminQuery& query);

}  // namespace lanemq
