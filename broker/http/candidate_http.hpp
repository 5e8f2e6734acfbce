// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "broker/http/access/options.hpp"
#include "broker/http/admin_http.hpp"
#include "broker/http/readiness.hpp"

namespace lanemq::admin {

/// The HTTP of a broker that does not own its store yet, on a thread of its own: `/healthz`, `/readyz`, and
/// for all else an error that says why. There is no loop yet that could answer.
class CandidateHttp {
 public:
  /// Listens and starts the thread. Throws std::runtime_error, which names the address, where it cannot
  /// listen.
  CandidateHttp(const HttpOptions& options, HttpChange now, Candidacy candidacy);
  /// Ends the thread, and closes its connections.
  ~CandidateHttp();
  CandidateHttp(const CandidateHttp&) = delete;
  CandidateHttp& operator=(const CandidateHttp&) = delete;

  /// Where it listens; another server may have the port when this one is gone.
  std::uint16_t port() const;
  /// Sets the answer of `/readyz` from now on. Thread-safe, and so is change().
  void tell(Candidacy candidacy);
  /// For connections to come.
  void change(HttpChange change);

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace lanemq::admin
