-- SPDX-License-Identifier: Apache-2.0
-- A socket of ZeroMQ's that says and hears LMQ1, for these programs.
local ffi = require "ffi"
local messagepack = require "MessagePack"

ffi.cdef [[
typedef struct { unsigned char opaque[64]; } __attribute__((aligned(8))) zmq_msg_t;
typedef struct { void *socket; int fd; short events, revents; } zmq_pollitem_t;
void *zmq_ctx_new(void);
int zmq_ctx_term(void *context);
void *zmq_socket(void *context, int kind);
int zmq_setsockopt(void *socket, int option, const void *value, size_t size);
int zmq_connect(void *socket, const char *endpoint);
int zmq_close(void *socket);
int zmq_send(void *socket, const void *data, size_t size, int flags);
int zmq_msg_init(zmq_msg_t *frame);
int zmq_msg_recv(zmq_msg_t *frame, void *socket, int flags);
int zmq_msg_more(const zmq_msg_t *frame);
int zmq_msg_close(zmq_msg_t *frame);
void *zmq_msg_data(zmq_msg_t *frame);
size_t zmq_msg_size(const zmq_msg_t *frame);
int zmq_poll(zmq_pollitem_t *items, int count, long milliseconds);
struct timespec { long tv_sec, tv_nsec; };
int clock_gettime(int clock, struct timespec *time);
]]
messagepack.packers.number = messagepack.packers.integer -- All numbers here are whole, and up to 2^53.
local zmq = ffi.load "libzmq.so.5"
local POLLIN, SNDMORE = 1, 2
local LINGER, CURVE_SERVERKEY, CURVE_PUBLICKEY, CURVE_SECRETKEY = 17, 50, 48, 49
local context = zmq.zmq_ctx_new()

local lmq1 = {REQ = 3, DEALER = 5}
local Socket = {}
Socket.__index = Socket

function lmq1.connect(kind, endpoint, linger)
  local socket = setmetatable({handle = zmq.zmq_socket(context, kind)}, Socket)
  zmq.zmq_setsockopt(socket.handle, LINGER, ffi.new("int[1]", linger), 4)
  if os.getenv "LANEMQ_BROKER_KEY" then
    for option, name in pairs {
      [CURVE_SERVERKEY] = "LANEMQ_BROKER_KEY", [CURVE_PUBLICKEY] = "LANEMQ_PUBLIC_KEY", [CURVE_SECRETKEY] = "LANEMQ_SECRET_KEY",
    } do
      zmq.zmq_setsockopt(socket.handle, option, os.getenv(name), 41)
    end
  end
  zmq.zmq_connect(socket.handle, endpoint)
  return socket
end

-- Seconds of a clock that nobody sets.
function lmq1.now()
  local time = ffi.new "struct timespec[1]"
  ffi.C.clock_gettime(1, time)
  return tonumber(time[0].tv_sec) + tonumber(time[0].tv_nsec) / 1e9
end

-- A body has a frame of its own: strings are never msgpack's bin here.
function Socket:say(op, fields, body)
  -- An empty table would be written as a list.
  local header = next(fields) and messagepack.pack {"LMQ1", op, fields} or "\x93" .. messagepack.pack "LMQ1" .. messagepack.pack(op) .. "\x80"
  zmq.zmq_send(self.handle, header, #header, body and SNDMORE or 0)
  if body then zmq.zmq_send(self.handle, body, #body, 0) end
end

local function receive(handle)
  local frames = {}
  local frame = ffi.new "zmq_msg_t[1]"
  repeat
    zmq.zmq_msg_init(frame)
    zmq.zmq_msg_recv(frame, handle, 0)
    frames[#frames + 1] = ffi.string(zmq.zmq_msg_data(frame), zmq.zmq_msg_size(frame))
    local more = zmq.zmq_msg_more(frame) ~= 0
    zmq.zmq_msg_close(frame)
  until not more
  return frames
end

-- The op, the fields and the body of the next message; nothing when there was none for so many seconds, or when the
-- descriptor `besides` can be read.
function Socket:hear(seconds, besides)
  local items = ffi.new "zmq_pollitem_t[2]"
  items[0].socket, items[0].events = self.handle, POLLIN
  items[1].fd, items[1].events = besides or -1, POLLIN
  zmq.zmq_poll(items, besides and 2 or 1, math.max(0, math.ceil(1000 * seconds)))
  if items[0].revents == 0 then return end
  local frames = receive(self.handle)
  local readable, header = pcall(messagepack.unpack, frames[1])
  if not readable or type(header) ~= "table" then return "", {}, "" end -- a sign of life that a later version may understand
  return header[2], header[3], header[4] or frames[2] or ""
end

function Socket:close() zmq.zmq_close(self.handle) end

-- Closes the socket, and waits for what has to leave yet.
function Socket:finish()
  self:close()
  zmq.zmq_ctx_term(context)
end

return lmq1
