// SPDX-License-Identifier: Apache-2.0
#include "client/cli/simulate/trace_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <optional>
#include <string_view>

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

namespace lanemq::cli {
namespace {

using std::chrono::microseconds;

/// The fields of a request, in the order of kColumns.
enum class TraceColumn : unsigned char {
  timestamp,
  input_tokens,
  output_tokens,
  lane,
  service,
  client,
  model
};
constexpr std::array<std::string_view, 7> kColumns = {
    "TIMESTAMP", "ContextTokens", "GeneratedTokens", "LANE", "SERVICE", "CLIENT", "MODEL"};
constexpr std::size_t kColumnsRequired = 3;
std::string column_name(TraceColumn column) {
  return std::string(kColumns[static_cast<std::size_t>(column)]);
}

/// The largest time of a trace in plain seconds.
constexpr double kSecondsMax = 1e10;

/// Reads exactly `digits` digits from the front of `text`.
std::optional<int> take_digits(std::string_view& text, std::size_t digits) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  for (const char digit : text.substr(0, digits)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + (digit - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take_one(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

/// The digits behind a decimal point, in us.
std::optional<microseconds> take_fraction(std::string_view& text) {
  if (!take_one(text, ".")) return microseconds(0);
  std::int64_t value = 0, unit = 100'000;
  std::size_t digits = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++digits, unit /= 10)
    value += (text[0] - '0') * unit;
  if (digits == 0) return std::nullopt;
  return microseconds(value);
}

/// `2023-11-16 18:15:46.6805900`, also with a T in the middle or a Z at the end.
std::optional<microseconds> date_and_time(std::string_view text) {
  const auto year = take_digits(text, 4);
  if (!year || !take_one(text, "-")) return std::nullopt;
  const auto month = take_digits(text, 2);
  if (!month || !take_one(text, "-")) return std::nullopt;
  const auto day = take_digits(text, 2);
  if (!day || !take_one(text, " T")) return std::nullopt;
  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take_one(text, ":")) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59 || !take_one(text, ":")) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 59) return std::nullopt;
  const auto fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  take_one(text, "Z");
  const std::chrono::year_month_day date(std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day)));
  if (!text.empty() || !date.ok()) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second) + *fraction;
}

std::optional<microseconds> seconds_of(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool is_time = error == std::errc() && end == text.data() + text.size() && seconds >= 0;
  if (!is_time || seconds > kSecondsMax) return std::nullopt;
  return microseconds(std::llround(seconds * 1e6));
}

/// Splits a line into fields; false: a quote is not closed, or text follows it.
bool split_fields(std::string_view line, std::vector<std::string>& fields) {
  fields.clear();
  while (true) {
    std::string& field = fields.emplace_back();
    if (take_one(line, "\"")) {
      while (true) {
        const std::size_t quote = line.find('"');
        if (quote == std::string_view::npos) return false;
        field += line.substr(0, quote);
        line.remove_prefix(quote + 1);
        if (!take_one(line, "\"")) break;
        field += '"';
      }
    } else {
      field = line.substr(0, line.find(','));
      line.remove_prefix(field.size());
    }
    if (line.empty()) return true;
    if (!take_one(line, ",")) return false;
  }
}

class TraceReader {
 public:
  TraceReader(std::istream& in, const std::string& file, const TraceOptions& options)
      : in_(in), file_(file), options_(options), line_(kTraceLineBytesMax + 2) {}

  Trace read() {
    while (next_line() && !fields_read_) {
    }
    if (!fields_read_)
      throw TraceError(printable(file_) + " is empty; its first line is a header such as " +
                       columns_required());
    read_header();
    while (next_line())
      if (fields_read_) add_request();
    if (trace_.requests.empty())
      throw TraceError(printable(file_) + " has a header and no requests; write one in each line below it");
    put_in_order();
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw TraceError(printable(file_) + ":" + std::to_string(line_number_) + ": " + what);
  }

  static std::string columns_required() {
    return column_name(TraceColumn::timestamp) + "," + column_name(TraceColumn::input_tokens) + "," +
           column_name(TraceColumn::output_tokens);
  }

  /// Reads a line; an empty one has no fields. False: the end of the file.
  bool next_line() {
    fields_read_ = false;
    in_.getline(line_.data(), static_cast<std::streamsize>(line_.size()));
    if (in_.bad())
      throw TraceError(printable(file_) + " cannot be read; name a CSV file, or - for the standard input");
    std::string_view line(line_.data());
    const auto got = static_cast<std::size_t>(in_.gcount());
    if (in_.eof() && got == 0) return false;
    ++line_number_;
    if (in_.fail())
      fail("the line has more than " + std::to_string(kTraceLineBytesMax) +
           " bytes; a request is one short line");
    // getline's count includes the line end; a NUL would hide the text behind it.
    if (line.size() + (in_.eof() ? 0 : 1) != got) fail("the line has a NUL byte; a trace is a text file");
    if (line_number_ == 1 && line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) return true;
    if (!split_fields(line, fields_))
      fail("a quoted field does not end before the line or the next comma; write a quote inside it twice");
    return fields_read_ = true;
  }

