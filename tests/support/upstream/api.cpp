// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/api.hpp"

namespace lanemq::upstream {

std::unique_ptr<EventWriter> Api::events(const Completion&) const {
  return nullptr;
}

const Api* find_api(std::string_view path) {
  for (const Api* api : {&chat_api(), &completions_api(), &embeddings_api(), &responses_api(),
                         &messages_api(), &count_tokens_api()})
    if (api->path() == path) return api;
  return nullptr;
}

}  // namespace lanemq::upstream
