// SPDX-License-Identifier: Apache-2.0
// Prints the pieces of a job's answer as they come, a line each.   stream [ENDPOINT [SERVICE [BODY]]]
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>
#include <utility>

#include <lanemq/client.hpp>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  lanemq::ClientOptions options;
  options.endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5570";
  if (const char* key = std::getenv("LANEMQ_BROKER_KEY"))
    options.keys = {.broker = key, .secret = std::getenv("LANEMQ_SECRET_KEY")};
  std::promise<lanemq::Answer> promise;
  std::future<lanemq::Answer> answer = promise.get_future();
  lanemq::Client client(options);  // ends before the promise, which its thread fulfils

  // A piece that was printed counts as taken. What is lost with a connection the library asks for again.
  const auto begun = Clock::now();
  const std::string body = argc > 3 ? argv[3] : "one two three";
  client.stream(
      {.service = argc > 2 ? argv[2] : "words"}, lanemq::Blob::copy(body),
      {.on_chunk = [](lanemq::JobChunk piece) { std::cout << piece.body.bytes() << "\n"
                                                          << std::flush; },
       .on_end = [&promise](lanemq::Answer end) { promise.set_value(std::move(end)); }});
  while (answer.wait_for(1s) != std::future_status::ready) {
    if (Clock::now() < client.counters().heard.value_or(begun) + 20s) continue;
    std::cerr << "no answer\n";
    return 3;
  }
  const lanemq::Answer end = answer.get();
  if (!end) {
    std::cerr << end.error().code << ": " << end.error().message << "\n";
    return 1;
  }
  if (end->body.size() > 0) std::cout << end->body.bytes() << "\n";
}
