// SPDX-License-Identifier: Apache-2.0
#include "broker/core/desks/document_answer.hpp"

#include <lanemq/limits.hpp>
#include <lanemq/text.hpp>

namespace lanemq::core {

void answer(Outbox& outbox, const Origin& to, std::string_view ref, const DocumentMap& document) {
  Buffer bytes;
  document.write_to(bytes);
  wire::AdminReply reply;
  reply.document.bytes = bytes.view();
  reply.ref.bytes = ref;
  outbox.add(to.peer, to.address, to.envelope, reply);
}

void refuse(Outbox& outbox, const Origin& to, std::string_view ref, const Error& why) {
  wire::ErrorReply reply;
  reply.code = lanemq::name_of(why.code);
  reply.message = beginning(why.message, limits::text_bytes_max);
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
