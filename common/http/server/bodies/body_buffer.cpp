// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/bodies/body_buffer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace lanemq::http {

BodyBuffer& BodyBuffer::operator=(BodyBuffer&& other) noexcept {
  std::swap(small_, other.small_);
  std::swap(pages_, other.pages_);
  std::swap(size_, other.size_);
  std::swap(room_, other.room_);
  return *this;
}

BodyBuffer::~BodyBuffer() {
  if (pages_ != nullptr) ::munmap(pages_, room_);
}

/// Maps pages; they take no memory until they are written.
void BodyBuffer::make_pages(std::size_t room) {
  void* const made = pages_ == nullptr
                         ? ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                         : ::mremap(pages_, room_, room, MREMAP_MAYMOVE);
  if (made == MAP_FAILED) throw std::bad_alloc();
  pages_ = static_cast<char*>(made);
  room_ = room;
}

void BodyBuffer::append(std::string_view piece, std::size_t whole) {
  const std::size_t size = this->size() + piece.size();
  const auto room_for = [&](std::size_t room) {
    room = std::max(size, 2 * room);
    return whole >= size ? std::min(room, whole) : room;
  };
  if (pages_ == nullptr && size <= kLargeFrom) {
    if (size > small_.capacity()) small_.reserve(room_for(small_.capacity()));
    small_ += piece;
    return;
  }
  if (size > room_) {
    const bool first = pages_ == nullptr;
    make_pages(room_for(first ? kLargeFrom : room_));
    if (first) {
      std::memcpy(pages_, small_.data(), small_.size());
      size_ = small_.size();
      small_ = std::string();
    }
  }
  std::memcpy(pages_ + size_, piece.data(), piece.size());
  size_ = size;
}

}  // namespace lanemq::http
