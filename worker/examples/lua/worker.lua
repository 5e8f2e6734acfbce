-- SPDX-License-Identifier: Apache-2.0
-- Serves `echo` and `words` until TERM or Ctrl-C.   worker.lua [ENDPOINT]
package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local ffi = require "ffi"

-- Before libzmq's threads are made: signals are read from a descriptor.
ffi.cdef [[
typedef struct { unsigned long bits[16]; } sigset_t;
int sigemptyset(sigset_t *set);
int sigaddset(sigset_t *set, int signal);
int sigprocmask(int how, const sigset_t *set, sigset_t *old);
int signalfd(int fd, const sigset_t *set, int flags);
]]
local SIGINT, SIGTERM, SIG_BLOCK, SIG_UNBLOCK, SFD_NONBLOCK = 2, 15, 0, 1, 0x800
local ends = ffi.new "sigset_t[1]"
ffi.C.sigemptyset(ends)
ffi.C.sigaddset(ends, SIGINT)
ffi.C.sigaddset(ends, SIGTERM)
ffi.C.sigprocmask(SIG_BLOCK, ends, nil)
ffi.cdef "long read(int fd, void *buffer, size_t size);"
local signals = ffi.C.signalfd(-1, ends, SFD_NONBLOCK)

local lmq1 = require "lmq1"
local endpoint = arg[1] or "tcp://127.0.0.1:5571"
local ready = {services = {"echo", "words"}, capacity = 4, resumes = true}
local jobs = {} -- "job attempt" -> what is held until the broker has answered its outcome
local interval = 0.8 -- seconds; until `welcome` says another
local terminated, drained = false, false -- by a signal; by an operator
local worker, heard, due, introduced, welcomed

-- A job's number has up to 16 digits, of which tostring() would leave 14.
local function name_of(job, attempt) return ("%.0f %.0f"):format(job or 0, attempt or 0) end

local function with(lease, fields)
  for name, value in pairs(lease) do fields[name] = value end
  return fields
end

local function goes_on(job) return job and job.sent < #job.pieces end

local function window_has_room(job)
  local bytes = 0
  for seq = job.taken, job.sent - 1 do bytes = bytes + #job.pieces[seq + 1] end
  return job.sent - job.taken < 64 and bytes < 262144
end

-- Says the pieces that the window has room for, and behind the last one the outcome.
local function go_on(job)
  while goes_on(job) do
    if not window_has_room(job) then return end
    worker:say("chunk", with(job.lease, {seq = job.sent}), job.pieces[job.sent + 1])
    job.sent = job.sent + 1
  end
  worker:say(job.op, with(job.lease, {class = job.class, code = job.code}), job.body)
end

local function beat()
  local held = {}
  for _, job in pairs(jobs) do held[#held + 1] = {job.lease.job, job.lease.attempt} end
  worker:say("heartbeat", {jobs = held})
  due = lmq1.now() + interval
end

-- What a broker hears first, and again when it does not know this worker: who it is, and all that it holds.
local function introduce()
  introduced, welcomed = lmq1.now(), false
  worker:say("ready", ready)
  beat()
  for _, job in pairs(jobs) do
    job.sent = job.taken
    go_on(job)
  end
end

local function reconnect()
  if worker then worker:close() end
  worker = lmq1.connect(lmq1.DEALER, endpoint, 1000)
  heard = lmq1.now()
  introduce()
end

local function take(fields, body)
  local job = {lease = {job = fields.job, attempt = fields.attempt}, pieces = {}, sent = 0, taken = 0, op = "result", body = body}
  if terminated or drained then
    job.op, job.class, job.body = "error", "released", nil
  elseif fields.stream then
    for piece in body:gmatch(fields.service == "words" and "%S+" or "[^\n]*\n?") do
      if piece ~= "" then job.pieces[#job.pieces + 1] = piece end
    end
    job.body = nil
  end
  return job
end

local function hear_error(fields, lease)
  if fields.code == "stale" then
    jobs[lease] = nil
  elseif fields.code ~= "unknown_session" then
    io.stderr:write(fields.code, ": ", fields.message or "", "\n")
  elseif welcomed or lmq1.now() > introduced + interval then -- else the answer to `ready` is on its way
    introduce()
  end
end

local function hear(op, fields, body)
  local lease = name_of(fields.job, fields.attempt)
  local job = jobs[lease]
  if op == "welcome" then
    ready.session, interval, welcomed, drained = fields.session, fields.heartbeat_ms / 1000, true, false
    beat()
  elseif op == "drain" then
    drained = true
  elseif op == "bye" then
    reconnect()
  elseif op == "job" and not job then
    for name, held in pairs(jobs) do
      if held.lease.job == fields.job then jobs[name] = nil end -- an older attempt, which is over
    end
    jobs[lease] = take(fields, body)
    go_on(jobs[lease])
  elseif op == "window" and job then
    job.taken = math.max(job.taken, fields.seq + 1)
    if goes_on(job) then go_on(job) end
  elseif op == "cancel" and goes_on(job) then
    while goes_on(job) do table.remove(job.pieces) end
    job.op, job.class, job.code, job.body = "error", "retry", "cancelled", nil
    go_on(job)
  elseif op == "acked" then
    for _, acked in ipairs(fields.jobs) do jobs[name_of(acked[1], acked[2])] = nil end
  elseif op == "error" then
    hear_error(fields, lease)
  end
end

reconnect()
while not terminated or next(jobs) do
  local op, fields, body = worker:hear(due - lmq1.now(), not terminated and signals or nil)
  if not terminated and ffi.C.read(signals, ffi.new "char[128]", 128) > 0 then
    terminated = true
    ffi.C.sigprocmask(SIG_UNBLOCK, ends, nil) -- a second one ends it at once
  end
  if op then
    heard = lmq1.now()
    hear(op, fields, body)
  end
  if lmq1.now() > heard + 3 * interval then
    io.stderr:write "the broker is silent\n"
    reconnect()
  elseif lmq1.now() >= due then
    if welcomed then beat() else introduce() end
  end
end
worker:say("bye", {})
worker:finish()
