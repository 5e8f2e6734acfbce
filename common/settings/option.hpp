// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/settings/secrets/secret_shapes.hpp"
#include "common/settings/values.hpp"

namespace lanemq::settings {

/// The type of an option's value.
enum class Kind : unsigned char { text, duration, size, count, share, yes_or_no, level, list };

/// How the version before wrote the value; it is still read, with a warning.
enum class Before : unsigned char {
  same,
  milliseconds,  ///< the key with `_ms` at its end, and a plain number
  bytes,         ///< a plain number
};

/// The part of an option that does not depend on its owner. Its flag (--drain-timeout), variable
/// (LANEMQ_WORKER_DRAIN_TIMEOUT), key in the file (drain_timeout), and its line in the help, --print-config
/// and the manual are made from it.
struct OptionText {
  std::string_view key;
  Kind kind = Kind::text;
  std::string_view unit;      ///< the value's name in the help: `duration`, `endpoint`
  std::string_view sentence;  ///< begins with a capital, ends with a full stop
  std::string_view empty{};   ///< what an empty value means; without this text it is refused
  std::string_view brief{};   ///< another name of the option: `clients` for `clients_endpoint`
  Before before = Before::same;
  bool in_blocks = false;  ///< --print-config writes it as tables, not as a key
};

/// One option of `Settings`. `set` throws UsageError for a bad value. `get` returns texts that set() reads as
/// the same value: one, or those of a list.
template <class Settings>
struct Option : OptionText {
  std::function<Values(const Settings&)> get;
  std::function<void(Settings&, const Values&)> set;

  Option when_empty(std::string_view meaning) && {
    empty = meaning;
    return std::move(*this);
  }
  Option or_brief(std::string_view name) && {
    brief = name;
    return std::move(*this);
  }
};

template <class Settings>
using Options = std::vector<Option<Settings>>;

/// The rows of options whose durations and sizes had no units in the version before.
template <class Settings>
Options<Settings> without_units_before(Options<Settings> options) {
  for (Option<Settings>& option : options) {
    if (option.kind == Kind::duration) option.before = Before::milliseconds;
    if (option.kind == Kind::size) option.before = Before::bytes;
  }
  return options;
}

/// An option bound to a Settings object.
struct BoundOption : OptionText {
  Values fallback;  ///< the default
  std::function<Values()> get;
  std::function<void(const Values&)> set;
};

/// Requires: `settings` outlives the result.
template <class Settings>
std::vector<BoundOption> bound(const Options<Settings>& options, Settings& settings) {
  std::vector<BoundOption> rows;
  const Settings defaults{};
  for (const Option<Settings>& option : options)
    rows.push_back({option, option.get(defaults), [&option, &settings] { return option.get(settings); },
                    [&option, &settings](const Values& values) { option.set(settings, values); }});
  return rows;
}

/// The value as one text; a list with commas.
std::string joined(const Values& values);

/// An option with two values, as the file writes them.
struct Changed {
  std::string key, before, after;
};
/// The options whose values differ.
template <class Settings>
std::vector<Changed> changed(const Options<Settings>& options, const Settings& before,
                             const Settings& after) {
  std::vector<Changed> found;
  for (const Option<Settings>& option : options)
    if (option.get(before) != option.get(after))
      found.push_back({std::string(option.key), without_url_secrets(joined(option.get(before))),
                       without_url_secrets(joined(option.get(after)))});
  return found;
}

/// Sets the option; refuses an empty value where the option has no text for it.
void set(const BoundOption& option, const Values& values);

/// Sets one key of a Thing with a table of options. `what` is for messages: `key of a lane`. `besides`: keys
/// that are not in the table, for suggestions.
template <class Thing>
void set_one(const Options<Thing>& options, Thing& thing, std::string_view what, std::string_view key,
             const std::string& text, std::vector<std::string> besides = {}) {
  for (const BoundOption& option : bound(options, thing)) {
    if (option.key == key) return set(option, {text});
    besides.emplace_back(option.key);
  }
  unknown_key(what, key, besides);
}

}  // namespace lanemq::settings

