// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace lanemq::gateway {

/// A field of a form; its bytes are a view of the form's body.
struct FormPart {
  static constexpr std::size_t kPartsMax = 32;
  static constexpr std::size_t kHeaderBytesMax = std::size_t{8} * 1024;

  std::string name{};
  std::string filename{};  ///< without folders
  bool is_file = false;
  std::string_view bytes{};
};

/// The boundary of a content type; empty: it is not multipart/form-data, or its boundary is invalid.
std::string form_boundary(std::string_view content_type);

/// The parts of a whole form (RFC 7578), or a sentence about its fault. Requires: the boundary is not empty.
tl::expected<std::vector<FormPart>, std::string> read_form(std::string_view body, std::string_view boundary);

/// The part of that name; null: there is none.
const FormPart* find_part(const std::vector<FormPart>& parts, std::string_view name);

}  // namespace lanemq::gateway
