// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace lanemq::http {

/// Collects a body in one piece. A large one grows without a copy: it has pages of its own, which the system
/// moves by changing its tables. Copying 16 MiB would hold the loop for ten milliseconds.
class BodyBuffer {
 public:
  BodyBuffer() = default;
  BodyBuffer(BodyBuffer&& other) noexcept { *this = std::move(other); }
  BodyBuffer& operator=(BodyBuffer&& other) noexcept;
  ~BodyBuffer();

  /// `whole`: the known size of the body, so that no more room is made; 0: unknown. Throws std::bad_alloc.
  void append(std::string_view piece, std::size_t whole = 0);

  std::string_view view() const { return pages_ != nullptr ? std::string_view(pages_, size_) : small_; }
  std::size_t size() const { return view().size(); }
  bool empty() const { return size() == 0; }

 private:
  static constexpr std::size_t kLargeFrom = std::size_t{256} * 1024;
  void make_pages(std::size_t room);

  std::string small_{};
  char* pages_ = nullptr;  ///< null: all is in small_
  std::size_t size_ = 0, room_ = 0;
};

}  // namespace lanemq::http
