// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/document_answer.hpp"

namespace lanemq::core {

void answer(Outbox& outbox, const Origin& to, std::string_view ref, const DocumentMap& document) {
  Buffer bytes;
  document.write_to(bytes);
  wire::AdminReply reply;
  reply.document.bytes = bytes.view();
  reply.ref.bytes = ref;
  outbox.add(to.peer, to.address, to.envelope, reply);
}

DocumentMap list(std::string_view name, const DocumentPage& page, std::optional<std::size_t> next) {
  DocumentMap document;
  document.rows(name, page);
  if (next) document.integer("next", static_cast<std::int64_t>(*next));
  return document;
}

}  // namespace lanemq::core
