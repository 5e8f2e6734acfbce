// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/outgoing.hpp"

#include <algorithm>

namespace lanemq::http {

void Outgoing::add(Piece piece) {
  unwritten_ += piece.size();
  pieces_.push_back(std::move(piece));
}

Gathered Outgoing::gather(std::size_t skip) const {
  Gathered gathered;
  skip += offset_;
  for (const Piece& piece : pieces_) {
    for (std::string_view part : {std::string_view(piece.head), piece.bytes.bytes(), piece.tail}) {
      const std::size_t skipped = std::min(skip, part.size());
      skip -= skipped;
      part.remove_prefix(skipped);
      gathered.add(part);
    }
    if (gathered.full()) break;
  }
  return gathered;
}

void Outgoing::accepted(std::size_t bytes) {
  unwritten_ -= bytes;
  offset_ += bytes;
  while (!pieces_.empty() && offset_ >= pieces_.front().size()) {
    offset_ -= pieces_.front().size();
    const std::function<void()> written = std::move(pieces_.front().written);
    pieces_.pop_front();
    if (written) written();
  }
}

std::size_t Outgoing::clear() {
  pieces_.clear();
  offset_ = 0;
  due_ = TimePoint::max();
  return std::exchange(unwritten_, 0);
}

}  // namespace lanemq::http
