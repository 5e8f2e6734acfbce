// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/http/server/base/loop.hpp"
#include "common/http/server/base/turn_clock.hpp"

namespace lanemq::http {

class AsioTimer final : public Loop::Timer {
 public:
  AsioTimer(boost::asio::io_context& context, TurnClock& turns)
      : state_(std::make_shared<State>(context, turns)) {}
  ~AsioTimer() override { cancel(); }

  void after(std::chrono::milliseconds pause, std::function<void()> then) override {
    const std::uint64_t turn = ++state_->turn;
    state_->then = std::move(then);
    state_->timer.expires_after(pause);
    // `turn` detects an expiry that was under way when the timer was set anew.
    state_->timer.async_wait([state = state_, turn](boost::system::error_code error) {
      if (error || turn != state->turn) return;
      const TurnClock::Turn noted(state->turns);
      const std::function<void()> due = std::exchange(state->then, nullptr);
      if (due) due();
    });
  }
  void cancel() override {
    ++state_->turn;
    state_->then = nullptr;
    state_->timer.cancel();
  }

 private:
  struct State {
    State(boost::asio::io_context& context, TurnClock& clock) : timer(context), turns(clock) {}
    boost::asio::steady_timer timer;
    TurnClock& turns;
    std::uint64_t turn = 0;
    std::function<void()> then;
  };
  std::shared_ptr<State> state_;
};

class AsioWatch final : public Loop::Watch {
 public:
  AsioWatch(boost::asio::io_context& context, TurnClock& turns, int fd, std::function<void()> readable)
      : state_(std::make_shared<State>(context, turns, fd, std::move(readable))) {
    wait(state_);
  }
  ~AsioWatch() override {
    state_->over = true;
    state_->descriptor.release();  // its owner closes it
  }

 private:
  struct State {
    State(boost::asio::io_context& context, TurnClock& clock, int fd, std::function<void()> then)
        : descriptor(context, fd), turns(clock), readable(std::move(then)) {}
    boost::asio::posix::stream_descriptor descriptor;
    TurnClock& turns;
    const std::function<void()> readable;
    bool over = false;
  };

  static void wait(const std::shared_ptr<State>& state) {
    state->descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                                 [state](boost::system::error_code error) {
                                   if (error || state->over) return;
                                   const TurnClock::Turn noted(state->turns);
                                   try {
                                     state->readable();
                                   } catch (...) {
                                     if (!state->over) wait(state);  // watching goes on
                                     throw;
                                   }
                                   if (!state->over) wait(state);
                                 });
  }

  std::shared_ptr<State> state_;
};

}  // namespace lanemq::http
