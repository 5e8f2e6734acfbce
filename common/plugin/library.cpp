// SPDX-License-Identifier: Apache-2.0
#include "common/plugin/library.hpp"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>

#include <lanemq/text.hpp>

namespace lanemq::plugin {
namespace {

namespace fs = std::filesystem;

/// Whoever can write to the file rules the program.
void require_safe_file(const std::string& file) {
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (error || !fs::is_regular_file(status))
    throw PluginError(error ? "it cannot be read: " + error.message() : "it is no file");
  if ((status.permissions() & fs::perms::others_write) != fs::perms::none)
    throw PluginError("everybody may write to it; take that away with chmod o-w");
}

/// What dlerror() says, without the file's name in front of it.
std::string loader_says(const std::string& path) {
  const char* const text = dlerror();
  std::string_view said = text != nullptr ? text : "unknown";
  if (said.starts_with(path + ": ")) said.remove_prefix(path.size() + 2);
  return printable(said);
}

}  // namespace

Library::Library(const std::string& file, const Kind& kind) : kind_(kind) {
  require_safe_file(file);
  // A name without a slash would be looked for in the system's folders.
  const std::string path = fs::absolute(file).string();
  library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) throw PluginError("it cannot be loaded: " + loader_says(path));
  symbol_ = dlsym(library_, kind_.symbol);
  if (symbol_ != nullptr) return;
  dlclose(library_);
  throw PluginError(std::string("it exports no ") + kind_.symbol + "(), which " + kind_.header + " declares");
}

Library::~Library() {
  dlclose(library_);
}

/// `version` 0: there is no table.
void Library::require_known(std::uint32_t version, std::size_t size) const {
  if (version == 0) throw PluginError(std::string(kind_.symbol) + "() returned no table");
  if (version != kind_.version)
    throw PluginError("it is made for version " + std::to_string(version) + " of " + kind_.header +
                      ", and this program has version " + std::to_string(kind_.version) +
                      "; compile it anew");
  if (size < kind_.size_min)
    throw PluginError("its table has " + std::to_string(size) + " bytes; at least " +
                      std::to_string(kind_.size_min));
}

}  // namespace lanemq::plugin
