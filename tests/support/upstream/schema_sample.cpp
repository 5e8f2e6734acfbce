// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/schema_sample.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/support/upstream/flat_schema.hpp"
#include "tests/support/upstream/pattern_sample.hpp"

namespace lanemq::upstream {
namespace {

constexpr double kPlainNumber = 7;
constexpr std::string_view kPlainText = "text";
/// No list and no text is made longer, whatever its least length.
constexpr std::size_t kItemsMax = 100;
constexpr std::size_t kTextBytesMax = 10'000;

struct Format {
  std::string_view name;
  std::string_view text;  ///< Of which # is a digit, so that several differ.
};
constexpr auto kFormats = std::to_array<Format>({{"date-time", "2026-01-1#T12:00:00Z"},
                                                 {"date", "2026-01-1#"},
                                                 {"time", "12:00:0#Z"},
                                                 {"duration", "P1#D"},
                                                 {"email", "text#@example.com"},
                                                 {"idn-email", "text#@example.com"},
                                                 {"hostname", "text#.example.com"},
                                                 {"idn-hostname", "text#.example.com"},
                                                 {"ipv4", "192.0.2.1#"},
                                                 {"ipv6", "2001:db8::1#"},
                                                 {"uri", "https://example.com/text#"},
                                                 {"url", "https://example.com/text#"},
                                                 {"iri", "https://example.com/text#"},
                                                 {"uri-reference", "/text#"},
                                                 {"iri-reference", "/text#"},
                                                 {"uri-template", "/text#"},
                                                 {"uuid", "123e4567-e89b-42d3-a456-42661417400#"},
                                                 {"json-pointer", "/text#"},
                                                 {"relative-json-pointer", "#"},
                                                 {"regex", "text#"},
                                                 {"byte", "dGV4dA=="}});

std::size_t count_or(const Json& schema, const char* name, std::size_t fallback) {
  const Json& value = member(schema, name);
  return value.is_number() && value.get<double>() >= 0 && value.get<double>() < 1e9
             ? static_cast<std::size_t>(value.get<double>())
             : fallback;
}

bool has_any(const Json& schema, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return schema.contains(name); });
}

std::string type_of(const Json& schema) {
  const Json& type = member(schema, "type");
  const Json& first = type.is_array() && !type.empty() ? type[0] : type;
  if (first.is_string()) return first.get<std::string>();
  if (has_any(schema, {"properties", "required"})) return "object";
  if (has_any(schema, {"items", "prefixItems", "minItems"})) return "array";
  if (has_any(schema, {"pattern", "format", "minLength"})) return "string";
  if (has_any(schema, {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}))
    return "number";
  return "null";
}

/// The span in which a number has to be, and its step; whole numbers have one, others may be anything
/// between.
struct Span {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_is_out = false;
  bool high_is_out = false;
  double step = 0;
};

