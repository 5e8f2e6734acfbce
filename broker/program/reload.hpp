// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "broker/config.hpp"
#include "broker/http/admin_http.hpp"
#include "broker/io/desks/reload_desk.hpp"

namespace lanemq::program {

/// The configuration as it is now. Throws ConfigError, whatever is wrong: a running broker goes on.
Config read_anew(int argc, char** argv);

/// The keys and the certificate for HTTP, read anew. Throws ConfigError that names the fault in their files.
admin::HttpChange http_now(const Config& config);

/// Applies what needs no restart of a configuration that was read again. `options`: the core's, in which
/// operators may have changed lanes and limits. `change_http` is told what counts there from now on.
Result<io::Reloaded> reload(Config& running, const std::function<Config()>& read,
                            const core::Options& options, const io::Objection& objection, io::ReloadMode mode,
                            const std::function<void(admin::HttpChange)>& change_http);

}  // namespace lanemq::program
