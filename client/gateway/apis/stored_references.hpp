// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "client/gateway/apis/api_error.hpp"

namespace lanemq::gateway {

/// Something stored upstream that a request names: a response, an item of one, a container, a message, audio.
struct StoredReference {
  std::string param{};  ///< where the request names it: `input[3].id`
  std::string id{};
};

/// Requests with more references are refused.
inline constexpr std::size_t kReferencesMax = 10'000;

/// Tools may stand in tools; requests with deeper ones are refused.
inline constexpr int kToolsDeepMax = 8;

/// Adds the references in a request's `input`: items named by id alone (item_reference, and items without
/// content), and containers. An item with its id or type twice, or in another case, is an error. An item with
/// content is no reference, whatever its id: clients send items of any origin.
tl::expected<void, ApiError> add_references_of_input(std::string_view input,
                                                     std::vector<StoredReference>& references);
/// The same of a chat's `messages`: the audio of earlier answers.
void add_references_of_messages(std::string_view body, std::vector<StoredReference>& references);
/// The same for `tools`: the containers that they run in, also of tools in tools, as of those that items
/// bring.
tl::expected<void, ApiError> add_references_of_tools(std::string_view tools,
                                                     std::vector<StoredReference>& references);

/// Ids noted of one answer; of more the first ones.
inline constexpr std::size_t kStoredIdsMax = 1'000;

/// The ids by which a caller may refer to an answer of /v1/responses or a path below it: its own, its items'
/// and their containers'. Empty: none can be read.
std::vector<std::string> stored_ids_of(std::string_view answer);

/// The ids by which a caller may refer to parts of an answer that is no response: the container in which a
/// message ran its code, the message itself where it begins a thread, the audio of a chat.
std::vector<std::string> part_ids_of(std::string_view answer);

/// The same for a streamed answer, from its events, of either API.
class StreamedIds {
 public:
  /// Longer lines are not read; the first lines repeat the request's instructions and tools.
  static constexpr std::size_t kFirstLineBytesMax = std::size_t{1024} * 1024, kLineBytesMax = 65'536;

  /// The ids of the lines that end in this piece.
  std::vector<std::string> take(std::string_view bytes);
  /// That of the response itself; empty: none has come.
  const std::string& first() const { return first_; }

 private:
  void take_line(std::string_view line, std::vector<std::string>& ids);

  std::string line_{};  ///< the incomplete line
  std::string first_{};
  bool skips_ = false;  ///< the present line is too long
  std::size_t found_ = 0;
};

}  // namespace lanemq::gateway
