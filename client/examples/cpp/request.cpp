// SPDX-License-Identifier: Apache-2.0
// Has one job done and prints its answer.   request [ENDPOINT [SERVICE [BODY]]]
#include <chrono>
#include <cstdlib>
#include <future>
#include <iostream>
#include <string>

#include <lanemq/client.hpp>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  lanemq::ClientOptions options;
  options.endpoint = argc > 1 ? argv[1] : "tcp://127.0.0.1:5570";
  if (const char* key = std::getenv("LANEMQ_BROKER_KEY"))
    options.keys = {.broker = key, .secret = std::getenv("LANEMQ_SECRET_KEY")};
  lanemq::Client client(options);

  // The library gives the job an id, and asks again by it when the broker is silent.
  const auto begun = Clock::now();
  auto answer =
      client.submit({.service = argc > 2 ? argv[2] : "echo"}, std::string(argc > 3 ? argv[3] : "hello"));
  while (answer.wait_for(1s) != std::future_status::ready) {
    const auto silent = Clock::now() - client.counters().heard.value_or(begun);
    if (silent >= 2s) std::cerr << "no answer yet\n";
    if (silent < 20s) continue;
    std::cerr << "no answer\n";
    return 3;
  }
  const lanemq::Answer end = answer.get();
  if (!end) {
    std::cerr << end.error().code << ": " << end.error().message << "\n";
    return 1;
  }
  std::cout << end->body.bytes() << "\n";
}
