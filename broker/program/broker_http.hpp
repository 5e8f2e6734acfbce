// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "broker/config.hpp"
#include "broker/http/admin_http.hpp"
#include "broker/http/candidate_http.hpp"
#include "broker/io/loop/server.hpp"

namespace lanemq::program {

/// The broker's HTTP: of a broker that waits for its store, then of the one that serves; or none. One at a
/// time has the address. Throws io::BindError. Not thread-safe.
class BrokerHttp {
 public:
  /// Says until serve() how the broker waits, where several may wait for its store.
  void wait(Config& config, const io::StoreOptions& store);
  void tell(const io::StoreWaiting& seen);
  /// The broker owns its store.
  void load();
  /// `server` outlives end().
  void serve(const Config& config, io::Server& server);
  /// Its thread speaks to the server, and must end before that.
  void end() { serving_.reset(); }
  void change(admin::HttpChange change);
  /// Empty: it does not serve.
  std::string url() const { return serving_ ? serving_->url() : ""; }

 private:
  std::string instance_, shard_;
  std::unique_ptr<admin::CandidateHttp> waiting_;
  std::unique_ptr<admin::AdminHttp> serving_;
};

}  // namespace lanemq::program
