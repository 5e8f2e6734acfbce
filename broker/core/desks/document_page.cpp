// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/document_page.hpp"

#include "broker/core/base/check.hpp"

namespace lanemq::core {

DocumentWriter DocumentMap::writer(std::string_view name) {
  ++entries_;
  return DocumentWriter(bytes_).text(name);
}

DocumentMap& DocumentMap::text(std::string_view name, std::string_view value) {
  writer(name).text(value);
  return *this;
}

DocumentMap& DocumentMap::integer(std::string_view name, std::int64_t value) {
  writer(name).integer(value);
  return *this;
}

DocumentMap& DocumentMap::number(std::string_view name, double value) {
  writer(name).number(value);
  return *this;
}

DocumentMap& DocumentMap::flag(std::string_view name, bool value) {
  writer(name).boolean(value);
  return *this;
}

DocumentMap& DocumentMap::map(std::string_view name, const DocumentMap& inner) {
  writer(name);
  inner.write_to(bytes_);
  return *this;
}

DocumentMap& DocumentMap::rows(std::string_view name, const DocumentPage& page) {
  writer(name);
  page.write_to(bytes_);
  return *this;
}

void DocumentMap::write_to(Buffer& out) const {
  LANEMQ_CHECK(entries_ <= limits::map_entries_max);
  DocumentWriter(out).map(entries_).written(bytes_.view());
}

void DocumentPage::add(const DocumentMap& row) {
  ++rows_;
  row.write_to(bytes_);
}

void DocumentPage::write_to(Buffer& out) const {
  DocumentWriter(out).array(rows_).written(bytes_.view());
}

}  // namespace lanemq::core