  void read_header() {
    columns_ = fields_.size();
    for (std::size_t i = 0; i < kColumns.size(); ++i) {
      const auto is_column = [&](const std::string& name) { return name == kColumns[i]; };
      const auto place = std::find_if(fields_.begin(), fields_.end(), is_column);
      const std::string name(kColumns[i]);
      if (place == fields_.end()) {
        if (i < kColumnsRequired)
          fail("column " + name + " is missing; the header names at least " + columns_required());
        continue;
      }
      if (std::find_if(place + 1, fields_.end(), is_column) != fields_.end())
        fail("column " + name + " is there twice; name it once");
      place_[i] = static_cast<std::size_t>(place - fields_.begin());
    }
  }

  void add_request() {
    if (fields_.size() != columns_)
      fail("the line has " + std::to_string(fields_.size()) + " fields and the header " +
           std::to_string(columns_) + "; write as many");
    if (trace_.requests.size() == kTraceRequestsMax)
      fail("there are more than " + std::to_string(kTraceRequestsMax) +
           " requests; cut the trace into parts");
    whatif::Request request;
    request.at = time();
    request.input_tokens = tokens(TraceColumn::input_tokens);
    request.output_tokens = tokens(TraceColumn::output_tokens);
    request.lane = lane_name();
    request.model = name(TraceColumn::model);
    if (const std::string_view given = name(TraceColumn::service); !given.empty()) request.service = given;
    if (const std::string_view given = name(TraceColumn::client); !given.empty()) request.client = given;
    trace_.was_sorted =
        trace_.was_sorted && (trace_.requests.empty() || trace_.requests.back().at <= request.at);
    trace_.requests.push_back(request);
  }

  /// The field of a column; empty where the trace lacks that column.
  std::string_view field(TraceColumn column) const {
    const auto place = place_[static_cast<std::size_t>(column)];
    return place ? std::string_view(fields_[*place]) : std::string_view{};
  }

  [[noreturn]] void refuse(TraceColumn column, const std::string& what) const {
    fail(column_name(column) + " \"" + printable(field(column)) + "\" " + what);
  }

  microseconds time() const {
    const auto date = date_and_time(field(TraceColumn::timestamp));
    const auto when = date ? date : seconds_of(field(TraceColumn::timestamp));
    if (!when)
      refuse(TraceColumn::timestamp,
             "is no time; write it as 2023-11-16 18:15:46.68, or as seconds such as 12.5");
    return *when;
  }

  std::int64_t tokens(TraceColumn column) const {
    const std::string_view text = field(column);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number < 0 || number > whatif::kTokensMax)
      refuse(column,
             "is no count of tokens; write a whole number from 0 to " + std::to_string(whatif::kTokensMax));
    return number;
  }

  std::string_view name(TraceColumn column) {
    const std::string_view text = field(column);
    if (text.size() > limits::name_bytes_max || !is_utf8(text))
      refuse(column,
             "is no name; write UTF-8 of at most " + std::to_string(limits::name_bytes_max) + " bytes");
    return *trace_.names.emplace(text).first;
  }

  std::string_view lane_name() {
    const std::string_view text = field(TraceColumn::lane);
    if (text.empty()) return {};
    std::string known;
    for (const std::string& one : options_.lanes) {
      if (one == text) return name(TraceColumn::lane);
      known += (known.empty() ? "" : ", ") + one;
    }
    refuse(TraceColumn::lane,
           "is no lane of the configuration; write one of " + known + ", or nothing for the default lane");
  }

  void put_in_order() {
    auto& requests = trace_.requests;
    const auto earlier = [](const auto& a, const auto& b) { return a.at < b.at; };
    if (!trace_.was_sorted) std::stable_sort(requests.begin(), requests.end(), earlier);
    const microseconds first = requests.front().at;
    for (whatif::Request& request : requests) {
      const double at = static_cast<double>((request.at - first).count()) / options_.speed;
      if (at > static_cast<double>(whatif::kSpanMax.count()))
        throw TraceError(printable(file_) +
                         ": there are more than 366 days between its first and its last request; check " +
                         column_name(TraceColumn::timestamp) + ", or raise --speed");
      request.at = microseconds(std::llround(at));
    }
  }

  std::istream& in_;
  const std::string& file_;
  const TraceOptions& options_;
  std::vector<char> line_;
  std::size_t line_number_ = 0, columns_ = 0;
  std::vector<std::string> fields_;
  bool fields_read_ = false;
  std::array<std::optional<std::size_t>, kColumns.size()> place_{};  // index of each column among the fields
  Trace trace_;
};

}  // namespace

Trace read_trace(std::istream& in, const std::string& file, const TraceOptions& options) {
  return TraceReader(in, file, options).read();
}

}  // namespace lanemq::cli
