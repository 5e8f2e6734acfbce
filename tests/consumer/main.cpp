// SPDX-License-Identifier: Apache-2.0
// Runs a worker and a client of a broker: consumer CLIENTS_ENDPOINT WORKERS_ENDPOINT. Prints the answer.
#include <iostream>
#include <memory>
#include <string>
#include <thread>

#include <lanemq/client.hpp>
#include <lanemq/loop_client.hpp>
#include <lanemq/version.hpp>
#include <lanemq/worker.hpp>

namespace {

class Shout : public lanemq::Handler {
  void start(const lanemq::JobCall& job, lanemq::Completion done) override {
    done.success(lanemq::Blob::copy(std::string(job.body.bytes()) + "!"));
  }
};

}  // namespace

int main(int, char** argv) {
  lanemq::WorkerOptions options;
  options.broker = argv[2];
  lanemq::Worker worker(options, {{"shout", std::make_shared<Shout>()}});
  std::thread thread([&] { worker.run(); });

  lanemq::Client client({.endpoint = argv[1]});
  const lanemq::Answer answer = client.submit({.service = "shout"}, std::string("hello")).get();
  worker.stop();
  thread.join();
  if (!answer) {
    std::cerr << answer.error().code << ": " << answer.error().message << "\n";
    return 1;
  }
  std::cout << lanemq::kVersion << " " << lanemq::version() << " " << answer->body.bytes() << "\n";
}
