// SPDX-License-Identifier: Apache-2.0
#include "broker/program/refused.hpp"

#include <stdexcept>
#include <string>

#include "broker/config/settings.hpp"
#include "broker/io/loop/server.hpp"
#include "broker/io/peers/router.hpp"
#include "common/log/log.hpp"
#include "common/settings/secrets/secret_shapes.hpp"

namespace lanemq::program {
namespace {

constexpr int kExitUsage = 2, kExitCannotBind = 3, kExitStoreUnusable = 4;

int ends(const std::string& why, int exit_code) {
  log::complain("lanemq-broker: " + settings::without_secrets(why));
  return exit_code;
}

}  // namespace

int refused(const std::exception_ptr& why) {
  try {
    std::rethrow_exception(why);
  } catch (const ConfigError& error) {
    return ends(error.what(), kExitUsage);
  } catch (const std::invalid_argument& error) {
    return ends(error.what(), kExitUsage);
  } catch (const io::StoreDeposed& error) {
    return ends(error.what(), io::kExitDeposed);
  } catch (const io::StoreError& error) {
    return ends(error.what(), kExitStoreUnusable);
  } catch (const io::BindError& error) {
    return ends("cannot bind " + std::string(error.what()) +
                    "; choose other endpoints with --clients, --workers, --admin and --http",
                kExitCannotBind);
  } catch (const std::exception& error) {
    return ends(error.what(), 1);
  }
}

}  // namespace lanemq::program
