// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/postgres/net_writes.hpp"

namespace lanemq::io {

using core::Write;
using core::Writes;

void WriteReducer::add(const Writes& writes) {
  for (const Write& write : writes)
    add(writes, write);
}

/// The row that has this number now; one of which nothing is known yet is in the table.
WriteReducer::Job& WriteReducer::job_of(std::uint64_t number) {
  const auto [place, is_new] = job_at_.try_emplace(number, jobs_.size());
  if (is_new) jobs_.push_back({.before = number, .number = number, .state = {}, .record = {}, .body = {}});
  return jobs_[place->second];
}

void WriteReducer::add(const Writes& writes, const Write& write) {
  const std::uint64_t number = write.number;
  switch (write.kind) {
    case Write::Kind::insert_job:
      job_at_[number] = jobs_.size();
      jobs_.push_back({.number = number,
                       .state = writes.state(write),
                       .record = writes.record(write),
                       .body = writes.body(write),
                       .is_new = true});
      return;
    case Write::Kind::update_job:
      job_of(number).state = writes.state(write);
      return;
    case Write::Kind::rename_job: {
      Job& job = job_of(number);
      job.number = write.renamed;
      job.state = writes.state(write);
      job_at_[write.renamed] = static_cast<std::size_t>(&job - jobs_.data());
      job_at_.erase(number);
      return;
    }
    case Write::Kind::erase_job:
      job_of(number).erased = true;
      return;
    case Write::Kind::insert_result:
      return add_result(number, writes.record(write), writes.body(write), true);
    case Write::Kind::erase_result:
      return add_result(number, {}, {}, false);
    case Write::Kind::put_note:
      return add_note(writes.state(write), writes.record(write), false);
    case Write::Kind::erase_note:
      return add_note(writes.state(write), {}, true);
  }
}

void WriteReducer::add_result(std::uint64_t number, std::string_view record, std::string_view body,
                              bool inserts) {
  const auto [place, is_new] = result_at_.try_emplace(number, results_.size());
  if (is_new) results_.push_back({.number = number, .record = {}, .body = {}, .was_stored = !inserts});
  Result& result = results_[place->second];
  result.is_there = inserts;
  result.record = record;
  result.body = body;
}

void WriteReducer::add_note(std::string_view name, std::string_view record, bool erases) {
  const auto [place, is_new] = note_at_.try_emplace(name, notes_.size());
  if (is_new) notes_.push_back({.name = name, .record = {}});
  notes_[place->second].record = record;
  notes_[place->second].erased = erases;
}

NetWrites WriteReducer::net() const {
  NetWrites net;
  for (const Job& job : jobs_) {
    if (job.erased) {
      if (!job.is_new) net.erased_jobs.push_back(job.before);
    } else if (job.is_new) {
      net.new_jobs.push_back(
          {.number = job.number, .state = job.state, .record = job.record, .body = job.body});
    } else {
      net.changed_jobs.push_back({.number = job.before, .renamed = job.number, .state = job.state});
    }
  }
  for (const Result& result : results_) {
    if (result.was_stored) net.erased_results.push_back(result.number);
    if (result.is_there)
      net.new_results.push_back({.number = result.number, .record = result.record, .body = result.body});
  }
  for (const Note& note : notes_) {
    if (note.erased)
      net.erased_notes.push_back(note.name);
    else
      net.put_notes.push_back({.name = note.name, .record = note.record});
  }
  return net;
}

}  // namespace lanemq::io
