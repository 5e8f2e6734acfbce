// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/model_faults.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace lanemq::upstream {
namespace {

constexpr auto kMillisecond = std::chrono::milliseconds(1);

/// One kind of piece: its name, the name of its value in the help (empty: it has none), what it does, how it
/// is set.
struct PieceKind {
  std::string_view name;
  std::string_view value;
  std::string_view help;
  void (*set)(ModelFaults&, std::uint64_t);
};

constexpr std::array kPieces = {
    PieceKind{"status", "CODE", "refused with this status, 400 to 599",
              [](ModelFaults& faults, std::uint64_t value) { faults.status = static_cast<unsigned>(value); }},
    PieceKind{"retry", "S", "beside status: retry-after",
              [](ModelFaults& faults, std::uint64_t value) { faults.retry_after_s = value; }},
    PieceKind{"delay", "MS", "the first byte comes after so long, instead of --latency-ms",
              [](ModelFaults& faults, std::uint64_t value) { faults.delay = value * kMillisecond; }},
    PieceKind{"hold", "", "nothing is answered before POST /admin/release has named the model",
              [](ModelFaults& faults, std::uint64_t) { faults.hold = true; }},
    PieceKind{"gap", "MS", "between the deltas of a stream, instead of --token-ms",
              [](ModelFaults& faults, std::uint64_t value) { faults.gap = value * kMillisecond; }},
    PieceKind{"tokens", "N", "the answer has N tokens and a stream as many deltas, if max_tokens allows it",
              [](ModelFaults& faults, std::uint64_t value) { faults.tokens = value; }},
    PieceKind{"no-answer", "", "the connection is reset instead of an answer",
              [](ModelFaults& faults, std::uint64_t) { faults.no_answer = true; }},
    PieceKind{"reset", "B", "the connection is reset after B bytes of the body",
              [](ModelFaults& faults, std::uint64_t value) { faults.reset_bytes = value; }},
    PieceKind{"half", "B", "the connection is closed after B bytes of the body",
              [](ModelFaults& faults, std::uint64_t value) { faults.half_bytes = value; }},
    PieceKind{"eof", "K", "a stream ends after K deltas, without its end",
              [](ModelFaults& faults, std::uint64_t value) { faults.eof_deltas = value; }},
    PieceKind{"error-event", "K", "a stream ends after K deltas with an error event",
              [](ModelFaults& faults, std::uint64_t value) { faults.error_deltas = value; }},
    PieceKind{"stall", "K", "a stream falls silent after K deltas; what is no stream is not answered",
              [](ModelFaults& faults, std::uint64_t value) { faults.stall_deltas = value; }},
    PieceKind{"pause", "K",
              "a stream falls silent after K deltas until POST /admin/release has named the model",
              [](ModelFaults& faults, std::uint64_t value) { faults.pause_deltas = value; }},
    PieceKind{"drip", "B", "B bytes a write",
              [](ModelFaults& faults, std::uint64_t value) { faults.drip = value; }},
    PieceKind{"pings", "", "an event ping before each delta (messages only)",
              [](ModelFaults& faults, std::uint64_t) { faults.pings = true; }},
    PieceKind{"comments", "", "a comment before each delta",
              [](ModelFaults& faults, std::uint64_t) { faults.comments = true; }},
    PieceKind{"crlf", "", "lines of a stream end with CR LF",
              [](ModelFaults& faults, std::uint64_t) { faults.line_end = "\r\n"; }},
    PieceKind{"cr", "", "lines of a stream end with CR",
              [](ModelFaults& faults, std::uint64_t) { faults.line_end = "\r"; }},
    PieceKind{"stamps", "", "each delta's text is when it was sent, in microseconds since 1970, and a space",
              [](ModelFaults& faults, std::uint64_t) { faults.stamps = true; }},
    PieceKind{"first", "N", "all this for the first N calls with the same body only",
              [](ModelFaults& faults, std::uint64_t value) { faults.first = value; }}};

constexpr std::string_view kCode = "code";

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > kFaultCountMax) return std::nullopt;
  return value;
}

ApiError no_piece(std::string_view piece) {
  return {.message = "The model's name asks for \"" + std::string(piece.substr(0, 100)) +
                     "\", which lanemq-upstream does not know; see lanemq-upstream --help.",
          .param = "model",
          .code = "unknown_fault"};
}

bool set_piece(ModelFaults& faults, std::string_view piece) {
  const auto equals = piece.find('=');
  const std::string_view name = piece.substr(0, equals);
  const std::string_view value = equals == piece.npos ? "" : piece.substr(equals + 1);
  if (name == kCode) {
    faults.code = value;
    return !value.empty();
  }
  const auto* const kind = std::find_if(kPieces.begin(), kPieces.end(),
                                        [&](const PieceKind& known) { return known.name == name; });
  if (kind == kPieces.end() || kind->value.empty() != (equals == piece.npos)) return false;
  const auto count = kind->value.empty() ? std::optional<std::uint64_t>(0) : number(value);
  if (!count) return false;
  kind->set(faults, *count);
  return true;
}

bool fits(const ModelFaults& faults) {
  const bool status_fits = faults.status == 0 || (400 <= faults.status && faults.status <= 599);
  return status_fits && faults.delay.value_or(Duration::zero()) <= kFaultWaitMax &&
         faults.gap.value_or(Duration::zero()) <= kFaultWaitMax;
}

}  // namespace

tl::expected<ModelFaults, ApiError> parse_model_faults(std::string_view model) {
  ModelFaults faults;
  for (auto plus = model.find('+'); plus != model.npos; plus = model.find('+')) {
    model.remove_prefix(plus + 1);
    const std::string_view piece = model.substr(0, model.find('+'));
    if (!set_piece(faults, piece) || !fits(faults)) return tl::unexpected(no_piece(piece));
  }
  return faults;
}

std::string model_faults_help() {
  std::string help;
  const auto add = [&](std::string_view name, std::string_view value, std::string_view what) {
    std::string piece = "  +" + std::string(name) + (value.empty() ? "" : "=") + std::string(value);
    piece.resize(std::max<std::size_t>(piece.size() + 1, 18), ' ');
    help += piece + std::string(what) + "\n";
  };
  for (const PieceKind& kind : kPieces) {
    add(kind.name, kind.value, kind.help);
    if (kind.name == "retry")
      add(kCode, "NAME", "beside status: the error's code, or Anthropic's type of it");
  }
  return help;
}

}  // namespace lanemq::upstream
