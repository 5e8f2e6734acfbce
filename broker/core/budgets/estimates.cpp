// SPDX-License-Identifier: Apache-2.0
#include "broker/core/budgets/estimates.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "broker/core/budgets/body_estimate.hpp"

namespace lanemq::core {
namespace {

constexpr double kLearning = 0.1;
constexpr double kRatioMin = 0.5, kRatioMax = 3;
/// Bound of the ratio of sums: what a file has that is named by its id is known only from the answer. Many
/// short requests, to which the upstream adds something of its own, move it little.
constexpr double kSumsRatioMax = 64;
/// With fewer samples the more general series is used.
constexpr std::uint32_t kSamplesMin = 5;
/// With fewer samples an estimate of the input has a margin.
constexpr std::uint32_t kSamplesSure = 20;
constexpr double kSpareUnsure = 1.1;
/// After this many answers all older ones count half.
constexpr std::uint32_t kOutputsMax = 1000;
constexpr std::int64_t kTokensMax = 1'000'000'000;

std::size_t class_of(std::int64_t tokens) {
  return static_cast<std::size_t>(std::log2(static_cast<double>(std::max<std::int64_t>(tokens, 1))) * 4);
}

}  // namespace

std::optional<wire::Cost> word_of(std::optional<wire::Cost> stated, std::string_view body) {
  if (stated && !is_json(body)) stated->certain = wire::Cost::kInput | wire::Cost::kOutput;
  return stated;
}

void raise_to(const std::optional<wire::Cost>& stated, Amounts& amounts) {
  if (!stated) return;
  const auto raise = [](std::int64_t& amount, const std::optional<std::int64_t>& said) {
    if (said) amount = std::max(amount, std::min(*said, kTokensMax));
  };
  raise(amounts.input_tokens, stated->input_tokens);
  raise(amounts.output_tokens, stated->output_tokens);
}

void Estimates::Series::learn_input(double used, double guessed) {
  // The first samples weigh more: a mean, until the moving one takes over.
  const double weight = std::max(kLearning, 1.0 / (samples + 1));
  ratio += weight * (std::clamp(used / guessed, kRatioMin, kRatioMax) - ratio);
  actual += weight * (std::min(used, guessed * kSumsRatioMax) - actual);
  raw += weight * (guessed - raw);
  if (samples < kSamplesSure) ++samples;
}

/// Where jobs are of several kinds, the sum of the estimates is right by the ratio of sums.
double Estimates::Series::correction() const {
  return raw > 0 ? std::max(ratio, actual / raw) : ratio;
}

void Estimates::Series::learn_output(std::int64_t tokens) {
  ++classes[std::min(class_of(tokens), kClasses - 1)];
  if (++outputs < kOutputsMax) return;
  outputs = 0;
  for (std::uint16_t& count : classes)
    outputs += count /= 2;
}

std::int64_t Estimates::Series::output_p90() const {
  std::uint32_t above = outputs / 10;
  for (std::size_t i = kClasses; i-- > 0;) {
    if (classes[i] > above) return static_cast<std::int64_t>(std::exp2(static_cast<double>(i + 1) / 4));
    above -= classes[i];
  }
  return 0;
}

const std::string& Estimates::key(std::string_view model, std::string_view client) const {
  key_.assign(model);
  key_ += '\0';
  return key_.append(client);
}

const Estimates::Series* Estimates::find(std::string_view model, std::string_view client) const {
  const auto place = series_.find(key(model, client));
  return place == series_.end() ? nullptr : &place->second;
}

/// Drops one series for a new one; false where the present ones are worth more. Of new clients one in
/// kNewcomersTried gets in: so where more clients call than there is room for, those that call often stay
/// long enough to be learned.
bool Estimates::make_way(bool for_client) {
  if (for_client && (clients_.empty() || ++newcomers_ % kNewcomersTried != 0)) return false;
  List& list = clients_.empty() ? models_ : clients_;
  const Series& oldest = *list.pop_front();
  series_.erase(*oldest.name);
  return true;
}

/// The series to learn into; null where there is no room.
Estimates::Series* Estimates::series(std::string_view model, std::string_view client) {
  const auto known = series_.find(key(model, client));
  if (known != series_.end()) {
    Series& series = known->second;
    list_of(series).remove(series);
    list_of(series).push_back(series);
    return &series;
  }
  if (series_.size() >= kSeriesMax && !make_way(!client.empty())) return nullptr;
  const auto place = series_.try_emplace(key_).first;
  Series& series = place->second;
  series.of_client = !client.empty();
  series.name = &place->first;
  list_of(series).push_back(series);
  return &series;
}

Estimate Estimates::estimate(std::string_view model, std::string_view client, const Guess& guess) const {
  Estimate estimate;
  const Series* const of_client = client.empty() ? nullptr : find(model, client);
  const Series* const of_model = find(model, {});
  const Series* const input =
      of_client != nullptr && of_client->samples >= kSamplesMin ? of_client : of_model;
  const bool unsure = input == nullptr || input->samples < kSamplesSure;
  const double ratio = (input != nullptr ? input->correction() : 1) * (unsure ? kSpareUnsure : 1);
  estimate.amounts.input_tokens =
      static_cast<std::int64_t>(static_cast<double>(guess.input_tokens) * (guess.learned_from ? ratio : 1));
  if (guess.learned_from)
    estimate.raw_input = static_cast<std::uint32_t>(
        std::min<std::int64_t>(guess.input_tokens, std::numeric_limits<std::uint32_t>::max()));
  const Series* const output =
      of_client != nullptr && of_client->outputs >= kSamplesMin ? of_client : of_model;
  const bool known = output != nullptr && output->outputs >= kSamplesMin;
  estimate.rough = unsure || !known || !guess.learned_from;
  const std::int64_t likely = known ? output->output_p90() : output_default_;
  if (guess.max_output) estimate.output_bound = std::min(*guess.max_output, kTokensMax);
  // Where the client gave a bound the upstream may count the bound; else typical answers count.
  estimate.amounts.output_tokens =
      guess.max_output ? (known ? std::min(*guess.max_output, likely) : *guess.max_output) : likely;
  return estimate;
}

/// The client's known cost replaces the estimate.
void Estimates::put_known(const std::optional<wire::Cost>& stated, Estimate& estimate) {
  if (stated && stated->knows_input()) {
    estimate.amounts.input_tokens = *stated->input_tokens;
    estimate.raw_input = 0;
  }
  if (stated && stated->knows_output()) {
    estimate.amounts.output_tokens = *stated->output_tokens;
    estimate.output_bound.reset();
  }
  estimate.amounts.input_tokens = std::min(estimate.amounts.input_tokens, kTokensMax);
  estimate.amounts.output_tokens = std::min(estimate.amounts.output_tokens, kTokensMax);
}

Estimate Estimates::estimate(std::string_view model, std::string_view client, std::string_view body,
                             const std::optional<wire::Cost>& stated) const {
  Estimate result;
  if (!stated || !stated->knows_input() || !stated->knows_output()) {
    const BodyEstimate seen = estimate_body(body);
    result = estimate(
        model, client,
        Guess{.input_tokens = seen.text_tokens + seen.media * media_tokens_, .max_output = seen.max_output});
  }
  put_known(stated, result);
  return result;
}

Estimate Estimates::estimate(std::string_view model, std::string_view client, std::int64_t tokens,
                             const std::optional<wire::Cost>& stated) const {
  Estimate result =
      estimate(model, client, Guess{.input_tokens = tokens, .max_output = {}, .learned_from = false});
  put_known(stated, result);
  return result;
}

void Estimates::learn(std::string_view model, std::string_view client, std::uint32_t raw_input,
                      const wire::Usage& usage) {
  if (usage.input_tokens == 0 && usage.output_tokens == 0) return;
  const auto learn_in = [&](Series* series) {
    if (series == nullptr) return;
    if (raw_input > 0 && usage.input_tokens.value_or(0) > 0)
      series->learn_input(static_cast<double>(*usage.input_tokens), raw_input);
    if (usage.output_tokens) series->learn_output(*usage.output_tokens);
  };
  learn_in(series(model, {}));
  if (!client.empty()) learn_in(series(model, client));
}

}  // namespace lanemq::core
