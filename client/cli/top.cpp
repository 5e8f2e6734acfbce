// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "client/cli/base/broker_link.hpp"
#include "client/cli/base/command_line.hpp"
#include "client/cli/text/admin_text.hpp"
#include "client/cli/text/stats_table.hpp"
#include "client/cli/text/table.hpp"
#include "client/cli/text/terminal.hpp"

namespace lanemq::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRefresh{1'000};
/// Lanes, clients and workers, among which the busiest are searched.
constexpr std::size_t kRowsLookedAt = 1'000;

/// Switches to the terminal's alternate screen, without a cursor and with unbuffered keys; restores the
/// terminal at its end.
class FullScreen {
 public:
  FullScreen() {
    keys_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetattr(STDIN_FILENO, &before_) == 0;
    if (keys_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    put("\x1b[?1049h\x1b[?25l");
  }
  ~FullScreen() {
    put("\x1b[?25h\x1b[?1049l");
    if (keys_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  FullScreen(const FullScreen&) = delete;
  FullScreen& operator=(const FullScreen&) = delete;

  bool draw(const std::vector<std::string>& lines) const {
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
      size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    std::string picture = "\x1b[H";
    const std::size_t rows = std::min<std::size_t>(lines.size(), size.ws_row);
    for (std::size_t row = 0; row < rows; ++row) {
      const bool head = row > 0 && lines[row - 1].empty() && output_takes_colour();
      picture +=
          (head ? "\x1b[1m" : "") + cropped(lines[row], size.ws_col) + (head ? "\x1b[0m" : "") + "\x1b[K";
      if (row + 1 < rows) picture += "\n";
    }
    return put(picture + "\x1b[J");
  }

  /// Waits for the time, a key, a signal or a new window size. Returns whether to go on.
  bool wait(Clock::time_point until) const {
    while (interrupted() == 0) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      if (left.count() <= 0) return true;
      pollfd watched[] = {{.fd = keys_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0},
                          {.fd = signal_descriptor(), .events = POLLIN, .revents = 0}};
      if (::poll(watched, std::size(watched), static_cast<int>(left.count())) <= 0) continue;
      if (watched[1].revents != 0) {
        hush_signals();
        return interrupted() == 0;
      }
      char pressed = 0;
      if (::read(STDIN_FILENO, &pressed, 1) <= 0 || pressed == 'q' || pressed == 'Q') return false;
    }
    return false;
  }

 private:
  termios before_{};
  bool keys_ = false;
};

/// The facts of a picture; empty: they cannot be had, which was printed, or interrupted().
std::optional<TopFacts> look(Client& client, const Common& common, bool json, int& code) {
  TopFacts facts;
  for (std::optional<std::int64_t> from = 0; from;) {
    std::future<Reply<BrokerStats>> pending = client.stats(*from);
    const std::optional<Reply<BrokerStats>> reply = wait_for(pending, client, common);
    if (!reply || !*reply) {
      code = reply ? end_refused(reply->error(), json) : end_unreached(common, json);
      return std::nullopt;
    }
    from = add_stats_page(facts.stats, (*reply)->json, *from);
  }
  for (const auto& [verb, document] :
       {std::pair{"lanes", &facts.lanes}, {"workers", &facts.workers}, {"clients", &facts.clients}}) {
    std::optional<std::string> list = ask_operator(client, common, {.verb = verb}, kRowsLookedAt, json, code);
    if (!list) return std::nullopt;
    *document = std::move(*list);
  }
  return facts;
}

int top(const Common& common, bool json) {
  Client client(client_options(common));
  int code = kExitDone;
  std::optional<TopFacts> facts = look(client, common, json, code);
  if (!facts) return code;
  if (json)
    return put_json("{\"stats\":" + facts->stats + ",\"lanes\":" + facts->lanes +
                    ",\"workers\":" + facts->workers + ",\"clients\":" + facts->clients + "}\n")
               ? kExitDone
               : kExitFailed;
  if (!output_is_terminal()) {
    std::string picture;
    for (const std::string& line : top_lines(*facts, {}, {}))
      picture += line + "\n";
    return put(picture) ? kExitDone : kExitFailed;
  }
  catch_interrupts();
  {
    const HeldWords held;  // until the screen is left
    const FullScreen screen;
    TopFacts before;
    Clock::time_point looked_at = Clock::now(), looked_before = looked_at;
    while (screen.draw(top_lines(*facts, before, looked_at - looked_before))) {
      if (!screen.wait(looked_at + kRefresh)) return kExitDone;
      if (Clock::now() < looked_at + kRefresh) continue;  // only the window's size has changed
      before = std::move(*facts);
      looked_before = looked_at;
      looked_at = Clock::now();
      facts = look(client, common, false, code);
      if (interrupted() != 0) return kExitDone;
      if (!facts) break;
    }
  }
  return code == kExitDone ? kExitFailed : code;
}

}  // namespace

void add_top(CommandLine& line) {
  CLI::App& command =
      line.add("top", "Watch lanes, budgets, workers and clients on the whole screen; q quits");
  const auto json = std::make_shared<bool>(false);
  command.add_flag("--json", *json, "Once, all that the screen is made of as JSON, in one line");
  line.on_chosen(command, Asks::operators, [json](const Common& common) { return top(common, *json); });
}

}  // namespace lanemq::cli
