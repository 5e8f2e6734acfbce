// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace lanemq::plugin {

/// A plugin that cannot be used; the message says why and what to do.
class PluginError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a program asks of a kind of plugin.
struct Kind {
  const char* header;     ///< `lanemq/handler_plugin.h`
  const char* symbol;     ///< the function that returns the plugin's table
  std::uint32_t version;  ///< the header's
  std::size_t size_min;   ///< of the table: up to its last function that is not optional
};

/// A loaded shared library, which it unloads at its end. What it exports may be used as long as it lives.
class Library {
 public:
  /// Loads the file, which runs what it does at its loading. Throws PluginError where it is no file, others
  /// may write to it, or it does not export the symbol.
  Library(const std::string& file, const Kind& kind);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// The plugin's table as this program knows it: what the plugin has more is not used, what it has not is
  /// null. `Table` begins with `version` and `size`. Throws PluginError where it is of another version.
  template <class Table>
  Table table() const {
    const Table* const theirs = reinterpret_cast<const Table* (*)()>(symbol_)();
    if (theirs != nullptr)
      require_known(theirs->version, theirs->size);
    else
      require_known(0, 0);
    Table known{};
    std::memcpy(&known, theirs, std::min(theirs->size, sizeof known));
    return known;
  }

 private:
  void require_known(std::uint32_t version, std::size_t size) const;

  const Kind kind_;
  void* library_ = nullptr;
  void* symbol_ = nullptr;
};

}  // namespace lanemq::plugin
