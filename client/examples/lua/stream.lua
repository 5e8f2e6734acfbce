-- SPDX-License-Identifier: Apache-2.0
-- Prints the pieces of a job's answer as they come, a line each.   stream.lua [ENDPOINT [SERVICE [BODY]]]
package.path = arg[0]:gsub("[^/]*$", "?.lua;") .. package.path
local lmq1 = require "lmq1"

io.stdout:setvbuf "line"
local endpoint, service, text = arg[1] or "tcp://127.0.0.1:5570", arg[2] or "words", arg[3] or "one two three"
local random = assert(io.open("/dev/urandom", "rb"))
local id = random:read(16):gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)
local client
local taken = 0 -- how many pieces have come, which is the number of the next one

local function fetch() client:say("fetch", {id = id, from_seq = taken, wait_ms = 1000}) end

-- Makes a new connection, and asks by it for the pieces that have not come yet.
local function reconnect()
  if client then client:close() end
  client = lmq1.connect(lmq1.DEALER, endpoint, 0)
  if taken > 0 then fetch() else client:say("submit", {id = id, service = service, stream = true}, text) end
end

local function hear(op, fields, body)
  if op == "chunk" and fields.seq == taken then
    io.write(body, "\n")
    client:say("seen", {id = id, seq = taken})
    taken = taken + 1
  elseif op == "chunk" then -- behind a gap: this client was too slow for what is missing
    if fields.seq > taken then reconnect() end
  elseif op == "status" then -- nothing new for a second; the job goes on
    fetch()
  elseif op == "result" and (fields.chunks or 0) > taken or op == "error" and fields.code == "slow_reader" then
    reconnect()
  elseif op == "result" then
    if body ~= "" then io.write(body, "\n") end
    os.exit(0)
  elseif op == "error" then
    io.stderr:write(fields.code, ": ", fields.message or "", "\n")
    os.exit(1)
  end
end

reconnect()
local silences, waited = 0, 0 -- seconds without any word; without one about the job
while silences < 20 do
  local op, fields, body = client:hear(1)
  if op then
    silences = 0
    if op ~= "pong" then waited = 0 end
    hear(op, fields, body)
  else
    silences, waited = silences + 1, waited + 1
    -- The job may take long: is the broker there?
    if silences % 2 == 0 or waited % 8 == 0 then reconnect() else client:say("ping", {}) end
  end
end
io.stderr:write("no answer\n")
os.exit(3)
