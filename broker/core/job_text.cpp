// SPDX-License-Identifier: Apache-2.0
#include "broker/core/job_text.hpp"

#include <cstring>

#include "broker/core/check.hpp"

namespace lanemq::core {

void JobText::assign(const Parts& parts) {
  std::size_t total = 0;
  for (const std::string_view part : parts)
    total += part.size();
  LANEMQ_CHECK(total <= 0xFFFF);

  // Built in place where that overwrites nothing that is still to be read, else aside.
  const bool fresh = size() == 0 && !block_;
  std::array<char, kInlineBytes> aside;
  std::unique_ptr<char[]> block;
  char* place = fresh ? inline_.data() : aside.data();
  if (total > kInlineBytes) {
    block = std::make_unique_for_overwrite<char[]>(total);
    place = block.get();
  }
  std::size_t end = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (!parts[i].empty()) std::memcpy(place + end, parts[i].data(), parts[i].size());
    end += parts[i].size();
    ends_[i] = static_cast<std::uint16_t>(end);
  }
  if (place == aside.data()) std::memcpy(inline_.data(), aside.data(), total);
  block_ = std::move(block);
}

}  // namespace lanemq::core
