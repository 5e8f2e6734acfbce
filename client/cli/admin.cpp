// SPDX-License-Identifier: Apache-2.0
#include <lanemq/admin_table.hpp>
#include <lanemq/limits.hpp>

#include "client/cli/admin_text.hpp"
#include "client/cli/broker_link.hpp"
#include "client/cli/commands.hpp"
#include "client/cli/terminal.hpp"

namespace lanemq::cli {

std::optional<std::string> ask_operator(Client& client, const Common& common, AdminRequest request,
                                        std::size_t rows_max, bool json, int& code) {
  std::string document;
  for (std::optional<std::int64_t> from = 0; from;) {
    request.from = *from;
    std::future<Reply<AdminDocument>> pending = client.admin(request);
    const std::optional<Reply<AdminDocument>> reply = wait_for(pending, client, common);
    if (!reply || !*reply) {
      code = reply ? end_refused(reply->error(), json) : end_unreached(common, json);
      return std::nullopt;
    }
    if (rows_max == kNoList) return (*reply)->json;
    from = add_admin_page(document, (*reply)->json, request.verb, rows_max, *from);
  }
  return document;
}

namespace {

bool names_any(const AdminRequest& request) {
  return !request.id.empty() || !request.lane.empty() || !request.service.empty() ||
         !request.client.empty() || !request.model.empty() || !request.code.empty();
}

/// Dead jobs run again, or are forgotten, so many in one answer.
std::optional<std::string> change_dead(Client& client, const Common& common, AdminRequest request, bool json,
                                       int& code) {
  std::string document;
  for (std::optional<std::int64_t> from = 0; from;) {
    request.from = *from;
    const std::optional<std::string> answer = ask_operator(client, common, request, kNoList, json, code);
    if (!answer) return std::nullopt;
    from = add_dead_change(document, *answer);
  }
  return document;
}

}  // namespace

int admin(const Common& common, const AdminOptions& options) {
  const bool changes_dead = options.request.verb == name_of(AdminVerb::redrive) ||
                            options.request.verb == name_of(AdminVerb::purge);
  // Nothing that was left out by mistake is taken for all.
  if (changes_dead && !options.all_dead && !names_any(options.request)) {
    say("which dead jobs? give an id, a filter such as --code, or --all; --dry-run says which it would be");
    return kExitUsage;
  }
  Client client(client_options(common));
  AdminRequest request = options.request;
  if (options.rows_max > 0 && options.rows_max < limits::page_rows_max)
    request.limit = static_cast<std::int64_t>(options.rows_max);
  int code = kExitDone;
  const std::optional<std::string> answer =
      changes_dead ? change_dead(client, common, request, options.json, code)
                   : ask_operator(client, common, request, options.rows_max, options.json, code);
  if (!answer) return code;
  const std::optional<std::string> text =
      options.json ? *answer + "\n" : admin_text(request.verb, *answer, output_takes_colour());
  if (!text) {
    say("the broker's answer cannot be read; see it with --json");
    return kExitFailed;
  }
  if (!put(*text)) return kExitFailed;
  if (!options.json && options.rows_max > 0 && options.rows_max != kNoList &&
      answer->find("\"next\":") != std::string::npos)
    say("there may be more; --limit 0 lists all");
  return kExitDone;
}

}  // namespace lanemq::cli
