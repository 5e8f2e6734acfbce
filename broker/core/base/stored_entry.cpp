// SPDX-License-Identifier: Apache-2.0
#include "broker/core/base/stored_entry.hpp"

namespace lanemq::core {

void write(const std::vector<StoredEntry>& entries, Buffer& out) {
  DocumentWriter list(out);
  list.array(entries.size() * 2);
  for (const StoredEntry& entry : entries) {
    list.text(entry.name).array(entry.numbers.all().size());
    for (const std::int64_t number : entry.numbers.all())
      list.integer(number);
  }
}

void write_note(std::string_view name, const std::vector<StoredEntry>& entries, Writes& writes) {
  writes.add(Write::Kind::put_note, 0);
  writes.buffer().write(name.data(), name.size());
  writes.end_of_state();
  write(entries, writes.buffer());
  writes.end_of_record();
}

void erase_note(std::string_view name, Writes& writes) {
  writes.add(Write::Kind::erase_note, 0);
  writes.buffer().write(name.data(), name.size());
  writes.end_of_state();
}

}  // namespace lanemq::core
