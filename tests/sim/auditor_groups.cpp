// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

#include "tests/sim/auditor.hpp"

// Groups of jobs, and who follows them.

namespace lanemq::sim {
// ---- what becomes of groups ---------------------------------------------------------------------------

bool Auditor::begins_anew(const ModelGroup& group, std::int64_t size) {
  return group.over || (group.open == 0 && group.size != 0 && size != 0 && size != group.size);
}

/// Whether a submit may not join the group that it names.
bool Auditor::group_refuses(const ModelJob& job) const {
  const auto place = groups_.find(job.group);
  if (job.group.empty() || place == groups_.end()) return false;
  const ModelGroup& group = place->second;
  if (begins_anew(group, job.group_size)) return false;
  if (job.group_size != 0 && group.size != 0 && job.group_size != group.size) return true;
  const std::int64_t most = group.size != 0 ? group.size : job.group_size;
  return most != 0 && group.open + group.ended() >= most;
}

void Auditor::join_group(const ModelJob& job, bool again) {
  if (job.group.empty()) return;
  ModelGroup& group = groups_[job.group];
  const std::int64_t size = again ? 0 : job.group_size;
  if (begins_anew(group, size)) group = {};
  if (group.size == 0)
    group.size = size;
  else if (again)
    ++group.size;
  ++group.open;
}

void Auditor::leave_group(const ModelJob& job) {
  if (job.group.empty()) return;
  ModelGroup& group = groups_[job.group];
  --group.open;
  ++(job.code == "result"      ? group.succeeded
     : job.code == "cancelled" ? group.cancelled
     : job.code == "deadline"  ? group.expired
                               : group.failed);
  if (job.dead) ++group.died;
  group.changed_at = now_;
  // Nothing joins it in a step in which jobs end, so it is over at its end or was not.
  if (group.open == 0 && group.ended() >= group.size) group.over = true;
  if (group.over) over_.insert(job.group);
}

/// The account of bytes has them, too. Those that are over may have made way.
Auditor::Bytes Auditor::bytes_of_groups() const {
  Bytes all;
  for (const auto& [name, group] : groups_)
    all += Bytes{group.over ? 0 : name.size(), name.size() + kGroupMost};
  return all;
}

// ---- who follows --------------------------------------------------------------------------------------

void Auditor::on(const std::string& address, const wire::Watch& watch) {
  addresses_.insert(address);
  const auto key = std::pair(address, ref_number(watch.ref).value_or(0));
  watching_due_ = key.second;
  if (watch.stop) {
    watches_.erase(key);
    return;
  }
  const auto [place, fresh] = watches_.try_emplace(key);
  if (!fresh) return;
  place->second.group = watch.group;
  const auto group = groups_.find(place->second.group);
  if (group != groups_.end() && group->second.over) place->second.late = true;
}

bool Auditor::is_of_watch(const std::string& address, wire::Raw ref) const {
  return watches_.contains({address, ref_number(ref).value_or(0)});
}

void Auditor::seen_by(const std::string& address, const wire::Seen& seen) {
  ModelWatch& watch = watches_.at({address, ref_number(seen.ref).value_or(0)});
  watch.taken = std::clamp(seen.seq, watch.taken, watch.next - 1);
}

void Auditor::heard_event(const std::string& address, const wire::JobEvent& event) {
  const auto place = watches_.find({address, ref_number(event.ref).value_or(0)});
  if (place == watches_.end()) violated("an event came to who follows nothing");
  ModelWatch& watch = place->second;
  if (event.seq != watch.next++) violated("an event has a number that is not its turn");
  if (event.gap) watch.full = true;
  const std::string group(event.group);
  if (event.what != "group_over") {
    if (!watch.group.empty() && group != watch.group)
      violated("who follows group " + watch.group + " hears of a job of another");
    if (watch.heard.contains(group) && event.what == "ended")
      violated("a job of group " + group + " ended behind the end of the group");
    return;
  }
  if (event.incomplete) {
    const auto known = groups_.find(group);
    if (known != groups_.end() && known->second.over)
      violated("group " + group + " is over, and was given up");
    return;
  }
  const ModelGroup heard{.succeeded = event.succeeded,
                         .failed = event.failed,
                         .cancelled = event.cancelled,
                         .expired = event.expired,
                         .died = event.died};
  if (!watch.heard.emplace(group, heard).second) violated("group " + group + " is said to be over twice");
}

/// Who follows a group, or all jobs, heard of each that is over since this step, and of no other.
void Auditor::check_groups() {
  if (watching_due_ != 0) violated("a watch was not answered");
  for (auto& [key, watch] : watches_) {
    // It may have been left out where there was no room.
    if (watch.next - 1 - watch.taken >= static_cast<std::int64_t>(limits::watch_events_max))
      watch.full = true;
    for (const auto& [name, heard] : watch.heard) {
      const bool late = watch.late && name == watch.group;
      const bool due = late || (over_.contains(name) && (watch.group.empty() || watch.group == name));
      const ModelGroup& group = groups_[name];
      if (!due || !group.over) violated("group " + name + " is said to be over, and is not");
      if (heard.succeeded != group.succeeded || heard.failed != group.failed ||
          heard.cancelled != group.cancelled || heard.expired != group.expired || heard.died != group.died)
        violated("group " + name + " is over with other ends than are said");
    }
    const bool one_late = watch.late && !watch.heard.contains(watch.group);
    const bool one_due = std::any_of(over_.begin(), over_.end(), [&](const std::string& name) {
      return (watch.group.empty() || watch.group == name) && !watch.heard.contains(name);
    });
    // What is over may have made way before anybody asked.
    const bool forgotten = options_.memory_max < kBytesNeverReached;
    if (!watch.full && ((one_late && !forgotten) || one_due))
      violated("a follower was not told that a group is over");
    watch.heard.clear();
    watch.late = watch.full = false;
  }
  over_.clear();
  if (!advancing_) return;
  std::erase_if(groups_, [&](const auto& entry) {
    return entry.second.open == 0 && is_due(entry.second.changed_at + options_.retain);
  });
}

}  // namespace lanemq::sim
