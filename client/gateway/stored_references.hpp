// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/api_error.hpp"

namespace lanemq::gateway {

/// Something that the upstream stores and a request names: a response, an item of one, a container.
struct StoredReference {
  std::string param{};  ///< where the request names it, as in `input[3].id`
  std::string id{};
};

/// A request that refers to more is refused.
inline constexpr std::size_t kReferencesMax = 10'000;

/// Adds what a request's `input` refers to: items by their id alone (item_reference, and those that come
/// without what they hold), and containers. An item that says its id or type twice, or in another case, is an
/// error. An item that has its content is none, whatever its id: clients send those of any origin.
tl::expected<void, ApiError> add_references_of_input(std::string_view input,
                                                     std::vector<StoredReference>& references);
/// The same of `tools`: containers that they are to run in.
tl::expected<void, ApiError> add_references_of_tools(std::string_view tools,
                                                     std::vector<StoredReference>& references);

/// Ids noted of one answer; of one with more the first count.
inline constexpr std::size_t kStoredIdsMax = 1'000;

/// The ids by which a caller may refer to an answer of /v1/responses, or of what lies below it: its own, and
/// those of its items and their containers. Nothing where none can be read.
std::vector<std::string> stored_ids_of(std::string_view answer);

/// The same of an answer that streams, as its events come.
class StreamedIds {
 public:
  /// Of a longer line nothing is read; the first ones repeat the request's instructions and tools.
  static constexpr std::size_t kFirstLineBytesMax = std::size_t{1024} * 1024, kLineBytesMax = 65'536;

  /// The ids in the lines that end in this piece.
  std::vector<std::string> take(std::string_view bytes);

 private:
  void take_line(std::string_view line, std::vector<std::string>& ids);

  std::string line_{};  ///< that has not ended yet
  bool skips_ = false;  ///< the line is too long
  std::size_t found_ = 0;
};

}  // namespace lanemq::gateway
