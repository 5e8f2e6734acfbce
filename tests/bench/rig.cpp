// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/rig.hpp"

namespace lanemq::bench {
namespace {

constexpr Seconds kWorkersTimeout{20};

}  // namespace

std::string Rig::name_of(const std::string& end) const {
  return (peer_ == Peer::raw ? "raw " : "lanemq ") + end;
}

void Rig::start_broker(const BrokerOptions& options) {
  std::vector<std::string> command;
  if (peer_ == Peer::raw) {
    command = {settings_.bare_program};
    command.insert(command.end(), options.raw.begin(), options.raw.end());
  } else {
    command = {settings_.lanemq_program, "--clients", "tcp://127.0.0.1:*", "--workers",
               "tcp://127.0.0.1:*",      "--store",   settings_.store};
    command.insert(command.end(), options.lanemq.begin(), options.lanemq.end());
    command.insert(command.end(), settings_.lanemq_keys.begin(), settings_.lanemq_keys.end());
    for (const std::string& setting : settings_.lanemq_settings)
      command.insert(command.end(), {"--set", setting});
  }
  broker_ = children_.start_broker(command);
}

void Rig::start_workers(const Workers& workers) {
  const int count = workers.general + workers.reserved;
  for (int index = 0; index < count; ++index) {
    const WorkerPlace place{.index = index,
                            .capacity = workers.capacity,
                            .batch = workers.batch,
                            .reserved = index >= workers.general};
    children_.fork_end(name_of("worker " + std::to_string(index)), [this, place] {
      const auto worker = peer_ == Peer::raw ? make_bare_worker(broker_.workers, place)
                                             : make_lmq1_worker(broker_.workers, place);
      worker->announce();
      ++control_->workers_ready;
      worker->run(Performer(control_->work_done));
    });
  }
  children_.wait_until(
      "every worker is ready", [&] { return control_->workers_ready == count; }, kWorkersTimeout);
}

pid_t Rig::start_client(const std::string& name, SendAhead ahead, const std::function<void(ClientEnd&)>& body,
                        std::size_t batch) {
  return children_.fork_end(name_of(name), [this, ahead, &body, batch] {
    const auto client = peer_ == Peer::raw ? make_bare_client(broker_.clients, ahead, batch)
                                           : make_lmq1_client(broker_.clients, ahead, batch);
    body(*client);
  });
}

}  // namespace lanemq::bench
