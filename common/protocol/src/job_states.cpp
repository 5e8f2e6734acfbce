// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <utility>

#include <msgpack.hpp>

#include <lanemq/job_states.hpp>

namespace lanemq {
namespace {

std::string_view text_of(const msgpack::object& value) {
  return value.type == msgpack::type::STR ? std::string_view(value.via.str.ptr, value.via.str.size)
                                          : std::string_view();
}

JobState read_state(const msgpack::object& job) {
  JobState read;
  if (job.type != msgpack::type::MAP) return read;
  for (std::size_t i = 0; i < job.via.map.size; ++i) {
    const msgpack::object_kv& entry = job.via.map.ptr[i];
    if (text_of(entry.key) == "id") read.id = text_of(entry.val);
    if (text_of(entry.key) == "state") read.state = text_of(entry.val);
  }
  return read;
}

}  // namespace

std::vector<JobState> decode_job_states(std::string_view msgpack) try {
  std::vector<JobState> states;
  ::msgpack::zone zone;
  std::size_t read = 0;
  const auto in_place = [](::msgpack::type::object_type, std::size_t, void*) { return true; };
  const ::msgpack::object list = ::msgpack::unpack(zone, msgpack.data(), msgpack.size(), read, in_place);
  if (list.type != ::msgpack::type::ARRAY) return states;
  for (std::size_t i = 0; i < list.via.array.size; ++i)
    if (JobState state = read_state(list.via.array.ptr[i]); !state.id.empty())
      states.push_back(std::move(state));
  return states;
} catch (const ::msgpack::unpack_error&) {
  return {};
} catch (const std::bad_alloc&) {
  return {};
}

}  // namespace lanemq
