// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include <lanemq/codec.hpp>
#include <lanemq/limits.hpp>

namespace lanemq::core {

/// A map of a document. Counts its entries while they are written, since their number stands first.
class DocumentMap {
 public:
  DocumentMap& text(std::string_view name, std::string_view value);
  DocumentMap& integer(std::string_view name, std::int64_t value);
  DocumentMap& number(std::string_view name, double value);
  DocumentMap& flag(std::string_view name, bool value);
  /// Adds the text unless it is empty.
  DocumentMap& text_if_any(std::string_view name, std::string_view value) {
    return value.empty() ? *this : text(name, value);
  }
  /// Adds a list of the first `shown_max` names.
  template <class Names>
  DocumentMap& texts(std::string_view name, const Names& names, std::size_t shown_max) {
    writer(name).array(std::min(names.size(), shown_max));
    std::size_t shown = 0;
    for (const std::string_view one : names)
      if (shown++ < shown_max) DocumentWriter(bytes_).text(one);
    return *this;
  }
  DocumentMap& map(std::string_view name, const DocumentMap& inner);
  /// Adds the page's rows as a list of maps.
  DocumentMap& rows(std::string_view name, const class DocumentPage& page);

  /// Appends the map. Requires: not more than limits::map_entries_max entries.
  void write_to(Buffer& out) const;

 private:
  DocumentWriter writer(std::string_view name);

  std::size_t entries_ = 0;
  Buffer bytes_;
};

/// As many rows of a list as fit one answer.
class DocumentPage {
 public:
  /// Bytes at which a page is full. Its last row may go beyond; the page still fits a header.
  static constexpr std::size_t kBytesMax = 8192;
  static constexpr std::size_t kRowsUsual = 100;

  explicit DocumentPage(std::optional<std::int64_t> rows_max)
      : rows_max_(rows_max ? static_cast<std::size_t>(*rows_max) : kRowsUsual) {}

  bool full() const { return rows_ >= rows_max_ || bytes_.size() >= kBytesMax; }
  void add(const DocumentMap& row);
  void write_to(Buffer& out) const;

 private:
  std::size_t rows_max_, rows_ = 0;
  Buffer bytes_;
};

}  // namespace lanemq::core