/// Makers of rows. Each takes the path to its member: `&Settings::server, &ServerOptions::body_timeout`.
namespace lanemq::settings::rows {

template <class Object, class Member, class... Rest>
auto& member_at(Object& object, Member member, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return object.*member;
  else
    return member_at(object.*member, rest...);
}

/// A row for one text; `Read` and `Show` convert it.
template <class Settings, class T, class Read, class Show, class... Path>
Option<Settings> row(OptionText text, Read read, Show show, T Settings::*first, Path... path) {
  return {text,
          [=](const Settings& settings) {
            return Values{std::string(show(member_at(settings, first, path...)))};
          },
          [=](Settings& settings, const Values& values) {
            member_at(settings, first, path...) = read(values.front());
          }};
}

template <class Settings, class T, class... Path>
Option<Settings> text(std::string_view key, std::string_view unit, std::string_view sentence,
                      T Settings::*first, Path... path) {
  return row({.key = key, .kind = Kind::text, .unit = unit, .sentence = sentence}, std::identity(),
             std::identity(), first, path...);
}

/// A name by the protocol's rules.
template <class Settings, class T, class... Path>
Option<Settings> name(std::string_view key, std::string_view unit, std::string_view sentence,
                      T Settings::*first, Path... path) {
  return row({.key = key, .kind = Kind::text, .unit = unit, .sentence = sentence}, parse_name,
             std::identity(), first, path...);
}

/// A time until when something counts.
template <class Settings, class T, class... Path>
Option<Settings> moment(std::string_view key, std::string_view sentence, T Settings::*first, Path... path) {
  return row({.key = key, .kind = Kind::text, .unit = "date", .sentence = sentence, .empty = "never"},
             parse_moment, show_moment, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> duration(std::string_view key, Range<Duration> range, std::string_view sentence,
                          T Settings::*first, Path... path) {
  using Held = std::remove_reference_t<decltype(member_at(std::declval<Settings&>(), first, path...))>;
  return row(
      {.key = key, .kind = Kind::duration, .unit = "duration", .sentence = sentence},
      [range](const std::string& value) { return duration_in<Held>(value, range); },
      [](Duration value) { return show(value); }, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> size(std::string_view key, Range<std::size_t> range, std::string_view sentence,
                      T Settings::*first, Path... path) {
  using Held = std::remove_reference_t<decltype(member_at(std::declval<Settings&>(), first, path...))>;
  return row(
      {.key = key, .kind = Kind::size, .unit = "size", .sentence = sentence},
      [range](const std::string& value) {
        const std::size_t bytes = parse_size(value);
        if (bytes < range.min || bytes > range.max)
          throw UsageError("must be " + show_size(range.min) + ".." + show_size(range.max) + ", not \"" +
                           value + '"');
        return static_cast<Held>(bytes);
      },
      [](Held value) { return show_size(static_cast<std::size_t>(value)); }, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> count(std::string_view key, std::string_view unit, Range<std::int64_t> range,
                       std::string_view sentence, T Settings::*first, Path... path) {
  using Held = std::remove_reference_t<decltype(member_at(std::declval<Settings&>(), first, path...))>;
  return row(
      {.key = key, .kind = Kind::count, .unit = unit, .sentence = sentence},
      [range](const std::string& value) {
        return static_cast<Held>(parse_count(value, range.min, range.max));
      },
      [](Held value) { return std::to_string(value); }, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> share(std::string_view key, std::string_view sentence, T Settings::*first, Path... path) {
  return row({.key = key, .kind = Kind::share, .unit = "share", .sentence = sentence}, parse_share,
             show_share, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> yes_or_no(std::string_view key, std::string_view sentence, T Settings::*first,
                           Path... path) {
  return row({.key = key, .kind = Kind::yes_or_no, .unit = "true|false", .sentence = sentence}, parse_switch,
             show_switch, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> log_level(T Settings::*first, Path... path) {
  return row({.key = "log_level",
              .kind = Kind::level,
              .unit = "level",
              .sentence = "The lowest level that is logged: debug, info, warning, error or off."},
             parse_level, show_level, first, path...);
}

template <class Settings, class T, class... Path>
Option<Settings> log_format(T Settings::*first, Path... path) {
  return row({.key = "log_format",
              .kind = Kind::text,
              .unit = "text|json",
              .sentence = "How a line of the log reads: text, or an object of JSON."},
             parse_log_format, show_log_format, first, path...);
}

/// The certificate of what a program serves over HTTP, and its key. `key`: the option's, as
/// `metrics_tls_key`.
template <class Settings, class T, class... Path>
Option<Settings> tls_certificate(std::string_view key, T Settings::*first, Path... path) {
  return text(
             key, "file",
             "Serve by HTTPS, with this certificate: PEM, its chain behind it; a path, or credential:NAME of "
             "systemd. SIGHUP reads it again.",
             first, path...)
      .when_empty("HTTP without TLS");
}

template <class Settings, class T, class... Path>
Option<Settings> tls_key(std::string_view key, T Settings::*first, Path... path) {
  return text(key, "file", "The certificate's key: PEM, without a passphrase.", first, path...)
      .when_empty("none");
}

/// Where spans go.
template <class Settings, class T, class... Path>
Option<Settings> otlp(T Settings::*first, Path... path) {
  return text("otlp", "URL",
              "The collector that gets spans of traced requests, by OTLP over HTTP: http://127.0.0.1:4318.",
              first, path...)
      .when_empty("none, and no spans are made");
}

template <class Settings, class T, class... Path>
Option<Settings> otlp_in_clear(T Settings::*first, Path... path) {
  return yes_or_no("otlp_in_clear",
                   "The collector may be http:// on another machine: who is on the way reads the spans.",
                   first, path...);
}

/// Whether service::guard_memory() is taken back.
template <class Settings, class T, class... Path>
Option<Settings> keep_cores(T Settings::*first, Path... path) {
  return yes_or_no("keep_cores",
                   "Allows cores, and debuggers and profilers that attach: whoever has them has the secrets "
                   "and bodies in memory.",
                   first, path...);
}

/// A list of texts, taken as they are.
template <class Settings, class T, class... Path>
Option<Settings> texts(std::string_view key, std::string_view unit, std::string_view sentence,
                       T Settings::*first, Path... path) {
  return {{.key = key, .kind = Kind::list, .unit = unit, .sentence = sentence},
          [=](const Settings& settings) { return member_at(settings, first, path...); },
          [=](Settings& settings, const Values& values) { member_at(settings, first, path...) = values; }};
}

/// A list of words; one text may hold several, with commas.
template <class Settings, class T, class... Path>
Option<Settings> list(std::string_view key, std::string_view unit, std::string_view sentence,
                      T Settings::*first, Path... path) {
  Option<Settings> option = texts(key, unit, sentence, first, path...);
  option.set = [=](Settings& settings, const Values& values) {
    member_at(settings, first, path...) = parse_words(values);
  };
  return option;
}

}  // namespace lanemq::settings::rows
