// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

namespace lanemq::admin {

/// A file of the page, as it stands in broker/page/ or in a library for browsers.
struct PageFile {
  std::string_view name;  ///< `main.js`, `views/now.js`
  std::string_view type;
  std::string_view tag;  ///< ETag: another one for other bytes
  std::string_view plain, zipped;
};

/// All of them; broker/page/embed.cmake writes the list.
std::span<const PageFile> page_files();

}  // namespace lanemq::admin
