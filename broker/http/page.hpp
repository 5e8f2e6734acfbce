// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "broker/http/page_files.hpp"
#include "common/http/server/base/message.hpp"

namespace lanemq::admin {

/// The file that `/` is answered with.
inline constexpr std::string_view kFrontPage = "index.html";

/// Null: there is no such file.
const PageFile* page_file(std::string_view name);

/// A file of the page: zipped for who takes that, 304 for who has it. Browsers let it ask this broker alone,
/// run nothing that stands elsewhere, and show it in nobody's frame.
http::HttpAnswer page_answer(const PageFile& file, const http::HttpRequest& request);

}  // namespace lanemq::admin
