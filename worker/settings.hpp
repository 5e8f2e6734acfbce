// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/worker.hpp>

#include "worker/handlers/http/http_client.hpp"

namespace lanemq::worker {

/// A service as it is asked for.
struct ServiceSettings {
  std::string name;
  std::string handler;               ///< `echo` or `http`
  std::string argument;              ///< milliseconds, or a URL
  std::vector<std::string> headers;  ///< as written: secrets not yet resolved
};

/// All that the program can be told.
struct Settings {
  WorkerOptions worker;
  HttpOptions http;
  std::vector<std::string> http_headers;  ///< of all http services
  std::vector<ServiceSettings> services;
  std::string log_level = "info";
};

/// A mistake in what the program was told: one line for a person.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What parse() found to be asked for.
struct Request {
  enum class Kind : unsigned char { run, print };
  Kind kind = Kind::run;
  Settings settings;
  std::string text;  ///< to print: the help or the version
};

/// Looks up an environment variable; null when it is not set.
using Environment = std::function<const char*(const std::string& name)>;

/// Reads the command line, the environment and the file that --config names; a flag wins over a variable,
/// that over the file. Throws UsageError.
Request parse(int argc, const char* const* argv, const Environment& environment);

/// `NAME=HANDLER[:ARGUMENT]`: `chat=http:https://api.example/v1/chat/completions`, `slow=echo:50`. A URL
/// alone stands for the http handler. Throws UsageError.
ServiceSettings parse_service(std::string_view text);

/// A header line with its secrets filled in: a word of the value that is `env:NAME` becomes that variable,
/// one that is `file:PATH` the content of that file without its last line end. Throws UsageError, which names
/// the header and the variable or file, never a value.
std::string resolve_header(const std::string& line, const Environment& environment);

}  // namespace lanemq::worker
