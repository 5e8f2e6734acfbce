// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace lanemq::gateway {

/// A field of a form. The bytes lie in the form's body.
struct FormPart {
  static constexpr std::size_t kPartsMax = 32;
  static constexpr std::size_t kHeaderBytesMax = std::size_t{8} * 1024;

  std::string name{};
  std::string filename{};  ///< of a file; any folders before it are left out
  bool is_file = false;
  std::string_view bytes{};
};

/// The boundary that a content type names; empty: it is no multipart/form-data, or names none that is
/// allowed.
std::string form_boundary(std::string_view content_type);

/// The parts of a whole form (RFC 7578), or a sentence that says what is wrong with it. Requires: the
/// boundary is not empty.
tl::expected<std::vector<FormPart>, std::string> read_form(std::string_view body, std::string_view boundary);

/// The part of that name; null: there is none.
const FormPart* find_part(const std::vector<FormPart>& parts, std::string_view name);

}  // namespace lanemq::gateway