// The first whole multiple of a step: 5 of 2.5.
double whole_step(double step) {
  for (int times = 1; times <= 1'000; ++times)
    if (step * times == std::floor(step * times)) return step * times;
  return 1;
}

Span span_of(const Json& schema, bool whole) {
  Span span;
  if (const Json& least = member(schema, "minimum"); least.is_number()) span.low = least.get<double>();
  if (const Json& most = member(schema, "maximum"); most.is_number()) span.high = most.get<double>();
  // Draft 4 has the bound in `minimum`, and true here.
  const Json& above = member(schema, "exclusiveMinimum");
  if (above == true) span.low_is_out = true;
  if (above.is_number() && above.get<double>() >= span.low)
    span.low = above.get<double>(), span.low_is_out = true;
  const Json& below = member(schema, "exclusiveMaximum");
  if (below == true) span.high_is_out = true;
  if (below.is_number() && below.get<double>() <= span.high)
    span.high = below.get<double>(), span.high_is_out = true;
  if (whole) span.step = 1;
  if (const Json& step = member(schema, "multipleOf"); step.is_number() && step.get<double>() > 0)
    span.step = whole ? whole_step(step.get<double>()) : step.get<double>();
  return span;
}

// Of whole and other steps alike: 7, or the number in the span that is nearest to it.
double nearest(const Span& span, std::size_t variant) {
  const double step = span.step > 0 ? span.step : 1;
  double value = kPlainNumber;
  if (span.step > 0) value = std::ceil(value / step) * step;
  if (value < span.low) value = span.step > 0 ? std::ceil(span.low / step) * step : span.low;
  if (value == span.low && span.low_is_out) value += step;
  if (value > span.high) value = span.step > 0 ? std::floor(span.high / step) * step : span.high;
  if (value == span.high && span.high_is_out) value -= step;
  if (span.step == 0 && (value < span.low || (value == span.low && span.low_is_out)))
    return span.low + (span.high - span.low) / (2.0 + static_cast<double>(variant));
  const double further = value + static_cast<double>(variant) * step;
  return further < span.high || (further == span.high && !span.high_is_out)
             ? further
             : value - static_cast<double>(variant) * step;
}

OrderedJson sample_number(const Json& schema, bool whole, std::size_t variant) {
  const double value = nearest(span_of(schema, whole), variant);
  if (value == std::floor(value) && std::abs(value) <= 9007199254740992.0)
    return static_cast<std::int64_t>(value);
  return value;
}

std::string sample_string(const Json& schema, std::size_t variant) {
  const std::size_t least = std::min(count_or(schema, "minLength", 0), kTextBytesMax);
  if (const Json& pattern = member(schema, "pattern"); pattern.is_string())
    if (const auto text = sample_of_pattern(pattern.get_ref<const std::string&>(),
                                            {.length_min = least, .variant = variant}))
      return *text;
  if (const Json& format = member(schema, "format"); format.is_string())
    for (const Format& known : kFormats)
      if (format == known.name) {
        std::string text(known.text);
        std::replace(text.begin(), text.end(), '#', static_cast<char>('0' + (variant + 1) % 10));
        return text;
      }
  std::string text(kPlainText);
  if (variant > 0) text += std::to_string(variant + 1);
  if (text.size() < least) text.insert(0, least - text.size(), 't');
  const std::size_t most = count_or(schema, "maxLength", text.size());
  return text.size() > most ? text.substr(text.size() - most) : text;
}

class SchemaSampler {
 public:
  explicit SchemaSampler(const Json& root) : root_(root) {}

  /// `variant`: of the same schema another value, where there is one.
  OrderedJson sample(const Json& unresolved, int depth, std::size_t variant) {
    if (depth > kJsonDepthMax || ++values_ > kSampleValuesMax) return nullptr;
    const Json schema = flat_schema(unresolved, root_);
    if (!schema.is_object()) return nullptr;
    if (schema.contains("const")) return OrderedJson(schema.at("const"));
    if (const Json& several = member(schema, "enum"); several.is_array() && !several.empty())
      return OrderedJson(several[variant % several.size()]);
    const std::string type = type_of(schema);
    if (type == "object") return object(schema, depth + 1, variant);
    if (type == "array") return array(schema, depth + 1, variant);
    if (type == "string") return sample_string(schema, variant);
    if (type == "boolean") return variant % 2 == 0;
    if (type == "integer" || type == "number") return sample_number(schema, type == "integer", variant);
    return nullptr;
  }

 private:
  OrderedJson object(const Json& schema, int depth, std::size_t variant) {
    OrderedJson made = OrderedJson::object();
    const Json& required = member(schema, "required");
    const auto must = [&](const std::string& name) {
      return required.is_array() && std::find(required.begin(), required.end(), name) != required.end();
    };
    if (const Json& properties = member(schema, "properties"); properties.is_object())
      for (const auto& [name, property] : properties.items())
        if (depth <= kOptionalDepthMax || must(name)) made[name] = sample(property, depth, variant);
    const Json& others = member(schema, "additionalProperties");
    const Json any = {{"type", "string"}};
    const auto add_other = [&](const std::string& name) {
      made[name] = sample(others.is_object() && !others.empty() ? others : any, depth, variant);
    };
    if (required.is_array())
      for (const Json& name : required)
        if (name.is_string() && !made.contains(name.get<std::string>())) add_other(name.get<std::string>());
    const std::size_t least = std::min(count_or(schema, "minProperties", 0), kItemsMax);
    while (made.size() < least)
      add_other("name" + std::to_string(made.size() + 1));
    return made;
  }

  OrderedJson array(const Json& schema, int depth, std::size_t variant) {
    const std::size_t least = count_or(schema, "minItems", 0);
    const std::size_t wanted = depth <= kOptionalDepthMax ? std::max<std::size_t>(least, 1) : least;
    const std::size_t count = std::min({wanted, count_or(schema, "maxItems", wanted), kItemsMax});
    const Json& first = member(schema, "prefixItems");
    const bool unique = member(schema, "uniqueItems") == true;
    OrderedJson made = OrderedJson::array();
    if (first.is_array())
      for (const Json& item : first)
        made.push_back(sample(item, depth, variant));
    while (made.size() < count)
      made.push_back(sample(member(schema, "items"), depth, unique ? made.size() : variant));
    return made;
  }

  const Json& root_;
  int values_ = 0;
};

}  // namespace

OrderedJson sample_of(const Json& schema) {
  return SchemaSampler(schema).sample(schema, 0, 0);
}

}  // namespace lanemq::upstream
