// SPDX-License-Identifier: Apache-2.0
#include "tests/support/store_model.hpp"

#include <stdexcept>

namespace lanemq {
namespace {

void require(bool fits, const char* what, std::uint64_t number) {
  if (!fits) throw std::logic_error(std::string(what) + " " + std::to_string(number));
}

void require(const lanemq::Result<void>& read) {
  if (!read) throw std::logic_error(read.error().message);
}

}  // namespace

void StoreModel::apply(const core::Writes& writes) {
  for (const core::Write& write : writes) {
    const std::string state(writes.state(write)), record(writes.record(write)), body(writes.body(write));
    switch (write.kind) {
      case core::Write::Kind::insert_job:
        require(jobs_.emplace(write.number, Job{state, record, body}).second, "there is a job", write.number);
        break;
      case core::Write::Kind::update_job:
        require(jobs_.contains(write.number), "an update of no job", write.number);
        jobs_[write.number].state = state;
        break;
      case core::Write::Kind::rename_job: {
        auto job = jobs_.extract(write.number);
        require(!job.empty(), "a new name of no job", write.number);
        job.key() = write.renamed;
        job.mapped().state = state;
        require(jobs_.insert(std::move(job)).inserted, "there is a job", write.renamed);
        break;
      }
      case core::Write::Kind::erase_job:
        require(jobs_.erase(write.number) == 1, "an end of no job", write.number);
        break;
      case core::Write::Kind::insert_result:
        require(results_.emplace(write.number, Result{record, body}).second, "there is a result",
                write.number);
        break;
      case core::Write::Kind::erase_result:
        require(results_.erase(write.number) == 1, "an end of no result", write.number);
        break;
      case core::Write::Kind::erase_note:
        require(notes_.erase(state) == 1, "an end of no note", 0);
        break;
      case core::Write::Kind::put_note:
        notes_[state] = record;
        break;
    }
  }
}

core::Restorer::Restored StoreModel::restore(core::Broker& broker, core::TimePoint now,
                                             core::Duration clock_set) const {
  core::Restorer restorer = broker.restorer();
  restorer.clock(clock_set);
  for (const auto& [name, record] : notes_)
    require(restorer.note(name, record, now));
  for (const auto& [number, job] : jobs_) {
    const bool here = job.body.size() <= kBodyReadMax;
    require(restorer.job(number, job.state, job.record,
                         here ? std::optional<std::string_view>(job.body) : std::nullopt, job.body.size(),
                         now));
  }
  for (const auto& [number, result] : results_)
    require(restorer.result(
        number, result.record,
        result.body.size() <= kBodyReadMax ? std::optional<std::string_view>(result.body) : std::nullopt,
        result.body.size(), now));
  const auto restored = restorer.finish(now);
  if (!restored) throw std::runtime_error(restored.error().message);
  return *restored;
}

std::optional<Blob> StoreModel::body(std::uint64_t number) const {
  const auto place = jobs_.find(number);
  if (place == jobs_.end()) return std::nullopt;
  return Blob::copy(place->second.body);
}

core::ResultRead StoreModel::result(std::uint64_t number) const {
  const auto place = results_.find(number);
  if (place == results_.end()) return {number, std::nullopt, {}};
  return {number, std::string_view(place->second.record), Blob::copy(place->second.body)};
}

}  // namespace lanemq
