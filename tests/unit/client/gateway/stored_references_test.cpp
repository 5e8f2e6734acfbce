// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/apis/stored_references.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kCreated =
    "event: response.created\ndata: "
    "{\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\",\"output\":[]}}\n\n";
const std::string kAdded =
    "data: {\"type\":\"response.output_item.added\",\"item\":{\"type\":\"message\",\"id\":\"msg_1\"}}\n\n";

TEST(StoredIds, are_those_of_an_answer_its_items_and_their_containers) {
  EXPECT_THAT(stored_ids_of(R"({"object":"response","output":[{"id":"msg_1","content":[{"id":"inner"}]},
                                {"id":"ci_1","container_id":"cntr_1"},{"type":"x"},
                                {"id":"sh_1","environment":{"container_id":"cntr_2"}}],"id":"resp_1"})"),
              ElementsAre("resp_1", "msg_1", "ci_1", "cntr_1", "sh_1", "cntr_2"));
  EXPECT_THAT(stored_ids_of(R"({"object":"list","data":[{"id":"msg_1"},{"id":"msg_2"}]})"),
              ElementsAre("msg_1", "msg_2"));
  for (const char* none : {"[1]", "", "{", R"({"id":7,"output":{}})", R"({"output":[{"id":null}]})"})
    EXPECT_THAT(stored_ids_of(none), IsEmpty()) << none;
}

TEST(StoredIds, of_parts_are_containers_messages_and_audio) {
  EXPECT_THAT(part_ids_of(R"({"type":"message","id":"msg_1","container":{"id":"c_1"}})"),
              ElementsAre("c_1", "msg_1"));
  EXPECT_THAT(part_ids_of(R"({"id":"chat_1","choices":[{"message":{"audio":{"id":"a_1"}}},{"message":{}}]})"),
              ElementsAre("a_1"));
  StreamedIds streamed;
  EXPECT_THAT(streamed.take("data: {\"choices\":[{\"delta\":{\"audio\":{\"id\":\"a_2\"}}}]}\n\n"),
              ElementsAre("a_2"));
}

TEST(References, of_a_chat_are_the_audio_of_earlier_answers) {
  const auto ids_in = [](std::string_view body) {
    std::vector<StoredReference> found;
    add_references_of_messages(body, found);
    std::vector<std::string> ids;
    for (const StoredReference& one : found)
      ids.push_back(one.id);
    return ids;
  };
  EXPECT_THAT(
      ids_in(R"({"messages":[{"role":"user","content":"x"},{"role":"assistant","audio":{"id":"a_1"}}]})"),
      ElementsAre("a_1"));
  EXPECT_THAT(
      ids_in(R"({"messages":[{"\u0061udio":{"id":"a_1","ID":"a_2"}}],"Messages":[{"Audio":{"id":"a_3"}}]})"),
      ElementsAre("a_1", "a_2", "a_3"));
  EXPECT_THAT(
      ids_in(R"({"audio":{"voice":"x"},"messages":[{"content":[{"type":"input_audio"}],"audio":null}]})"),
      IsEmpty());
}

TEST(StoredIds, of_one_answer_are_bounded) {
  std::string items = R"({"id":"first"})";
  for (std::size_t i = 0; i < 2 * kStoredIdsMax; ++i)
    items += R"(,{"id":"more"})";
  EXPECT_EQ(stored_ids_of(R"({"id":"resp_1","output":[)" + items + "]}").size(), kStoredIdsMax);

  StreamedIds streamed;
  std::size_t found = 0;
  for (std::size_t i = 0; i < 2 * kStoredIdsMax; ++i)
    found += streamed.take(kAdded).size();
  EXPECT_EQ(found, kStoredIdsMax);
}

TEST(StreamedIds, are_read_however_the_stream_is_cut) {
  const std::string stream = kCreated + "data: nonsense\n\n: ka\n" + kAdded + "data: [DONE]\n\n";
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    StreamedIds streamed;
    std::vector<std::string> ids = streamed.take(stream.substr(0, cut));
    for (std::string& id : streamed.take(stream.substr(cut)))
      ids.push_back(std::move(id));
    EXPECT_THAT(ids, ElementsAre("resp_1", "msg_1")) << cut;
  }
}

TEST(StreamedIds, are_found_behind_a_line_that_is_too_long) {
  StreamedIds streamed;
  EXPECT_THAT(streamed.take(kCreated), ElementsAre("resp_1"));
  EXPECT_THAT(streamed.take("data: {\"item\":{\"id\":\"lost\",\"x\":\"" +
                            std::string(StreamedIds::kLineBytesMax, 'x')),
              IsEmpty());
  EXPECT_THAT(streamed.take("\"}}\n\n" + kAdded), ElementsAre("msg_1"));
}

}  // namespace
}  // namespace lanemq::gateway
