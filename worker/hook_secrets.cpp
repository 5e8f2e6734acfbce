// SPDX-License-Identifier: Apache-2.0
#include "worker/hook_secrets.hpp"

#include <sstream>
#include <utility>

#include <lanemq/text.hpp>

#include "common/settings/secrets/secret_source.hpp"

namespace lanemq::worker {

HookSecretSources::HookSecretSources(const std::string& service, std::vector<std::string> sources,
                                     Environment environment) try
    : service_(service), sources_(std::move(sources)), environment_(std::move(environment)), texts_(read()) {
} catch (const UsageError& error) {
  throw UsageError("service \"" + printable(service) + "\": " + error.what());
}

std::vector<std::string> HookSecretSources::read() const {
  std::vector<std::string> texts;
  for (const std::string& source : sources_) {
    std::istringstream words(settings::read_secret(source, environment_));
    for (std::string word; words >> word;) {
      try {
        static_cast<void>(HookSecret(word));
      } catch (const UsageError& error) {
        throw UsageError("secrets: what " + printable(source) + " has " + error.what());
      }
      texts.push_back(std::move(word));
    }
  }
  if (texts.empty() || texts.size() > WebhookOptions::kSecretsMax)
    throw UsageError("secrets: there are " + std::to_string(texts.size()) +
                     ", and it may be one, or two while they are rotated");
  return texts;
}

std::vector<SecretChange> HookSecretSources::read_again() {
  try {
    std::vector<std::string> texts = read();
    if (texts == texts_) return {};
    texts_ = std::move(texts);
    return {{.use = "secrets", .problem = {}}};
  } catch (const UsageError& error) {
    return {{.use = "secrets", .problem = error.what()}};
  }
}

std::vector<HookSecret> HookSecretSources::secrets() const {
  std::vector<HookSecret> secrets;
  for (const std::string& text : texts_)
    secrets.emplace_back(text);
  return secrets;
}

void HookSecretSources::hide_variables() const {
  for (const std::string& source : sources_)
    settings::hide_secret(source);
}

}  // namespace lanemq::worker
