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

#include "common/settings/values.hpp"

namespace lanemq::settings {

/// How an option's value is written.
enum class Kind : unsigned char { text, duration, size, count, share, yes_or_no, level, list };

/// How the version before this one wrote it, which is still read, with a warning.
enum class Before : unsigned char {
  same,
  milliseconds,  ///< under its key with `_ms` behind it, as a plain number
  bytes,         ///< as a plain number
};

/// What of an option does not depend on whose it is: its flag (--drain-timeout), its variable
/// (LANEMQ_WORKER_DRAIN_TIMEOUT), its key in the file (drain_timeout), its line in the help, in
/// --print-config and in the manual follow from it.
struct OptionText {
  std::string_view key;
  Kind kind = Kind::text;
  std::string_view unit;      ///< what stands for its value in the help: `duration`, `endpoint`
  std::string_view sentence;  ///< begins with a capital, ends with a full stop
  std::string_view empty{};   ///< what holds while it is empty; none: it may not be
  std::string_view brief{};   ///< another name: `clients` for `clients_endpoint`
  Before before = Before::same;
  bool in_blocks = false;  ///< --print-config writes it as tables of its own, not as a key
};

/// One option of `Settings`: what reads it and what writes it. `set` throws UsageError for what it does not
/// take; `get` gives what set() reads as the same, one text, or those of a list.
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

/// Of options whose durations and sizes had no units in the version before.
template <class Settings>
Options<Settings> without_units_before(Options<Settings> options) {
  for (Option<Settings>& option : options) {
    if (option.kind == Kind::duration) option.before = Before::milliseconds;
    if (option.kind == Kind::size) option.before = Before::bytes;
  }
  return options;
}

/// An option of settings that stand somewhere.
struct BoundOption : OptionText {
  Values fallback;  ///< what holds where nobody says anything
  std::function<Values()> get;
  std::function<void(const Values&)> set;
};

/// `settings` must outlive what is returned.
template <class Settings>
std::vector<BoundOption> bound(const Options<Settings>& options, Settings& settings) {
  std::vector<BoundOption> rows;
  const Settings defaults{};
  for (const Option<Settings>& option : options)
    rows.push_back({option, option.get(defaults), [&option, &settings] { return option.get(settings); },
                    [&option, &settings](const Values& values) { option.set(settings, values); }});
  return rows;
}

/// The value as text; of a list with commas.
std::string joined(const Values& values);
/// Sets the option; a value that is empty where it may not be is refused.
void set(const BoundOption& option, const Values& values);

/// Sets one key of a thing that has a table of options. `what` names it where there is no such key: `key of a
/// lane`; `besides` are the keys that the table does not have.
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

/// What makes rows. Each takes the way to its member: `&Settings::server, &ServerOptions::body_timeout`.
namespace lanemq::settings::rows {

template <class Object, class Member, class... Rest>
auto& member_at(Object& object, Member member, Rest... rest) {
  if constexpr (sizeof...(rest) == 0)
    return object.*member;
  else
    return member_at(object.*member, rest...);
}

/// A row whose value is one text, by what reads and what shows the member.
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

/// A name as the protocol has them.
template <class Settings, class T, class... Path>
Option<Settings> name(std::string_view key, std::string_view unit, std::string_view sentence,
                      T Settings::*first, Path... path) {
  return row({.key = key, .kind = Kind::text, .unit = unit, .sentence = sentence}, parse_name,
             std::identity(), first, path...);
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

/// A list whose texts are taken as they stand.
template <class Settings, class T, class... Path>
Option<Settings> texts(std::string_view key, std::string_view unit, std::string_view sentence,
                       T Settings::*first, Path... path) {
  return {{.key = key, .kind = Kind::list, .unit = unit, .sentence = sentence},
          [=](const Settings& settings) { return member_at(settings, first, path...); },
          [=](Settings& settings, const Values& values) { member_at(settings, first, path...) = values; }};
}

/// A list of words, which may stand in one text, too, with commas.
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
