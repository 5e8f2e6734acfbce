// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>

#include <lanemq/blob.hpp>

namespace lanemq::http {

/// A piece to be written: its framing, its bytes, and the callback.
struct Piece {
  std::string head{};
  Blob bytes{};
  std::string_view tail{};
  std::function<void()> written{};

  std::size_t size() const { return head.size() + bytes.size() + tail.size(); }
};

/// What one write puts together, of the pieces that wait. A sequence of buffers for Asio.
class Gathered {
 public:
  /// One write copies so much while others wait.
  static constexpr std::size_t kBytesMax = std::size_t{256} * 1024;

  void add(std::string_view part) {
    part = part.substr(0, room_);
    if (part.empty() || full()) return;
    buffers_[count_++] = boost::asio::buffer(part.data(), part.size());
    room_ -= part.size();
  }
  bool full() const { return count_ == buffers_.size() || room_ == 0; }

  const boost::asio::const_buffer* begin() const { return buffers_.data(); }
  const boost::asio::const_buffer* end() const { return buffers_.data() + count_; }

 private:
  static constexpr std::size_t kBuffersMax = 48;

  std::array<boost::asio::const_buffer, kBuffersMax> buffers_;
  std::size_t count_ = 0, room_ = kBytesMax;
};

/// The answers of a connection until the system has accepted them, and how fast they are read. Not
/// thread-safe.
class Outgoing {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void add(Piece piece);
  /// Of what waits, behind the first `skip` bytes.
  Gathered gather(std::size_t skip) const;
  /// The system has accepted so many bytes. Calls the callbacks of what is written to its end; one of them
  /// may clear() this.
  void accepted(std::size_t bytes);
  /// Forgets what waits. Returns how many bytes that were.
  std::size_t clear();
  bool empty() const { return pieces_.empty(); }
  /// Bytes that the system has not accepted.
  std::size_t unwritten() const { return unwritten_; }

  /// Writing begins. False: it is under way.
  bool begin() { return !std::exchange(under_way_, true); }
  void rest() {
    under_way_ = false;
    due_ = TimePoint::max();
  }
  bool under_way() const { return under_way_; }

  /// The system accepts nothing more for now, and `on_the_way` bytes are not acknowledged.
  void wait(std::size_t on_the_way, TimePoint due) {
    on_the_way_ = on_the_way;
    due_ = due;
  }
  bool is_due(TimePoint now) const { return now >= due_; }
  /// Whether the reader has read nothing since wait(), by what is not acknowledged now.
  bool stalls(std::size_t on_the_way) const { return on_the_way >= on_the_way_; }

 private:
  std::deque<Piece> pieces_;
  std::size_t offset_ = 0;  ///< of the first piece: what was written
  std::size_t unwritten_ = 0;
  std::size_t on_the_way_ = 0;
  bool under_way_ = false;
  TimePoint due_ = TimePoint::max();
};

}  // namespace lanemq::http
