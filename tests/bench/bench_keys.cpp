// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/bench_keys.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace lanemq::bench {
namespace {

constexpr char kPublic[] = "LANEMQ_BENCH_PUBLIC", kSecret[] = "LANEMQ_BENCH_SECRET";
constexpr std::array<const char*, 2> kSecretOf{"LANEMQ_BENCH_CLIENT", "LANEMQ_BENCH_WORKER"};
using Key = std::array<char, 41>;

std::pair<Key, Key> make_pair_of_keys() {
  std::pair<Key, Key> keys{};
  if (zmq_curve_keypair(keys.first.data(), keys.second.data()) != 0)
    throw std::runtime_error("this libzmq has no CURVE");
  return keys;
}

}  // namespace

BenchKeys::BenchKeys() {
  std::string name = (std::filesystem::temp_directory_path() / "bench-keys-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  folder_ = name;
  const auto broker = make_pair_of_keys();
  setenv(kPublic, broker.first.data(), 1);
  setenv(kSecret, broker.second.data(), 1);
  constexpr std::array<const char*, 2> kRoles{"gateway", "worker"};
  for (std::size_t end = 0; end < kSecretOf.size(); ++end) {
    const auto keys = make_pair_of_keys();
    setenv(kSecretOf[end], keys.second.data(), 1);
    std::ofstream(folder_ + "/" + kRoles[end] + ".toml")
        << "public_key = \"" << keys.first.data() << "\"\nrole = \"" << kRoles[end] << "\"\n";
  }
}

BenchKeys::~BenchKeys() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<std::string> BenchKeys::arguments() const {
  return {"--secret-key", std::string("env:") + kSecret, "--keys-folder", folder_};
}

void show_key(zmq::socket_t& socket, End end) {
  const char* const broker = std::getenv(kPublic);
  const char* const secret = std::getenv(kSecretOf[static_cast<std::size_t>(end)]);
  if (broker == nullptr || secret == nullptr) return;
  Key own{};
  zmq_curve_public(own.data(), secret);
  socket.set(zmq::sockopt::curve_serverkey, broker);
  socket.set(zmq::sockopt::curve_publickey, own.data());
  socket.set(zmq::sockopt::curve_secretkey, secret);
}

void ask_for_keys(zmq::socket_t& socket) {
  const char* const secret = std::getenv(kSecret);
  if (secret == nullptr) return;
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, secret);
}

}  // namespace lanemq::bench
